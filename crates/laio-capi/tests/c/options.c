/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * options.c - making contexts: sizes of other versions, invalid values, every limit.
 */
#include "test.h"

#include <sys/resource.h>

/* The same options are valid for the thread's own context and for further ones. */
static void expect_refused_(const struct laio_options *options, int error)
{
	CHECK_FAILS(laio_init(options), error);
	CHECK_NULL(laio_context_new(options), error);
}

#define expect_refused(options, error) TEST_FROM(expect_refused_(options, error))

static void expect_accepted_(const struct laio_options *options)
{
	struct laio_context *context = laio_context_new(options);

	CHECK(context != NULL);
	CHECK_IS(laio_context_free(context), 0);
	CHECK_IS(laio_init(options), 0);
	CHECK_IS(laio_finish(), 0);
}

#define expect_accepted(options) TEST_FROM(expect_accepted_(options))

static void sizes(void)
{
	struct {
		struct laio_options options;
		unsigned char tail[64];
	} larger;
	struct laio_options options = LAIO_OPTIONS_INIT, *edge;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages;
	int i;

	expect_accepted(NULL);
	expect_accepted(&options);
	for (i = 0; i < 4; i++) {
		options.size = (uint32_t)i;
		expect_refused(&options, EINVAL);
	}

	memset(&larger, 0, sizeof(larger));
	larger.options.size = sizeof(larger);
	expect_accepted(&larger.options);
	for (i = 0; i < (int)sizeof(larger.tail); i++) {
		larger.tail[i] = 0x80;
		expect_refused(&larger.options, E2BIG);
		larger.options.size = (uint32_t)(sizeof(larger.options) + (size_t)i);
		expect_accepted(&larger.options);
		larger.options.size = sizeof(larger);
		larger.tail[i] = 0;
	}

	/* The library reads nothing beyond the given size: the memory behind it is unmapped. */
	pages = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != (char *)MAP_FAILED);
	CHECK_IS(mprotect(pages + page, page, PROT_NONE), 0);
	edge = (struct laio_options *)(void *)(pages + page - sizeof(larger));
	edge->size = sizeof(larger);
	expect_accepted(edge);
	edge = (struct laio_options *)(void *)(pages + page - sizeof(*edge));
	memset(edge, 0, sizeof(*edge));
	edge->size = sizeof(*edge);
	expect_accepted(edge);
	/* The size of the struct before it had the field for carriers. */
	edge = (struct laio_options *)(void *)(pages + page - offsetof(struct laio_options, carriers));
	memset(edge, 0, offsetof(struct laio_options, carriers));
	edge->size = offsetof(struct laio_options, carriers);
	expect_accepted(edge);
	edge = (struct laio_options *)(void *)(pages + page - 8);
	edge->size = 8;
	edge->flags = 0x80000000u;
	expect_refused(edge, EINVAL);
	munmap(pages, 2 * page);
}

static void flags(void)
{
	static const uint32_t known = LAIO_WAIT_AT_LIMIT | LAIO_WITHOUT_RING | LAIO_TRUST_NAMES | LAIO_TRUST_WRITES | LAIO_PURE |
				      LAIO_AIO_BLOCKING | LAIO_SETTLED_RIGHTS | LAIO_PROCESS_RIGHTS |
				      LAIO_INJECT_INLINE | LAIO_INJECT_BACKGROUND |
				      LAIO_INJECT_FALSE_EOF | LAIO_INJECT_ATTEMPTS_FAIL;
	struct laio_options options = LAIO_OPTIONS_INIT;
	int i;

	for (i = 0; i < 32; i++) {
		options.flags = (uint32_t)1 << i;
		if (options.flags & known)
			expect_accepted(&options);
		else
			expect_refused(&options, EINVAL);
	}
	options.flags = UINT32_MAX;
	expect_refused(&options, EINVAL);
}

static void backends(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	static const char *const none[] = {
		"kaio", "Lazy", "lazy ", " lazy", "lazyy", "laz", "sync,threads", "\xff\xfe", "%s%n",
	};
	char name[10000];
	int i;

	for (i = 0; i < TEST_LENGTH(none); i++) {
		options.backend = none[i];
		expect_refused(&options, EINVAL);
	}
	memset(name, 'l', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	options.backend = name;
	expect_refused(&options, EINVAL);

	/* Every name that the library lists is accepted; the context then reports the same name. */
	for (i = 0; laio_strbackend(i); i++) {
		struct laio_info info = LAIO_INFO_INIT;
		struct laio_context *context;

		options.backend = laio_strbackend(i);
		context = laio_context_new(&options);
		/* The list is the same on every machine and for every C library. */
		if (!context && errno == ENOSYS &&
		    (strcmp(options.backend, "activations") == 0 || strcmp(options.backend, "linux-aio") == 0))
			continue;
		if (!context && strcmp(options.backend, "uring") == 0) {
			CHECK(errno == ENOSYS || errno == EPERM || errno == EACCES || errno == ENOMEM);
			continue;
		}
		CHECK(context != NULL);
		CHECK_IS(laio_info(context, &info), 0);
		CHECK(strcmp(info.backend, laio_strbackend(i)) == 0);
		if (strcmp(info.backend, "uring") != 0 && strcmp(info.backend, "lazy") != 0)
			CHECK_IS(info.flags & LAIO_INFO_RING, 0);
		CHECK_IS(laio_context_free(context), 0);
		CHECK(strcmp(info.backend, laio_strbackend(i)) == 0);
	}
}

static void environment(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_info info = LAIO_INFO_INIT;
	char byte = 0;

	if (setenv("LAIO_BACKEND", "no such back end", 1) != 0)
		TEST_FAIL("setenv: %s", strerror(errno));
	expect_refused(NULL, EINVAL);
	expect_refused(&options, EINVAL);
	/* The first use of a thread makes its context, and returns the error. */
	CHECK_FAILS(laio_syscall(SYS_gettid), EINVAL);
	CHECK(laio_gethandle() == NULL);
	CHECK_NULL(laio_context_current(), EINVAL);
	CHECK_FAILS(laio_pending(NULL), EINVAL);
	CHECK_FAILS(laio_syscall(SYS_read, 0, &byte, (size_t)1), EINVAL);
	/* The program's choice has precedence over the environment's. */
	options.backend = "threads";
	expect_accepted(&options);
	options.backend = NULL;
	CHECK_IS(setenv("LAIO_BACKEND", "hybrid", 1), 0);
	CHECK_IS(laio_init(&options), 0);
	CHECK_IS(laio_info(NULL, &info), 0);
	CHECK(strcmp(info.backend, "hybrid") == 0);
	CHECK_IS(laio_finish(), 0);
	/* Empty means the default, like unset. */
	CHECK_IS(setenv("LAIO_BACKEND", "", 1), 0);
	CHECK_IS(laio_info(NULL, &info), 0);
	CHECK(strcmp(info.backend, "lazy") == 0);
	CHECK_IS(laio_finish(), 0);
	CHECK_IS(unsetenv("LAIO_BACKEND"), 0);
	CHECK_IS(laio_info(NULL, &info), 0);
	CHECK(strcmp(info.backend, "lazy") == 0);
	CHECK_IS(laio_finish(), 0);
}

static void limits(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_info info = LAIO_INFO_INIT;
	struct laio_context *context;
	static const int32_t no_signals[] = { -1, SIGKILL, SIGSTOP, 65, 1000, INT32_MAX, INT32_MIN };
	int i;

	/* The defaults that the header documents. */
	CHECK_IS(laio_init(NULL), 0);
	CHECK_IS(laio_info(NULL, &info), 0);
	CHECK_IS(info.operations, 65536);
	CHECK_IS(info.helpers, 64);
	CHECK_IS(info.waiting_helpers, 1024);
	CHECK_IS(info.ring_entries, 128);
	CHECK_IS(info.inline_budget, 256);
	CHECK_IS(info.carriers, 256);
	CHECK_IS(info.spin_us, 50);
	CHECK_IS(laio_finish(), 0);

	options.operations = 1;
	options.helpers = 1;
	options.ring_entries = 1;
	options.inline_budget = 1;
	options.cancel_signal = SIGRTMIN + 3;
	options.short_transfer = 1;
	options.carriers = 1;
	expect_accepted(&options);
	options.operations = 12345;
	options.helpers = 17;
	options.ring_entries = 256;
	options.inline_budget = UINT32_MAX;
	options.carriers = 19;
	options.spin_us = UINT32_MAX;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	CHECK_IS(laio_info(context, &info), 0);
	CHECK_IS(info.operations, 12345);
	CHECK_IS(info.helpers, 17);
	CHECK_IS(info.ring_entries, 256);
	CHECK_IS(info.inline_budget, UINT32_MAX);
	CHECK_IS(info.carriers, 19);
	CHECK_IS(info.spin_us, UINT32_MAX);
	CHECK_IS(laio_context_free(context), 0);

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.ring_entries = 4097;
	expect_refused(&options, EINVAL);
	options.ring_entries = UINT32_MAX;
	expect_refused(&options, EINVAL);
	options.ring_entries = 0;
	options.detector = 3;
	expect_refused(&options, EINVAL);
	options.detector = UINT32_MAX;
	expect_refused(&options, EINVAL);
	options.detector = 0;
	for (i = 0; i < TEST_LENGTH(no_signals); i++) {
		options.cancel_signal = no_signals[i];
		expect_refused(&options, EINVAL);
	}
}

/* Without free descriptors no context can be made, and nothing leaks; with free ones it can. */
static void no_descriptors(void)
{
	struct rlimit before, none;
	int fd, next;

	CHECK_IS(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = dup(2);
	close(fd);
	none = before;
	none.rlim_cur = (rlim_t)fd;
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &none), 0);
	expect_refused(NULL, EMFILE);
	CHECK_FAILS(laio_syscall(SYS_gettid), EMFILE);
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &before), 0);
	next = dup(2);
	CHECK_IS(next, fd);
	close(next);
	expect_accepted(NULL);
}

/* Making and ending contexts leaks no descriptors. */
static void no_leaks(void)
{
	struct laio_context *context;
	int fds[2], first, next, i, pends = test_pends();
	char byte = 0;

	first = dup(2);
	close(first);
	test_pipe(fds);
	for (i = 0; i < 50; i++) {
		context = laio_context_new(NULL);
		CHECK(context != NULL);
		CHECK(laio_fd(context) >= 0);
		if (pends)
			test_begin_read(context, fds[0], &byte, 1);
		CHECK_IS(laio_context_free(context), 0);
	}
	test_close_pipe(fds);
	next = dup(2);
	CHECK_IS(next, first);
	close(next);
}

int main(void)
{
	test_start();
	sizes();
	flags();
	backends();
	limits();
	no_descriptors();
	no_leaks();
	environment();
	return 0;
}

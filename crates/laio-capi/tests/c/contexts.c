/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * contexts.c - making, using and ending contexts; invalid and foreign pointers.
 */
#include "test.h"

/* Every function returns EINVAL for a context of another thread. */
static void expect_no_context_(struct laio_context *context)
{
	struct laio_completion completion;
	struct laio_call call = LAIO_CALL_INIT(SYS_gettid);
	struct laio_counts counts;
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_info info = LAIO_INFO_INIT;
	struct timespec zero = test_ms(0);
	void *handle = &call;

	CHECK_FAILS(laio_context_free(context), EINVAL);
	CHECK_FAILS(laio_context_use(context), EINVAL);
	CHECK_FAILS(laio_submit(context, &call, &handle), EINVAL);
	CHECK(handle == NULL);
	CHECK_FAILS(laio_context_poll(context, &completion, 1, &zero), EINVAL);
	CHECK_FAILS(laio_take(context, &call, &completion), EINVAL);
	CHECK_FAILS(laio_cancel(context, &call), EINVAL);
	CHECK_FAILS(laio_set_user(context, &call, NULL), EINVAL);
	CHECK_FAILS(laio_set_timeout(context, &call, &zero), EINVAL);
	CHECK_FAILS(laio_set_ordered(context, 0, 1), EINVAL);
	CHECK_FAILS(laio_forget(context, 0), EINVAL);
	CHECK_FAILS(laio_pending(context), EINVAL);
	CHECK_FAILS(laio_fd(context), EINVAL);
	CHECK_FAILS(laio_set_signal(context, SIGUSR1, NULL), EINVAL);
	CHECK_FAILS(laio_flush(context), EINVAL);
	CHECK_FAILS(laio_stats(context, &stats), EINVAL);
	CHECK_FAILS(laio_call_stats(context, SYS_read, &counts), EINVAL);
	CHECK_FAILS(laio_info(context, &info), EINVAL);
	CHECK_FAILS(laio_report(context, 2), EINVAL);
}

#define expect_no_context(context) TEST_FROM(expect_no_context_(context))

static void use(void)
{
	struct laio_context *own = laio_context_current(), *first, *second;
	struct laio_call call;
	char bytes[3] = { 0 };
	int fds[2];
	void *handle;

	CHECK(own != NULL);
	CHECK(laio_context_current() == own);
	CHECK_IS(laio_context_use(own), 0);
	CHECK_IS(laio_context_use(NULL), 0);
	CHECK(laio_context_current() == own);

	first = laio_context_new(NULL);
	second = laio_context_new(NULL);
	CHECK(first && second && first != second && first != own && second != own);
	CHECK(laio_context_current() == own);
	CHECK_IS(laio_context_use(first), 0);
	CHECK(laio_context_current() == first);

	/* The short calls, and NULL, mean the current context. */
	test_pipe(fds);
	call = test_call(SYS_read, (uintptr_t)fds[0], (uintptr_t)bytes, 1);
	handle = test_begin(NULL, &call);
	CHECK(laio_gethandle() == handle);
	CHECK_IS(laio_pending(NULL), 1);
	CHECK_IS(laio_pending(first), 1);
	CHECK_IS(laio_pending(second), 0);
	CHECK_IS(laio_pending(own), 0);
	/* It reports the last call of the thread, in any context. */
	call = test_call(SYS_gettid, 0, 0, 0);
	CHECK_IS(laio_submit(second, &call, NULL), syscall(SYS_gettid));
	CHECK(laio_gethandle() == NULL);
	CHECK_IS(laio_submit(first, &call, NULL), syscall(SYS_gettid));
	CHECK(laio_gethandle() == NULL);
	CHECK_IS(laio_context_use(second), 0);
	CHECK_IS(laio_pending(NULL), 0);
	CHECK_IS(write(fds[1], "x", 1), 1);
	CHECK_IS(test_await(first, handle).laio_return_value, 1);

	/* Ending the current context makes the thread's own one current. */
	CHECK_IS(laio_context_free(second), 0);
	CHECK(laio_context_current() == own);
	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	expect_no_context(second);
	/* Ending another context does not. */
	CHECK_IS(laio_context_use(first), 0);
	second = laio_context_new(NULL);
	CHECK(second != NULL);
	CHECK_IS(laio_context_free(second), 0);
	CHECK(laio_context_current() == first);
	CHECK_IS(laio_context_use(NULL), 0);
	CHECK(laio_context_current() == own);
	CHECK_IS(laio_context_free(first), 0);
	CHECK_IS(laio_context_free(NULL), 0);
	test_close_pipe(fds);
}

/* Only laio_finish() ends the thread's own context. */
static void own(void)
{
	struct laio_context *context = laio_context_current();

	CHECK_FAILS(laio_context_free(context), EINVAL);
	CHECK_FAILS(laio_init(NULL), EEXIST);
	CHECK_IS(laio_finish(), 0);
	CHECK_IS(laio_finish(), 0);
	CHECK_IS(laio_init(NULL), 0);
	CHECK_FAILS(laio_init(NULL), EEXIST);
	CHECK(laio_context_current() != NULL);
	CHECK_IS(laio_finish(), 0);
	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	CHECK_FAILS(laio_init(NULL), EEXIST);
	CHECK_IS(laio_finish(), 0);

	/* A further context is not the thread's own, and does not need it. */
	context = laio_context_new(NULL);
	CHECK(context != NULL);
	CHECK_IS(laio_init(NULL), 0);
	CHECK_IS(laio_context_use(context), 0);
	CHECK_IS(laio_finish(), 0);
	CHECK(laio_context_current() == context);
	CHECK_IS(laio_pending(context), 0);
	CHECK_IS(laio_context_free(context), 0);
	CHECK(laio_context_current() != NULL);
	CHECK_IS(laio_finish(), 0);
}

/* Ending a context cancels its operations; the program may then reuse the buffers. */
static void ends_with_operations(void)
{
	static char buffer[256];
	struct laio_context *context;
	char expected[sizeof(buffer)], bytes[8];
	int fds[2], i;

	for (i = 0; i < 2; i++) {
		context = laio_context_new(NULL);
		CHECK(context != NULL);
		test_pipe(fds);
		test_begin_read(i ? context : NULL, fds[0], buffer, sizeof(buffer));
		test_begin_read(i ? context : NULL, fds[0], buffer, sizeof(buffer));
		CHECK_IS(laio_pending(i ? context : NULL), 2);
		CHECK_IS(i ? laio_context_free(context) : laio_finish(), 0);
		memset(buffer, 0x77, sizeof(buffer));
		memset(expected, 0x77, sizeof(expected));
		CHECK_IS(write(fds[1], "written", 8), 8);
		test_nap();
		CHECK(memcmp(buffer, expected, sizeof(buffer)) == 0);
		CHECK_IS(read(fds[0], bytes, 8), 8);
		CHECK_IS(laio_pending(NULL), 0);
		test_close_pipe(fds);
		if (!i)
			CHECK_IS(laio_context_free(context), 0);
	}
}

static void no_contexts(void)
{
	static char memory[4096];
	struct laio_context *context = laio_context_new(NULL);
	void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(context != NULL && hole != MAP_FAILED);
	expect_no_context((struct laio_context *)(void *)memory);
	expect_no_context((struct laio_context *)hole);
	expect_no_context((struct laio_context *)(uintptr_t)1);
	expect_no_context((struct laio_context *)UINTPTR_MAX);
	expect_no_context((struct laio_context *)((char *)context + 1));
	expect_no_context((struct laio_context *)((char *)context + 16));
	CHECK_IS(laio_context_free(context), 0);
	expect_no_context(context);
	munmap(hole, 4096);
}

struct shared {
	struct laio_context *own;
	struct laio_context *further;
};

static void *new_thread(void *argument)
{
	struct shared *shared = (struct shared *)argument;

	expect_no_context(shared->own);
	expect_no_context(shared->further);
	/* Made here; ends with the thread. */
	shared->own = laio_context_current();
	shared->further = laio_context_new(NULL);
	CHECK(shared->own && shared->further);
	return NULL;
}

static void of_other_threads(void)
{
	struct shared shared;
	struct laio_context *own, *further;

	own = shared.own = laio_context_current();
	further = shared.further = laio_context_new(NULL);
	CHECK(own && further);
	test_join(test_thread(new_thread, &shared));
	/* The addresses of an ended thread's context may be in use again, but not by this thread. */
	if (shared.own != own && shared.own != further)
		expect_no_context(shared.own);
	if (shared.further != own && shared.further != further)
		expect_no_context(shared.further);
	CHECK_IS(laio_context_free(further), 0);
	CHECK(laio_context_current() == own);
}

/* Many contexts at a time, freed in another order than made. */
static void many(void)
{
	enum { COUNT = 32 };
	struct laio_context *contexts[COUNT];
	void *handles[COUNT];
	char bytes[COUNT] = { 0 };
	int fds[COUNT][2], i;

	for (i = 0; i < COUNT; i++) {
		contexts[i] = laio_context_new(NULL);
		CHECK(contexts[i] != NULL);
		test_pipe(fds[i]);
		handles[i] = test_begin_read(contexts[i], fds[i][0], &bytes[i], 1);
	}
	for (i = 0; i < COUNT; i += 2)
		CHECK_IS(laio_context_free(contexts[i]), 0);
	for (i = 1; i < COUNT; i += 2) {
		CHECK_IS(write(fds[i][1], "x", 1), 1);
		CHECK_IS(test_await(contexts[i], handles[i]).laio_return_value, 1);
	}
	for (i = COUNT - 1; i >= 0; i -= 2)
		CHECK_IS(laio_context_free(contexts[i]), 0);
	for (i = 0; i < COUNT; i++)
		test_close_pipe(fds[i]);
}

int main(void)
{
	test_start();
	own();
	no_contexts();
	of_other_threads();
	if (!test_pends())
		test_skip("contexts with operations: no call goes to the background in this back end");
	use();
	ends_with_operations();
	many();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * counts.c - statistics, counts of one call, the parts of a context, and the report for people.
 */
#include "test.h"

/* The counts themselves are tested by the contract, through C too. */
static void stats(void)
{
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_counts counts;
	struct laio_context *context = laio_context_new(NULL);
	struct laio_call call = test_call(SYS_gettid, 0, 0, 0);

	CHECK(context != NULL);
	CHECK_IS(laio_submit(context, &call, NULL), syscall(SYS_gettid));
	CHECK_IS(laio_stats(context, &stats), 0);
	CHECK_IS(stats.size, sizeof(stats));
	CHECK_IS(stats.calls.inline_done, 1);
	/* Contexts share no counts. */
	CHECK_IS(laio_stats(NULL, &stats), 0);
	CHECK_IS(stats.calls.inline_done, 0);
	CHECK_IS(laio_context_free(context), 0);

	/* Numbers without a system call have no counts. */
	CHECK_IS(laio_call_stats(NULL, -1, &counts), 0);
	CHECK_IS(counts.inline_done + counts.background + counts.fallback + counts.latched, 0);
	CHECK_IS(laio_call_stats(NULL, LONG_MAX, &counts), 0);
	CHECK_IS(laio_call_stats(NULL, LONG_MIN, &counts), 0);
	CHECK_FAILS(laio_call_stats(NULL, SYS_read, NULL), EFAULT);
	CHECK_FAILS(laio_stats(NULL, NULL), EFAULT);
	CHECK_FAILS(laio_info(NULL, NULL), EFAULT);
}

static void info(void)
{
	struct laio_info info = LAIO_INFO_INIT;
	struct laio_context *context = laio_context_new(NULL);
	char byte = 0;
	int fds[2], i, known = 0;
	uint64_t memory;
	void *handle;

	CHECK(context != NULL);
	CHECK_IS(laio_info(context, &info), 0);
	CHECK_IS(info.size, sizeof(info));
	for (i = 0; laio_strbackend(i); i++)
		known += strcmp(info.backend, laio_strbackend(i)) == 0;
	CHECK_IS(known, 1);
	CHECK(test_backend_is(info.backend));
	CHECK_IS(info.flags & ~(uint32_t)(LAIO_INFO_RING | LAIO_INFO_NOWAIT | LAIO_INFO_RESOLVE_CACHED |
					  LAIO_INFO_PERF | LAIO_INFO_IDLE), 0);
	if (test_backend_is("uring"))
		CHECK(info.flags & LAIO_INFO_RING);
	CHECK(info.operations > 0 && info.helpers > 0 && info.ring_entries > 0 && info.inline_budget > 0);
	CHECK_IS(info.pending, 0);
	CHECK_IS(info.helper_threads, 0);
	CHECK(info.memory > 0);
	memory = info.memory;
	if (test_pends()) {
		test_pipe(fds);
		handle = test_begin_read(context, fds[0], &byte, 1);
		CHECK_IS(laio_info(context, &info), 0);
		CHECK_IS(info.pending, 1);
		CHECK(info.memory >= memory);
		CHECK(info.helper_threads <= info.helpers);
		if (test_backend_is("threads"))
			CHECK_IS(info.helper_threads, 1);
		CHECK_IS(laio_cancel(context, handle), 0);
		CHECK_IS(test_await(context, handle).laio_errno, ECANCELED);
		CHECK_IS(laio_info(context, &info), 0);
		CHECK_IS(info.pending, 0);
		test_close_pipe(fds);
	}
	CHECK_IS(laio_context_free(context), 0);
}

/* Structs of other versions: the library writes no byte beyond the given size. */
static void sizes(void)
{
	union {
		struct laio_stats stats;
		struct laio_info info;
		uint32_t size;
		unsigned char bytes[512];
	} place;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size;
	char *pages;
	size_t i;

	for (size = 0; size <= sizeof(place); size++) {
		memset(&place, 0x5a, sizeof(place));
		place.size = (uint32_t)size;
		if (size >= sizeof(place.stats)) {
			CHECK_IS(laio_stats(NULL, &place.stats), 0);
			CHECK_IS(place.size, size);
		} else if (laio_stats(NULL, &place.stats) != 0) {
			CHECK_IS(errno, EINVAL);
			CHECK(place.bytes[4] == 0x5a && place.bytes[8] == 0x5a);
		}
		for (i = size < 4 ? 4 : size; i < sizeof(place); i++)
			CHECK_IS(place.bytes[i], 0x5a);

		memset(&place, 0x5a, sizeof(place));
		place.size = (uint32_t)size;
		if (size >= sizeof(place.info)) {
			CHECK_IS(laio_info(NULL, &place.info), 0);
			CHECK_IS(place.size, size);
		} else if (laio_info(NULL, &place.info) != 0) {
			CHECK_IS(errno, EINVAL);
			CHECK(place.bytes[4] == 0x5a && place.bytes[8] == 0x5a);
		}
		for (i = size < 4 ? 4 : size; i < sizeof(place); i++)
			CHECK_IS(place.bytes[i], 0x5a);
	}
	place.size = 0;
	CHECK_FAILS(laio_stats(NULL, &place.stats), EINVAL);
	CHECK_FAILS(laio_info(NULL, &place.info), EINVAL);

	/* At the last bytes of writable memory. */
	pages = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != (char *)MAP_FAILED);
	CHECK_IS(mprotect(pages + page, page, PROT_NONE), 0);
	size = sizeof(place.stats);
	*(uint32_t *)(void *)(pages + page - size) = (uint32_t)size;
	CHECK_IS(laio_stats(NULL, (struct laio_stats *)(void *)(pages + page - size)), 0);
	size = sizeof(place.info);
	*(uint32_t *)(void *)(pages + page - size) = (uint32_t)size;
	CHECK_IS(laio_info(NULL, (struct laio_info *)(void *)(pages + page - size)), 0);
	munmap(pages, 2 * page);
}

/* The report is text in lines that name its sections; its errors are those of write(2). */
static void report(void)
{
	static char text[65536];
	struct laio_info info = LAIO_INFO_INIT;
	char byte = 0;
	int fd = test_file("", 0), fds[2], i;
	long length;

	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	CHECK_IS(laio_report(NULL, fd), 0);
	length = pread(fd, text, sizeof(text) - 1, 0);
	CHECK(length > 0 && length < (long)sizeof(text) - 1);
	CHECK_IS(lseek(fd, 0, SEEK_CUR), length);
	text[length] = 0;
	CHECK_IS(strlen(text), length);
	CHECK_IS(text[length - 1], '\n');
	for (i = 0; i < (int)length; i++)
		CHECK(text[i] == '\n' || (text[i] >= ' ' && text[i] <= '~'));
	CHECK_IS(laio_info(NULL, &info), 0);
	CHECK(strstr(text, info.backend) != NULL);
	CHECK(strstr(text, laio_version()) != NULL);
	CHECK(strstr(text, "gettid") != NULL);
	close(fd);

	CHECK_FAILS(laio_report(NULL, fd), EBADF);
	CHECK_FAILS(laio_report(NULL, -1), EBADF);
	test_pipe(fds);
	CHECK_FAILS(laio_report(NULL, fds[0]), EBADF);
	close(fds[0]);
	CHECK_FAILS(laio_report(NULL, fds[1]), EPIPE);
	close(fds[1]);
	/* While operations are in flight, and through a pipe. */
	if (test_pends()) {
		int other[2];
		void *handle;

		test_pipe(fds);
		test_pipe(other);
		handle = test_begin_read(NULL, fds[0], &byte, 1);
		CHECK_IS(fcntl(other[1], F_SETPIPE_SZ, 65536), 65536);
		CHECK_IS(laio_report(NULL, other[1]), 0);
		CHECK(read(other[0], text, sizeof(text)) > 0);
		CHECK_IS(laio_cancel(NULL, handle), 0);
		CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
		test_close_pipe(fds);
		test_close_pipe(other);
	}
}

int main(void)
{
	test_start();
	test_need_pipes();
	signal(SIGPIPE, SIG_IGN);
	stats();
	info();
	sizes();
	report();
	return 0;
}

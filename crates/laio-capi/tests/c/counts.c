/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * counts.c - statistics, counts of one call, the parts of a context, and the report for people.
 */
#include "test.h"

static void stats(void)
{
	struct laio_stats stats = LAIO_STATS_INIT, more = LAIO_STATS_INIT;
	struct laio_counts counts;
	struct laio_context *context = laio_context_new(NULL);
	struct laio_call call;
	char bytes[3] = { 0 };
	int fds[2], i;
	void *handles[3];

	CHECK(context != NULL);
	CHECK_IS(laio_stats(context, &stats), 0);
	CHECK_IS(stats.size, sizeof(stats));
	CHECK_IS(stats.calls.inline_done + stats.calls.background + stats.calls.fallback, 0);
	CHECK_IS(stats.operations, 0);
	CHECK_IS(stats.completions, 0);
	CHECK_IS(stats.operations_max, 0);

	/* A call that acts on the thread finishes inline in every back end. */
	call = test_call(SYS_gettid, 0, 0, 0);
	for (i = 0; i < 10; i++)
		CHECK_IS(laio_submit(context, &call, NULL), syscall(SYS_gettid));
	CHECK_IS(laio_call_stats(context, SYS_gettid, &counts), 0);
	CHECK_IS(counts.inline_done, 10);
	CHECK_IS(counts.background + counts.fallback + counts.latched, 0);
	CHECK_IS(laio_stats(context, &stats), 0);
	CHECK_IS(stats.calls.inline_done, 10);

	if (!test_pends())
		return;
	test_pipe(fds);
	for (i = 0; i < 3; i++)
		handles[i] = test_begin_read(context, fds[0], &bytes[i], 1);
	CHECK_IS(laio_cancel(context, handles[2]), 0);
	CHECK_IS(test_await(context, handles[2]).laio_errno, ECANCELED);
	CHECK_IS(write(fds[1], "xx", 2), 2);
	CHECK_IS(test_await(context, handles[0]).laio_return_value, 1);
	CHECK_IS(laio_stats(context, &more), 0);
	CHECK_IS(more.operations, 3);
	CHECK_IS(more.completions, 2);
	CHECK_IS(more.cancelled, 1);
	CHECK_IS(more.operations_max, 3);
	CHECK_IS(more.timed_out + more.limited + more.over_budget, 0);
	CHECK_IS(more.calls.inline_done, 10);
	CHECK_IS(more.calls.background + more.calls.fallback, 3);
	CHECK_IS(laio_call_stats(context, SYS_read, &counts), 0);
	CHECK_IS(counts.inline_done, 0);
	CHECK_IS(counts.background + counts.fallback, 3);
	CHECK_IS(test_await(context, handles[1]).laio_return_value, 1);
	CHECK_IS(laio_stats(context, &more), 0);
	CHECK_IS(more.completions, 3);
	/* Contexts share no counts. */
	CHECK_IS(laio_stats(NULL, &stats), 0);
	CHECK_IS(stats.operations, 0);
	CHECK_IS(laio_context_free(context), 0);
	test_close_pipe(fds);

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

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * timeouts.c - operations that their timeouts end, faster ones, and timeouts that change.
 *
 * The test asserts no times, except that nothing is cancelled too early. A timeout that must not
 * expire is an hour long.
 */
#include "test.h"

static struct timespec soon;
static struct timespec hour;

static struct laio_call read_until(int fd, void *buffer, const struct timespec *timeout)
{
	struct laio_call call = test_call(SYS_read, (uintptr_t)fd, (uintptr_t)buffer, 1);

	call.timeout = timeout;
	return call;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void runs_out(void)
{
	struct laio_completion completion;
	struct laio_call call;
	struct timespec given;
	char byte = 0;
	int64_t start;
	int fds[2], i;
	void *handle;

	test_pipe(fds);
	for (i = 0; i < 30; i += 10) {
		given = test_ms(i);
		call = read_until(fds[0], &byte, &given);
		start = now_ms();
		handle = test_begin(NULL, &call);
		/* Only laio_submit() reads the timeout. */
		given = hour;
		completion = test_await(NULL, handle);
		CHECK_COMPLETION(completion, handle, -1, ETIME);
		CHECK(now_ms() - start >= i);
		/* The operation has taken no byte. */
		CHECK_IS(write(fds[1], "x", 1), 1);
		CHECK_IS(read(fds[0], &byte, 1), 1);
	}
	test_close_pipe(fds);
}

static void is_faster(void)
{
	struct laio_completion completion;
	struct laio_call call;
	struct timespec zero = test_ms(0), longest;
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	longest.tv_sec = (time_t)(sizeof(time_t) == 8 ? LLONG_MAX : INT_MAX);
	longest.tv_nsec = 999999999;
	call = read_until(fds[0], &byte, &hour);
	handle = test_begin(NULL, &call);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);
	call = read_until(fds[0], &byte, &longest);
	handle = test_begin(NULL, &call);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);

	/* A call that does not block is not cancelled, however short its timeout. */
	if (test_backend_is("lazy") || test_is_sync()) {
		CHECK_IS(write(fds[1], "x", 1), 1);
		call = read_until(fds[0], &byte, &zero);
		CHECK_IS(laio_submit(NULL, &call, &handle), 1);
	}
	/* Nor is a finished operation whose timeout expires before its delivery. */
	call = read_until(fds[0], &byte, &soon);
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_set_timeout(NULL, handle, NULL), 0);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);
	test_close_pipe(fds);
}

static void changed(void)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0), bad = test_ms(0);
	struct laio_call call;
	char byte = 0;
	int fds[2], i;
	void *handle;

	test_pipe(fds);
	/* Set later. */
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(laio_set_timeout(NULL, handle, &soon), 0);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, -1, ETIME);
	CHECK_FAILS(laio_set_timeout(NULL, handle, &soon), ENOENT);
	/* Longer, shorter, removed, and many times. */
	call = read_until(fds[0], &byte, &soon);
	handle = test_begin(NULL, &call);
	for (i = 0; i < 1000; i++)
		CHECK_IS(laio_set_timeout(NULL, handle, i % 2 ? NULL : &hour), 0);
	CHECK_IS(laio_set_timeout(NULL, handle, &hour), 0);
	CHECK_IS(laio_poll(&completion, 1, &soon), 0);
	CHECK_IS(laio_poll(&completion, 1, &soon), 0);
	CHECK_IS(laio_set_timeout(NULL, handle, &zero), 0);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, -1, ETIME);
	/* An invalid time changes nothing. */
	call = read_until(fds[0], &byte, &hour);
	handle = test_begin(NULL, &call);
	bad.tv_nsec = 1000000000;
	CHECK_FAILS(laio_set_timeout(NULL, handle, &bad), EINVAL);
	bad.tv_nsec = -1;
	CHECK_FAILS(laio_set_timeout(NULL, handle, &bad), EINVAL);
	bad.tv_nsec = 0;
	bad.tv_sec = -1;
	CHECK_FAILS(laio_set_timeout(NULL, handle, &bad), EINVAL);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);
	test_close_pipe(fds);
}

int main(void)
{
	struct laio_stats stats = LAIO_STATS_INIT;

	test_start_pending();
	soon = test_ms(20);
	hour = test_ms(3600 * 1000L);
	runs_out();
	CHECK_IS(laio_stats(NULL, &stats), 0);
	CHECK_IS(stats.timed_out, 3);
	CHECK_IS(stats.cancelled, 0);
	is_faster();
	changed();
	return 0;
}

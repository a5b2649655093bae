/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * timeouts.c - operations that their timeouts end, faster ones, and thousands at a time.
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
	/* Removed. */
	call = read_until(fds[0], &byte, &soon);
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_set_timeout(NULL, handle, NULL), 0);
	CHECK_IS(laio_set_timeout(NULL, handle, NULL), 0);
	CHECK_IS(laio_poll(&completion, 1, &soon), 0);
	CHECK_IS(laio_poll(&completion, 1, &soon), 0);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
	/* Longer, shorter, and many times. */
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

/* poll's own timeout is the shorter one, then the longer one. */
static void of_poll_too(void)
{
	struct laio_completion completion;
	struct laio_call call;
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	call = read_until(fds[0], &byte, &hour);
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_poll(&completion, 1, &soon), 0);
	CHECK_IS(laio_set_timeout(NULL, handle, &soon), 0);
	CHECK_IS(laio_poll(&completion, 1, &hour), 1);
	CHECK_COMPLETION(completion, handle, -1, ETIME);
	test_close_pipe(fds);
}

/* laio_fd() wakes a program that sleeps in its own loop at a timeout. */
static void through_the_descriptor(void)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	struct laio_call call;
	struct epoll_event event;
	char byte = 0;
	int fds[2], set, i, result, fd = laio_fd(NULL);
	void *handle;

	test_pipe(fds);
	CHECK(fd >= 0);
	set = epoll_create1(EPOLL_CLOEXEC);
	memset(&event, 0, sizeof(event));
	event.events = EPOLLIN | EPOLLET;
	CHECK_IS(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
	for (i = 0; i < 20; i++) {
		if (i % 2) {
			handle = test_begin_read(NULL, fds[0], &byte, 1);
			CHECK_IS(laio_set_timeout(NULL, handle, &soon), 0);
		} else {
			call = read_until(fds[0], &byte, &soon);
			handle = test_begin(NULL, &call);
		}
		do {
			test_sleep(i % 4 < 2 ? -1 : set, fd);
			result = laio_poll(&completion, 1, &zero);
			CHECK(result >= 0);
		} while (result == 0);
		CHECK_COMPLETION(completion, handle, -1, ETIME);
		CHECK_IS(laio_poll(&completion, 1, &zero), 0);
	}
	close(set);
	test_close_pipe(fds);
}

/* Thousands, with times in random order; each completes once, and none too early. */
static void thousands(void)
{
	enum { COUNT = 4000 };
	static char bytes[COUNT];
	static int64_t ends[COUNT];
	static void *handles[COUNT];
	struct laio_completion completions[64];
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_context *context;
	struct timespec time;
	struct laio_call call;
	int fds[2], i, result, seen = 0, done = 0;

	context = laio_context_new(&options);
	CHECK(context != NULL);
	test_pipe(fds);
	for (i = 0; i < COUNT; i++) {
		time = test_ms(20 + (i * 7919L) % 97);
		call = read_until(fds[0], &bytes[i], i % 10 == 9 ? &hour : &time);
		call.user = &bytes[i];
		ends[i] = now_ms() + 20 + (i * 7919L) % 97;
		handles[i] = test_begin(context, &call);
	}
	while (seen < COUNT) {
		result = laio_context_poll(context, completions, TEST_LENGTH(completions), NULL);
		CHECK(result >= 0);
		for (i = 0; i < result; i++) {
			int which = (int)((char *)completions[i].laio_user - bytes);

			CHECK(completions[i].laio_handle == handles[which]);
			handles[which] = NULL;
			if (which % 10 == 9) {
				CHECK_IS(completions[i].laio_return_value, 1);
			} else {
				CHECK_IS(completions[i].laio_errno, ETIME);
				CHECK(now_ms() >= ends[which]);
				done++;
			}
		}
		seen += result;
		/* Bytes for the rest, only when no other read is left that could take them. */
		if (done == COUNT - COUNT / 10 && seen == done)
			for (i = 0; i < COUNT / 10; i++)
				CHECK_IS(write(fds[1], "x", 1), 1);
	}
	CHECK_IS(laio_pending(context), 0);
	CHECK_IS(laio_context_free(context), 0);
	test_close_pipe(fds);
}

/* The kinds of operation for which back ends wait in different ways. */
static void of_many_kinds(void)
{
	struct timespec long_sleep = test_ms(3600 * 1000L);
	struct pollfd waits_for;
	struct laio_call calls[4];
	struct laio_completion completion;
	char byte = 0;
	int fds[2], sockets[2], i;
	void *handle;

	test_pipe(fds);
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	waits_for.fd = fds[0];
	waits_for.events = POLLIN;
	calls[0] = test_call(SYS_nanosleep, (uintptr_t)&long_sleep, 0, 0);
	calls[1] = test_call(SYS_ppoll, (uintptr_t)&waits_for, 1, 0);
	calls[2] = test_call(SYS_recvfrom, (uintptr_t)sockets[0], (uintptr_t)&byte, 1);
	calls[3] = test_call(SYS_readv, (uintptr_t)fds[0], 0, 1);
	for (i = 0; i < 4; i++) {
		struct iovec iovec;

		iovec.iov_base = &byte;
		iovec.iov_len = 1;
		if (i == 3)
			calls[i].args[1] = (uintptr_t)&iovec;
		calls[i].timeout = &soon;
		handle = test_begin(NULL, &calls[i]);
		completion = test_await(NULL, handle);
		CHECK_COMPLETION(completion, handle, -1, ETIME);
	}
	close(sockets[0]);
	close(sockets[1]);
	test_close_pipe(fds);
}

/* A context ends with timeouts set; an expired timeout then affects no other operation. */
static void left_behind(void)
{
	struct laio_context *context = laio_context_new(NULL);
	struct laio_completion completion;
	struct timespec time;
	struct laio_call call;
	long ms = 10;
	char byte = 0;
	int fds[2];
	void *handle;

	CHECK(context != NULL);
	test_pipe(fds);
	call = read_until(fds[0], &byte, &hour);
	test_begin(context, &call);
	CHECK_IS(laio_context_free(context), 0);
	/* A later operation uses the slot of one that was faster than its timeout. */
	do {
		ms *= 2;
		time = test_ms(ms);
		call = read_until(fds[0], &byte, &time);
		handle = test_begin(NULL, &call);
		CHECK_IS(write(fds[1], "x", 1), 1);
		while (laio_take(NULL, handle, &completion) != 0)
			CHECK_IS(errno, EINPROGRESS);
		/* On a busy machine the timeout may expire first: then a longer one. */
		if (completion.laio_errno == ETIME)
			CHECK_IS(read(fds[0], &byte, 1), 1);
	} while (completion.laio_errno == ETIME);
	CHECK_COMPLETION(completion, handle, 1, 0);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
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
	of_poll_too();
	of_many_kinds();
	left_behind();
	thousands();
	through_the_descriptor();
	return 0;
}

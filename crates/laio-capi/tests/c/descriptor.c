/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * descriptor.c - laio_fd() in poll(2) and epoll, level and edge triggered: no wakeup is lost.
 */
#include "test.h"

static int new_set(int fd, uint32_t events)
{
	struct epoll_event event;
	int set = epoll_create1(EPOLL_CLOEXEC);

	CHECK(set >= 0);
	memset(&event, 0, sizeof(event));
	event.events = events;
	CHECK_IS(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
	return set;
}

/* As the header requires: polls until it returns less than requested. */
static int drain(struct laio_completion *completions, int space, int at_a_time)
{
	struct timespec zero = test_ms(0);
	int result, seen = 0;

	do {
		CHECK(seen + at_a_time <= space);
		result = laio_poll(completions + seen, at_a_time, &zero);
		CHECK(result >= 0);
		seen += result;
	} while (result == at_a_time);
	return seen;
}

static void is_a_descriptor(void)
{
	struct laio_context *context = laio_context_new(NULL);
	int fd = laio_fd(NULL);

	CHECK(fd >= 0);
	CHECK_IS(laio_fd(NULL), fd);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(context != NULL);
	CHECK(laio_fd(context) >= 0 && laio_fd(context) != fd);
	test_settles(NULL, fd);
	test_settles(context, laio_fd(context));
	CHECK_IS(laio_context_free(context), 0);
}

/* The other side: answers each byte with a byte. */
static void *echo(void *argument)
{
	int *fds = (int *)argument;
	char byte = 0;

	while (read(fds[0], &byte, 1) == 1)
		CHECK_IS(write(fds[1], &byte, 1), 1);
	return NULL;
}

/* A read that finishes inline if the byte is there already; NULL then. */
static void *begin_or_do(int fd, char *byte)
{
	struct laio_call call = test_call(SYS_read, (uintptr_t)fd, (uintptr_t)byte, 1);
	static struct laio_status status;
	void *handle;

	if (test_is_sync())
		call.status = &status;
	if (laio_submit(NULL, &call, &handle) == 1)
		CHECK(handle == NULL);
	else
		CHECK(errno == EINPROGRESS && handle != NULL);
	return handle;
}

/*
 * Rounds of a byte there and a byte back, between two threads that may sleep at any time. The watchdog
 * ends the test after a lost wakeup. On a busy machine a wakeup takes milliseconds: after enough rounds
 * no more are started.
 */
static void rally(int rounds, int edge_triggered, int at_a_time)
{
	struct laio_completion completions[8];
	int to[2], from[2], ends[2], set, i, seen, fd = laio_fd(NULL);
	time_t end = time(NULL) + 15;
	pthread_t other;
	char byte = 0;
	void *handle;

	set = new_set(fd, edge_triggered ? EPOLLIN | (uint32_t)EPOLLET : EPOLLIN);
	test_pipe(to);
	test_pipe(from);
	ends[0] = to[0];
	ends[1] = from[1];
	other = test_thread(echo, ends);
	for (i = 0; i < rounds && (i % 16 != 0 || time(NULL) < end); i++) {
		byte = 0;
		if (i % 3 == 0)
			CHECK_IS(write(to[1], "x", 1), 1);
		handle = begin_or_do(from[0], &byte);
		if (i % 3 != 0)
			CHECK_IS(write(to[1], "x", 1), 1);
		if (!handle)
			continue;
		while ((seen = drain(completions, 8, at_a_time)) == 0)
			test_sleep(set, fd);
		CHECK_IS(seen, 1);
		CHECK_COMPLETION(completions[0], handle, 1, 0);
		CHECK_IS(byte, 'x');
	}
	close(to[1]);
	test_join(other);
	close(to[0]);
	test_close_pipe(from);
	close(set);
}

int main(void)
{
	int rounds;

	test_start_pending();
	/* memcheck is about fifty times slower. */
	rounds = test_under_valgrind() ? 200 : 10000;
	is_a_descriptor();
	rally(rounds, 0, 4);
	rally(rounds, 1, 4);
	rally(rounds / 10, 0, 1);
	rally(rounds / 10, 1, 1);
	return 0;
}

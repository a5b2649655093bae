/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * order.c - the order of calls on one descriptor, and closing descriptors with operations in flight.
 */
#include "test.h"

/* Reads of a stream get its bytes in the order of the calls. */
static void streams(void)
{
	enum { COUNT = 16 };
	char bytes[COUNT] = { 0 };
	int fds[2], i;
	void *handles[COUNT];

	test_pipe(fds);
	for (i = 0; i < COUNT; i++)
		handles[i] = test_begin_read(NULL, fds[0], &bytes[i], 1);
	CHECK_IS(write(fds[1], "abcdefghijklmnop", COUNT), COUNT);
	for (i = 0; i < COUNT; i++) {
		CHECK_IS(test_await(NULL, handles[i]).laio_return_value, 1);
		CHECK_IS(bytes[i], 'a' + i);
	}
	test_close_pipe(fds);
}

/* Ordered mode: of positioned writes at one offset the last one wins. */
static void ordered(void)
{
	enum { COUNT = 32, SIZE = 4096 };
	static char blocks[COUNT][SIZE];
	struct laio_completion completion;
	struct laio_call call;
	void *handles[COUNT];
	char block[SIZE];
	int fd = test_file("", 0), fds[2], i, next = 0;

	CHECK_IS(laio_set_ordered(NULL, fd, 1), 0);
	for (i = 0; i < COUNT; i++) {
		memset(blocks[i], 'A' + i, SIZE);
		call = test_call(SYS_pwrite64, (uintptr_t)fd, (uintptr_t)blocks[i], SIZE);
		call.user = &blocks[i];
		if (laio_submit(NULL, &call, &handles[i]) == -1)
			CHECK_IS(errno, EINPROGRESS);
		else
			CHECK(laio_pending(NULL) == 0);
	}
	while (laio_pending(NULL) > 0) {
		CHECK_IS(laio_poll(&completion, 1, NULL), 1);
		CHECK_IS(completion.laio_return_value, SIZE);
		while (next < COUNT && !handles[next])
			next++;
		CHECK(next < COUNT && completion.laio_handle == handles[next]);
		next++;
	}
	CHECK_IS(pread(fd, block, SIZE, 0), SIZE);
	CHECK(memcmp(block, blocks[COUNT - 1], SIZE) == 0);
	CHECK_IS(laio_set_ordered(NULL, fd, 0), 0);
	CHECK_IS(laio_set_ordered(NULL, fd, 0), 0);
	CHECK_IS(laio_forget(NULL, fd), 0);
	close(fd);

	CHECK_FAILS(laio_set_ordered(NULL, fd, 1), EBADF);
	CHECK_FAILS(laio_set_ordered(NULL, -1, 1), EBADF);
	CHECK_FAILS(laio_set_ordered(NULL, INT_MAX, 1), EBADF);
	CHECK_FAILS(laio_set_ordered(NULL, INT_MIN, 0), EBADF);
	CHECK_IS(laio_forget(NULL, -1), 0);
	CHECK_IS(laio_forget(NULL, INT_MAX), 0);
	CHECK_IS(laio_forget(NULL, fd), 0);

	/* Also valid for a pipe, without effect. */
	test_pipe(fds);
	CHECK_IS(laio_set_ordered(NULL, fds[0], 1), 0);
	handles[0] = test_begin_read(NULL, fds[0], &block[0], 1);
	handles[1] = test_begin_read(NULL, fds[0], &block[1], 1);
	CHECK_IS(write(fds[1], "12", 2), 2);
	CHECK_IS(test_await(NULL, handles[0]).laio_return_value, 1);
	CHECK_IS(test_await(NULL, handles[1]).laio_return_value, 1);
	CHECK(block[0] == '1' && block[1] == '2');
	test_close_pipe(fds);
}

/* A close through laio cancels the operations in flight on the descriptor, and closes it. */
static void close_under(int count, int *fds, int which)
{
	struct laio_completion completion;
	void *handles[4], *closing;
	struct laio_call call;
	char bytes[4] = { 0 };
	int i, seen = 0, closed = 0, fd = fds[which];
	long result;

	for (i = 0; i < count; i++)
		handles[i] = test_begin_read(NULL, fd, &bytes[i], 1);
	call = test_call(SYS_close, (uintptr_t)fd, 0, 0);
	result = laio_submit(NULL, &call, &closing);
	if (result == -1) {
		CHECK_IS(errno, EINPROGRESS);
		/* A close is not cancelled. */
		CHECK(laio_cancel(NULL, closing) == 0 || errno == EALREADY);
	} else {
		CHECK_IS(result, 0);
		closed = 1;
	}
	while (laio_pending(NULL) > 0) {
		CHECK_IS(laio_poll(&completion, 1, NULL), 1);
		if (completion.laio_handle == closing) {
			CHECK_COMPLETION(completion, closing, 0, 0);
			closed = 1;
			continue;
		}
		CHECK_IS(completion.laio_return_value, -1);
		CHECK_IS(completion.laio_errno, ECANCELED);
		for (i = 0; i < count && handles[i] != completion.laio_handle; i++)
			;
		CHECK(i < count);
		handles[i] = NULL;
		seen++;
	}
	CHECK_IS(closed, 1);
	CHECK_IS(seen, count);
	CHECK_FAILS(fcntl(fd, F_GETFD), EBADF);
	call = test_call(SYS_read, (uintptr_t)fd, (uintptr_t)bytes, 1);
	CHECK_IS(test_finish(NULL, &call), -1);
	CHECK_IS(errno, EBADF);
	close(fds[1 - which]);
}

/* After a close the number may belong to another file, about which the context knows nothing. */
static void reused_numbers(void)
{
	struct laio_call call;
	char text[8];
	int fds[2], fd, i;
	void *handle;

	for (i = 0; i < 10; i++) {
		test_pipe(fds);
		handle = test_begin_read(NULL, fds[0], text, 1);
		CHECK_IS(write(fds[1], "x", 1), 1);
		CHECK_IS(test_await(NULL, handle).laio_return_value, 1);
		call = test_call(SYS_close, (uintptr_t)fds[0], 0, 0);
		CHECK_IS(test_finish(NULL, &call), 0);
		fd = test_file("content", 7);
		if (fd != fds[0]) {
			CHECK_IS(dup2(fd, fds[0]), fds[0]);
			close(fd);
		}
		call = test_call(SYS_pread64, (uintptr_t)fds[0], (uintptr_t)text, 7);
		CHECK_IS(test_finish(NULL, &call), 7);
		CHECK(memcmp(text, "content", 7) == 0);
		/* Closed by a plain call; laio_forget() then informs the context. */
		close(fds[0]);
		CHECK_IS(laio_forget(NULL, fds[0]), 0);
		close(fds[1]);
	}
}

/* Closed by a plain call while a read is in flight: the read continues, like read(2) in another thread. */
static void closed_elsewhere(void)
{
	struct laio_completion completion;
	char byte = 0;
	int fds[2], copy;
	void *handle;

	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(laio_flush(NULL), 0);
	copy = dup(fds[0]);
	close(fds[0]);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	completion = test_await(NULL, handle);
	CHECK(completion.laio_errno == ECANCELED || completion.laio_errno == EBADF);
	close(copy);
	close(fds[1]);
}

int main(void)
{
	int fds[2], count;

	test_start_pending();
	streams();
	ordered();
	for (count = 0; count <= 4; count++) {
		test_pipe(fds);
		close_under(count, fds, 0);
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		close_under(count, fds, 0);
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		close_under(count, fds, 1);
	}
	reused_numbers();
	closed_elsewhere();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * forget.c - numbers that are no descriptors, that are used again, and that a plain call has closed.
 */
#include "test.h"

/* Numbers that are no descriptors. The order itself is tested by the contract, through C too. */
static void bad_numbers(void)
{
	int fd = test_file("", 0);

	CHECK_IS(laio_set_ordered(NULL, fd, 1), 0);
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
	test_start_pending();
	bad_numbers();
	reused_numbers();
	closed_elsewhere();
	return 0;
}

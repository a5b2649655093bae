/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * status.c - status words: written in every back end, whatever their thread is doing.
 */
#include "test.h"

static struct laio_call watched_read(int fd, void *buffer, struct laio_status *status)
{
	struct laio_call call = test_call(SYS_read, (uintptr_t)fd, (uintptr_t)buffer, 1);

	call.status = status;
	memset(status, 0x5a, sizeof(*status));
	return call;
}

static void at_once(void)
{
	struct laio_status status;
	struct laio_call call = LAIO_CALL_INIT(SYS_gettid);
	void *handle;
	char byte = 0;
	long result;

	memset(&status, 0x5a, sizeof(status));
	call.status = &status;
	CHECK_IS(laio_submit(NULL, &call, &handle), syscall(SYS_gettid));
	CHECK(handle == NULL);
	CHECK_IS(laio_peek(&status), 0);
	CHECK_IS(status.laio_state, 0);
	CHECK_IS(status.laio_return_value, syscall(SYS_gettid));

	/* An error, inline or later: the word reports the same as the call. */
	call = watched_read(-1, &byte, &status);
	result = test_finish(NULL, &call);
	CHECK_IS(result, -1);
	CHECK_IS(errno, EBADF);
	CHECK_IS(laio_peek(&status), EBADF);
	CHECK_IS(status.laio_return_value, -1);
	CHECK_IS(laio_peek(NULL), EINVAL);
}

static void state_machine(void)
{
	struct laio_completion completion;
	struct laio_status status;
	struct laio_call call;
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	call = watched_read(fds[0], &byte, &status);
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_peek(&status), EINPROGRESS);
	CHECK_FAILS(laio_take(NULL, handle, &completion), EINPROGRESS);
	CHECK_IS(laio_peek(&status), EINPROGRESS);
	CHECK_IS(write(fds[1], "x", 1), 1);
	/* This thread calls only laio_peek(), which does nothing for the operation. */
	while (laio_peek(&status) == EINPROGRESS)
		test_nap();
	CHECK_IS(laio_peek(&status), 0);
	CHECK_IS(status.laio_return_value, 1);
	CHECK_IS(byte, 'x');
	/* The completion is delivered too, so that code waiting for it continues. */
	CHECK_IS(laio_pending(NULL), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);

	/* Taken. */
	call = watched_read(fds[0], &byte, &status);
	handle = test_begin(NULL, &call);
	CHECK_IS(write(fds[1], "y", 1), 1);
	while (laio_peek(&status) == EINPROGRESS)
		test_nap();
	while (laio_take(NULL, handle, &completion) != 0)
		CHECK_IS(errno, EINPROGRESS);
	CHECK_COMPLETION(completion, handle, 1, 0);

	/* An error of the operation. */
	close(fds[0]);
	call = test_call(SYS_read, (uintptr_t)fds[1], (uintptr_t)&byte, 1);
	call.status = &status;
	CHECK_IS(test_finish(NULL, &call), -1);
	CHECK_IS(laio_peek(&status), EBADF);
	close(fds[1]);
}

static void cancelled(void)
{
	struct timespec soon = test_ms(20), hour = test_ms(3600 * 1000L);
	struct laio_completion completion;
	struct laio_status status;
	struct laio_call call;
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	call = watched_read(fds[0], &byte, &status);
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, -1, ECANCELED);
	CHECK_IS(laio_peek(&status), ECANCELED);
	CHECK_IS(status.laio_return_value, -1);

	call = watched_read(fds[0], &byte, &status);
	call.timeout = &soon;
	handle = test_begin(NULL, &call);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, -1, ETIME);
	CHECK_IS(laio_peek(&status), ETIME);
	CHECK_IS(status.laio_return_value, -1);

	call.timeout = &hour;
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_peek(&status), EINPROGRESS);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);
	CHECK_IS(laio_peek(&status), 0);

	/* Ending a context writes the words before the program may reuse the buffers. */
	call = watched_read(fds[0], &byte, &status);
	test_begin(NULL, &call);
	CHECK_IS(laio_finish(), 0);
	CHECK_IS(laio_peek(&status), ECANCELED);
	test_close_pipe(fds);
}

int main(void)
{
	test_start();
	at_once();
	if (!test_pends())
		test_skip("watching: nothing goes to the background here");
	state_machine();
	cancelled();
	return 0;
}

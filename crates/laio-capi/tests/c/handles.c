/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * handles.c - taking and cancelling operations; stale, foreign and invalid handles.
 */
#include "test.h"

static void expect_no_handle_(struct laio_context *context, void *handle)
{
	struct laio_completion completion, untouched;
	struct timespec time = test_ms(1000);

	memset(&completion, 0x5a, sizeof(completion));
	untouched = completion;
	CHECK_FAILS(laio_take(context, handle, &completion), ENOENT);
	CHECK(memcmp(&completion, &untouched, sizeof(completion)) == 0);
	CHECK_FAILS(laio_cancel(context, handle), ENOENT);
	CHECK_FAILS(laio_set_user(context, handle, &time), ENOENT);
	CHECK_FAILS(laio_set_timeout(context, handle, &time), ENOENT);
	CHECK_FAILS(laio_set_timeout(context, handle, NULL), ENOENT);
}

#define expect_no_handle(context, handle) TEST_FROM(expect_no_handle_(context, handle))

static void take(void)
{
	struct laio_completion completion;
	struct laio_call call;
	char bytes[3] = { 0 };
	int fds[3][2], i;
	void *handles[3];

	for (i = 0; i < 3; i++) {
		test_pipe(fds[i]);
		call = test_call(SYS_read, (uintptr_t)fds[i][0], (uintptr_t)&bytes[i], 1);
		call.user = &bytes[i];
		handles[i] = test_begin(NULL, &call);
	}
	for (i = 0; i < 3; i++)
		CHECK_FAILS(laio_take(NULL, handles[i], &completion), EINPROGRESS);
	CHECK_FAILS(laio_take(NULL, handles[0], NULL), EFAULT);

	/* A take collects completions itself: no poll is needed before it. */
	CHECK_IS(write(fds[1][1], "b", 1), 1);
	while (laio_take(NULL, handles[1], &completion) != 0) {
		CHECK_IS(errno, EINPROGRESS);
		test_nap();
	}
	CHECK_COMPLETION(completion, handles[1], 1, 0);
	CHECK(completion.laio_user == &bytes[1]);
	CHECK_IS(bytes[1], 'b');
	expect_no_handle(NULL, handles[1]);
	CHECK_IS(laio_pending(NULL), 2);

	/* A completion collected during another take is neither lost nor delivered twice. */
	CHECK_IS(write(fds[0][1], "a", 1), 1);
	CHECK_FAILS(laio_take(NULL, handles[2], &completion), EINPROGRESS);
	completion = test_await(NULL, handles[0]);
	CHECK_COMPLETION(completion, handles[0], 1, 0);
	expect_no_handle(NULL, handles[0]);

	/* Taken after a poll whose array had no space for it. */
	handles[0] = test_begin_read(NULL, fds[0][0], &bytes[0], 1);
	CHECK_IS(write(fds[0][1], "a", 1), 1);
	CHECK_IS(write(fds[2][1], "c", 1), 1);
	CHECK_IS(laio_poll(&completion, 1, NULL), 1);
	i = completion.laio_handle == handles[0] ? 2 : 0;
	CHECK(completion.laio_handle == handles[2 - i]);
	while (laio_take(NULL, handles[i], &completion) != 0) {
		CHECK_IS(errno, EINPROGRESS);
		test_nap();
	}
	CHECK_COMPLETION(completion, handles[i], 1, 0);
	CHECK_IS(laio_pending(NULL), 0);
	CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	for (i = 0; i < 3; i++)
		test_close_pipe(fds[i]);
}

/* EALREADY for a finished operation, whose completion stays as it is. */
static void cancel_finished(void)
{
	struct laio_completion completion;
	struct timespec time = test_ms(1000);
	char bytes[3] = { 0 };
	int fds[3][2], i;
	void *handles[3];

	for (i = 0; i < 3; i++) {
		test_pipe(fds[i]);
		handles[i] = test_begin_read(NULL, fds[i][0], &bytes[i], 1);
	}
	/* With space for one completion, the second one stays for the next poll. */
	CHECK_IS(write(fds[0][1], "x", 1), 1);
	CHECK_IS(write(fds[1][1], "x", 1), 1);
	for (i = 0; i < 20; i++) {
		test_nap();
		CHECK_FAILS(laio_take(NULL, handles[2], &completion), EINPROGRESS);
	}
	CHECK_IS(laio_poll(&completion, 1, NULL), 1);
	i = completion.laio_handle == handles[0] ? 1 : 0;
	if (laio_cancel(NULL, handles[i]) == 0) {
		/* On a busy machine the completion may come late; the operation may then be cancelled. */
		completion = test_await(NULL, handles[i]);
		CHECK(completion.laio_errno == ECANCELED || completion.laio_return_value == 1);
	} else {
		CHECK_IS(errno, EALREADY);
		CHECK_FAILS(laio_cancel(NULL, handles[i]), EALREADY);
		CHECK_FAILS(laio_set_timeout(NULL, handles[i], &time), EALREADY);
		CHECK_IS(laio_set_user(NULL, handles[i], &time), 0);
		completion = test_await(NULL, handles[i]);
		CHECK_COMPLETION(completion, handles[i], 1, 0);
		CHECK(completion.laio_user == &time);
	}
	CHECK_IS(laio_cancel(NULL, handles[2]), 0);
	CHECK_IS(test_await(NULL, handles[2]).laio_errno, ECANCELED);
	for (i = 0; i < 3; i++)
		test_close_pipe(fds[i]);
}

static void words(void)
{
	uint64_t random = 0x9e3779b97f4a7c15u;
	char byte = 0;
	int fds[2], i;
	void *handle;

	for (i = 0; i < 2; i++) {
		expect_no_handle(NULL, NULL);
		expect_no_handle(NULL, (void *)1);
		expect_no_handle(NULL, &byte);
		expect_no_handle(NULL, (void *)UINTPTR_MAX);
	}
	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	for (i = 0; i < (int)sizeof(handle) * 8; i++)
		expect_no_handle(NULL, (void *)((uintptr_t)handle ^ (uintptr_t)1 << i));
	for (i = 0; i < 10000; i++) {
		/* xorshift: any words, the same in each run. */
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		if ((void *)(uintptr_t)random != handle)
			expect_no_handle(NULL, (void *)(uintptr_t)random);
	}
	CHECK_IS(laio_cancel(NULL, handle), 0);
	CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
	test_close_pipe(fds);
}

/* Handles of another context of the same thread. */
static void other_context(void)
{
	struct laio_context *contexts[2];
	char bytes[2] = { 0 };
	int fds[2][2], i;
	void *handles[2];

	for (i = 0; i < 2; i++) {
		contexts[i] = laio_context_new(NULL);
		CHECK(contexts[i] != NULL);
		test_pipe(fds[i]);
		handles[i] = test_begin_read(contexts[i], fds[i][0], &bytes[i], 1);
	}
	CHECK(handles[0] != handles[1]);
	for (i = 0; i < 2; i++) {
		expect_no_handle(contexts[i], handles[1 - i]);
		expect_no_handle(NULL, handles[i]);
	}
	for (i = 0; i < 2; i++) {
		CHECK_IS(write(fds[i][1], "x", 1), 1);
		CHECK_IS(test_await(contexts[i], handles[i]).laio_return_value, 1);
		test_close_pipe(fds[i]);
		CHECK_IS(laio_context_free(contexts[i]), 0);
	}
}

static void *other_thread_body(void *handle)
{
	char byte = 0;
	int fds[2];
	void *own;

	expect_no_handle(NULL, handle);
	test_pipe(fds);
	own = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK(own != handle);
	expect_no_handle(NULL, handle);
	CHECK_IS(laio_cancel(NULL, own), 0);
	CHECK_IS(test_await(NULL, own).laio_errno, ECANCELED);
	test_close_pipe(fds);
	return NULL;
}

static void other_thread(void)
{
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	test_join(test_thread(other_thread_body, handle));
	CHECK_IS(write(fds[1], "x", 1), 1);
	CHECK_IS(test_await(NULL, handle).laio_return_value, 1);
	test_close_pipe(fds);
}

/* The handles of an ended context are not those of the next one. */
static void after_finish(void)
{
	char bytes[2] = { 0 };
	int fds[2];
	void *before, *handle;

	test_pipe(fds);
	before = test_begin_read(NULL, fds[0], &bytes[0], 1);
	CHECK_IS(laio_finish(), 0);
	expect_no_handle(NULL, before);
	handle = test_begin_read(NULL, fds[0], &bytes[1], 1);
	CHECK(handle != before);
	expect_no_handle(NULL, before);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
	test_close_pipe(fds);
}

int main(void)
{
	test_start_pending();
	take();
	cancel_finished();
	words();
	other_context();
	other_thread();
	after_finish();
	return 0;
}

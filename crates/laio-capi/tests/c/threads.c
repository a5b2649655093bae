/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * threads.c - threads that end with operations in flight, and laio_wake().
 */
#include "test.h"

enum { SIZE = 512, OPERATIONS = 4 };

/* The buffers of an ended thread: they live on, because they are static. */
struct remains {
	int further;
	int fds[OPERATIONS][2];
	char buffers[OPERATIONS][SIZE];
};

static void *leaves(void *argument)
{
	struct remains *remains = (struct remains *)argument;
	struct laio_context *context = NULL;
	struct timespec zero = test_ms(0);
	struct laio_completion completion;
	int i;

	if (remains->further) {
		context = laio_context_new(NULL);
		CHECK(context != NULL);
	}
	for (i = 0; i < OPERATIONS; i++)
		test_begin_read(i % 2 ? context : NULL, remains->fds[i][0], remains->buffers[i], SIZE);
	/* Some threads have submitted them to the kernel when they end, others have not. */
	if (remains->further % 2)
		CHECK_IS(laio_context_poll(context, &completion, 1, &zero), 0);
	return NULL;
}

/* After pthread_join() no operation writes to the buffers or takes bytes. */
static void ends_with_operations(int further)
{
	static struct remains remains;
	char pattern[SIZE], text[SIZE];
	int i;

	memset(pattern, 0x6b, sizeof(pattern));
	remains.further = further;
	for (i = 0; i < OPERATIONS; i++)
		test_pipe(remains.fds[i]);
	test_join(test_thread(leaves, &remains));
	memset(remains.buffers, 0x6b, sizeof(remains.buffers));
	for (i = 0; i < OPERATIONS; i++)
		CHECK_IS(write(remains.fds[i][1], "late news", 9), 9);
	test_nap();
	for (i = 0; i < OPERATIONS; i++) {
		CHECK(memcmp(remains.buffers[i], pattern, SIZE) == 0);
		CHECK_IS(read(remains.fds[i][0], text, SIZE), 9);
		test_close_pipe(remains.fds[i]);
	}
}

static pthread_key_t key;

static void at_thread_end(void *argument)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	char byte = 0;
	long result;

	/* The context may have ended already: then the wake fails, which is harmless. */
	result = laio_syscall(SYS_gettid);
	CHECK(result == syscall(SYS_gettid) || result == -1);
	result = laio_pending(NULL);
	CHECK(result >= -1);
	result = laio_poll(&completion, 1, &zero);
	CHECK(result >= -1 && result <= 0);
	result = laio_syscall(SYS_read, *(int *)argument, &byte, (size_t)0);
	CHECK(result == 0 || result == -1);
	result = laio_finish();
	CHECK(result >= -1);
	laio_gethandle();
}

static void *has_destructor(void *argument)
{
	int fds[2];
	static char byte;

	CHECK_IS(pthread_setspecific(key, argument), 0);
	test_pipe(fds);
	test_begin_read(NULL, fds[0], &byte, 1);
	/* Open for the operation, which ends with the thread; the process closes it. */
	return NULL;
}

static void destructors(void)
{
	int fds[2];

	test_pipe(fds);
	CHECK_IS(pthread_key_create(&key, at_thread_end), 0);
	test_join(test_thread(has_destructor, fds));
	test_join(test_thread(has_destructor, fds));
	CHECK_IS(pthread_key_delete(key), 0);
	test_close_pipe(fds);
}

/* Wakes before the poll are kept, and merge into one. */
static void wake_is_kept(void)
{
	struct laio_completion completion;
	struct timespec time = test_ms(20);
	int ready;
	char byte = 0;
	int fds[2];
	void *handle;

	CHECK(laio_context_current() != NULL);
	CHECK_IS(laio_wake(NULL), 0);
	CHECK_IS(laio_wake(laio_context_current()), 0);
	CHECK_IS(laio_wake(NULL), 0);
	CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	/* Takes, flushes and calls do not use it up. */
	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(laio_wake(NULL), 0);
	CHECK_IS(laio_flush(NULL), 0);
	CHECK_FAILS(laio_take(NULL, handle, &completion), EINPROGRESS);
	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	/* poll has something to do, and must return. */
	ready = laio_fd(NULL);
	test_settles(NULL, ready);
	CHECK_IS(laio_wake(NULL), 0);
	test_sleep(-1, ready);
	CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	test_settles(NULL, ready);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
	test_close_pipe(fds);
}

int main(void)
{
	test_start_pending();
	ends_with_operations(0);
	ends_with_operations(1);
	ends_with_operations(2);
	destructors();
	wake_is_kept();
	return 0;
}

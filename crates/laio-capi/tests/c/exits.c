/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * exits.c - exit() ends the process with the given status, even with operations in flight.
 */
#include "test.h"

static int fds[2];
static char bytes[64];

static void begin(struct laio_context *context)
{
	struct laio_call call = LAIO_CALL_INIT(SYS_nanosleep);
	static struct timespec hour;
	int i;

	hour = test_ms(3600 * 1000L);
	for (i = 0; i < 8; i++)
		test_begin_read(context, fds[0], &bytes[i], 1);
	call.args[0] = (uintptr_t)&hour;
	test_begin(context, &call);
}

static void returns(void *argument)
{
	(void)argument;
	begin(NULL);
}

static void with_contexts(void *argument)
{
	struct laio_context *context = laio_context_new(NULL);

	(void)argument;
	CHECK(context != NULL);
	begin(NULL);
	begin(context);
	CHECK_IS(laio_context_use(context), 0);
}

static void with_descriptor_and_signal(void *argument)
{
	sigset_t set;

	(void)argument;
	/* The signal may arrive at any time until the context has ended. */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK(laio_fd(NULL) >= 0);
	CHECK_IS(laio_set_signal(NULL, SIGUSR1, NULL), 0);
	begin(NULL);
}

static void at_exit(void)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);

	/* Before or after the context has ended, the program's handler runs. */
	if (laio_syscall(SYS_gettid) != syscall(SYS_gettid) && errno == 0)
		_exit(1);
	laio_poll(&completion, 1, &zero);
	laio_finish();
}

static void with_exit_handler(void *argument)
{
	(void)argument;
	CHECK_IS(atexit(at_exit), 0);
	begin(NULL);
}

static void *exits(void *argument)
{
	(void)argument;
	begin(NULL);
	/* The main thread may sleep in its poll by now, or not yet. */
	test_nap();
	exit(0);
	return NULL;
}

static void from_another_thread(void *argument)
{
	struct laio_completion completion;

	(void)argument;
	begin(NULL);
	test_thread(exits, NULL);
	for (;;)
		CHECK_IS(laio_poll(&completion, 1, NULL), 0);
}

static void *waits(void *argument)
{
	struct laio_completion completion;

	(void)argument;
	begin(NULL);
	for (;;)
		CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	return NULL;
}

static void with_other_threads(void *argument)
{
	int i;

	(void)argument;
	for (i = 0; i < 4; i++)
		test_thread(waits, NULL);
	begin(NULL);
	test_nap();
}

static void by_laio(void *argument)
{
	(void)argument;
	begin(NULL);
	laio_syscall(SYS_exit_group, 0);
	_exit(1);
}

static void becomes_another_program(void *argument)
{
	static char name[] = "/bin/sh", option[] = "-c", command[] = "exit 0";
	char *const arguments[] = { name, option, command, NULL };
	char *const nothing[] = { NULL };

	(void)argument;
	begin(NULL);
	laio_syscall(SYS_execve, name, arguments, nothing);
	_exit(1);
}

static void on_signal(int number)
{
	(void)number;
	exit(0);
}

/* exit() is not allowed in a handler, but programs call it there. */
static void in_handler(void *argument)
{
	struct laio_completion completion;

	(void)argument;
	signal(SIGUSR1, on_signal);
	begin(NULL);
	test_thread(waits, NULL);
	CHECK_IS(raise(SIGUSR1), 0);
	laio_poll(&completion, 1, NULL);
	_exit(1);
}

/* The main thread ends, and its operations with it; the other threads continue. */
static void *goes_on(void *argument)
{
	static char pattern[sizeof(bytes)];
	char text[8];

	CHECK_IS(pthread_join(*(pthread_t *)argument, NULL), 0);
	memset(bytes, 0x6b, sizeof(bytes));
	memset(pattern, 0x6b, sizeof(pattern));
	CHECK_IS(write(fds[1], "late", 4), 4);
	test_nap();
	CHECK(memcmp(bytes, pattern, sizeof(bytes)) == 0);
	CHECK_IS(read(fds[0], text, sizeof(text)), 4);
	begin(NULL);
	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	exit(0);
	return NULL;
}

static void main_thread_first(void *argument)
{
	static pthread_t self;

	(void)argument;
	self = pthread_self();
	begin(NULL);
	test_thread(goes_on, &self);
	pthread_exit(NULL);
}

int main(void)
{
	test_start_pending();
	if (test_under_valgrind())
		test_skip("valgrind does not know that the memory of a ring is not in a child");
	test_pipe(fds);
	test_reap(test_fork(returns, NULL));
	test_reap(test_fork(with_contexts, NULL));
	test_reap(test_fork(with_descriptor_and_signal, NULL));
	test_reap(test_fork(with_exit_handler, NULL));
	test_reap(test_fork(from_another_thread, NULL));
	test_reap(test_fork(with_other_threads, NULL));
	test_reap(test_fork(by_laio, NULL));
	test_reap(test_fork(becomes_another_program, NULL));
	test_reap(test_fork(in_handler, NULL));
#ifdef __GLIBC__
	/* With musl 1.2.3, no thread of a child of fork(2) can be joined after the main thread's end, with or without laio. */
	test_reap(test_fork(main_thread_first, NULL));
#else
	(void)main_thread_first;
#endif
	/* The same in this process, which is not a child. */
	begin(NULL);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * handlers.c - laio from signal handlers: EDEADLK inside an interrupted call, and nothing is corrupted;
 * laio_wake() works everywhere, and closes the race between a handler and a poll that follows it.
 */
#include "test.h"

static volatile sig_atomic_t caught;      /* times that the handler ran */
static volatile sig_atomic_t caught_busy; /* of these, inside of laio */
static volatile sig_atomic_t wrong_line;  /* a check that failed in the handler */

#define EXPECT_BUSY(expression)                                          \
	do {                                                             \
		errno = 0;                                               \
		if ((long)(expression) != -1 || errno != EDEADLK)        \
			wrong_line = __LINE__;                           \
	} while (0)

#define EXPECT_BUSY_NULL(expression)                                     \
	do {                                                             \
		errno = 0;                                               \
		if ((expression) != NULL || errno != EDEADLK)            \
			wrong_line = __LINE__;                           \
	} while (0)

/* Calls all functions; the result of the first shows whether the signal has interrupted laio. */
static void try_everything(int number)
{
	struct laio_completion completion;
	struct laio_call call = LAIO_CALL_INIT(SYS_gettid);
	struct laio_counts counts;
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_status status;
	struct laio_info info = LAIO_INFO_INIT;
	struct timespec zero;
	void *handle = &call;
	int error = errno;

	(void)number;
	caught = caught + 1;
	zero.tv_sec = zero.tv_nsec = 0;
	if (laio_pending(NULL) != -1) {
		errno = error;
		return;
	}
	EXPECT_BUSY(laio_pending(NULL));
	EXPECT_BUSY(laio_syscall(SYS_gettid));
	EXPECT_BUSY(laio_syscall(SYS_nanosleep, &zero, (void *)0));
	EXPECT_BUSY(laio_submit(NULL, &call, &handle));
	if (handle != NULL)
		wrong_line = __LINE__;
	EXPECT_BUSY(laio_poll(&completion, 1, &zero));
	EXPECT_BUSY(laio_poll(&completion, 1, NULL));
	EXPECT_BUSY(laio_context_poll(NULL, &completion, 1, &zero));
	EXPECT_BUSY(laio_init(NULL));
	EXPECT_BUSY(laio_finish());
	EXPECT_BUSY(laio_context_use(NULL));
	EXPECT_BUSY_NULL(laio_context_new(NULL));
	EXPECT_BUSY_NULL(laio_context_current());
	EXPECT_BUSY(laio_take(NULL, &call, &completion));
	EXPECT_BUSY(laio_cancel(NULL, &call));
	EXPECT_BUSY(laio_set_user(NULL, &call, NULL));
	EXPECT_BUSY(laio_set_timeout(NULL, &call, NULL));
	EXPECT_BUSY(laio_set_ordered(NULL, 0, 1));
	EXPECT_BUSY(laio_forget(NULL, 0));
	EXPECT_BUSY(laio_fd(NULL));
	EXPECT_BUSY(laio_set_signal(NULL, 0, NULL));
	EXPECT_BUSY(laio_flush(NULL));
	EXPECT_BUSY(laio_stats(NULL, &stats));
	EXPECT_BUSY(laio_call_stats(NULL, SYS_read, &counts));
	EXPECT_BUSY(laio_info(NULL, &info));
	EXPECT_BUSY(laio_report(NULL, -1));
	/* These may always be called. */
	status.laio_state = EINPROGRESS;
	if (laio_peek(&status) != EINPROGRESS || !laio_version() || laio_wake(NULL) != 0 ||
	    laio_sigaction(SIGUSR2, NULL, NULL) != 0)
		wrong_line = __LINE__;
	caught_busy = caught_busy + 1;
	errno = error;
}

static void catch_with(void (*handler)(int), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	CHECK_IS(sigaction(SIGUSR1, &action, NULL), 0);
	caught = 0;
	caught_busy = 0;
	wrong_line = 0;
}

struct target {
	pthread_t thread;
	int fd;
};

/* Sends signals until one has interrupted laio, then the byte for which it waits. */
static void *interrupt(void *argument)
{
	struct target *target = (struct target *)argument;

	while (!caught_busy) {
		CHECK_IS(pthread_kill(target->thread, SIGUSR1), 0);
		test_nap();
	}
	CHECK_IS(write(target->fd, "x", 1), 1);
	return NULL;
}

static void inside_poll(int flags)
{
	struct laio_completion completion;
	struct target target;
	pthread_t other;
	char byte = 0;
	int fds[2], got;
	void *handle;

	catch_with(try_everything, flags);
	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	target.thread = pthread_self();
	target.fd = fds[1];
	other = test_thread(interrupt, &target);
	do {
		/* "Returns 0 when a signal handler has run", whatever SA_RESTART says. */
		got = laio_poll(&completion, 1, NULL);
		CHECK(got == 0 || got == 1);
	} while (got == 0);
	test_join(other);
	CHECK_IS(wrong_line, 0);
	CHECK_COMPLETION(completion, handle, 1, 0);
	CHECK_IS(byte, 'x');
	CHECK_IS(laio_pending(NULL), 0);
	test_close_pipe(fds);
}

/* Only "sync" blocks in laio itself. EINTR does not surface. */
static void inside_syscall(int flags)
{
	struct target target;
	pthread_t other;
	char byte = 0;
	int fds[2];

	catch_with(try_everything, flags);
	test_pipe(fds);
	target.thread = pthread_self();
	target.fd = fds[1];
	other = test_thread(interrupt, &target);
	CHECK_IS(laio_syscall(SYS_read, fds[0], &byte, (size_t)1), 1);
	CHECK(laio_gethandle() == NULL);
	test_join(other);
	CHECK_IS(wrong_line, 0);
	CHECK_IS(byte, 'x');
	test_close_pipe(fds);
}

/* Handlers that interrupt calls of every kind at random points. */
static volatile sig_atomic_t stop_storm;

static void *storm(void *argument)
{
	struct target *target = (struct target *)argument;

	while (!stop_storm) {
		CHECK_IS(pthread_kill(target->thread, SIGUSR1), 0);
		sched_yield();
	}
	return NULL;
}

static void many(void)
{
	struct laio_completion completion;
	struct target target;
	struct laio_call call;
	pthread_t other;
	char byte = 0;
	int fds[2], i, got;
	void *handle;

	catch_with(try_everything, SA_RESTART);
	stop_storm = 0;
	test_pipe(fds);
	target.thread = pthread_self();
	other = test_thread(storm, &target);
	for (i = 0; i < 2000; i++) {
		call = test_call(SYS_read, (uintptr_t)fds[0], (uintptr_t)&byte, 1);
		byte = 0;
		if (i % 2)
			CHECK_IS(write(fds[1], "x", 1), 1);
		if (i % 2 == 0) {
			handle = test_begin(NULL, &call);
			CHECK_IS(write(fds[1], "x", 1), 1);
		} else if (laio_submit(NULL, &call, &handle) != -1) {
			continue;
		}
		CHECK(handle != NULL);
		while ((got = laio_poll(&completion, 1, NULL)) == 0)
			;
		CHECK_IS(got, 1);
		CHECK_COMPLETION(completion, handle, 1, 0);
		CHECK_IS(byte, 'x');
		CHECK_IS(laio_pending(NULL), 0);
	}
	stop_storm = 1;
	test_join(other);
	CHECK_IS(wrong_line, 0);
	test_close_pipe(fds);
}

static void wake(int number)
{
	int error = errno;

	(void)number;
	if (laio_wake(NULL) != 0)
		wrong_line = __LINE__;
	caught = caught + 1;
	errno = error;
}

/* A handler that runs just before a poll: the wake is not lost. */
static void before_poll(void)
{
	struct laio_completion completion;
	char byte = 0;
	int fds[2], i;
	void *handle;

	catch_with(wake, SA_RESTART);
	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	for (i = 0; i < 100; i++) {
		CHECK_IS(raise(SIGUSR1), 0);
		CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	}
	CHECK_IS(caught, 100);
	CHECK_IS(wrong_line, 0);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
	test_close_pipe(fds);
}

/* A handler at any time ends the poll, before it or during it: no lost wakeup. */
static void around_poll(void)
{
	struct laio_completion completion;
	pthread_t other;
	struct target target;
	char byte = 0;
	int fds[2], i;
	void *handle;

	catch_with(wake, SA_RESTART);
	stop_storm = 0;
	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	target.thread = pthread_self();
	other = test_thread(storm, &target);
	for (i = 0; i < 2000; i++) {
		CHECK_IS(laio_poll(&completion, 1, NULL), 0);
		CHECK_IS(laio_pending(NULL), 1);
	}
	stop_storm = 1;
	test_join(other);
	CHECK_IS(wrong_line, 0);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	CHECK_IS(test_await(NULL, handle).laio_errno, ECANCELED);
	test_close_pipe(fds);
}

static volatile long call_result;

static void make_a_call(int number)
{
	int error = errno;

	(void)number;
	call_result = laio_syscall(SYS_gettid);
	caught = caught + 1;
	errno = error;
}

/* A handler that interrupts the program, not laio, may call every function. */
static void outside(void)
{
	int i;

	catch_with(make_a_call, SA_RESTART);
	for (i = 0; i < 10; i++) {
		CHECK_IS(raise(SIGUSR1), 0);
		CHECK_IS(call_result, syscall(SYS_gettid));
		CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	}
	CHECK_IS(caught, 10);
}

/* In a thread without a context. */
static void *no_context(void *argument)
{
	(void)argument;
	CHECK_FAILS(laio_wake(NULL), ESRCH);
	CHECK(laio_gethandle() == NULL);
	return NULL;
}

int main(void)
{
	test_start();
	CHECK_FAILS(laio_wake(NULL), ESRCH);
	test_join(test_thread(no_context, NULL));
	outside();
	if (test_is_sync()) {
		inside_syscall(0);
		inside_syscall(SA_RESTART);
	}
	if (!test_pends())
		test_skip("interrupted polls: no call goes to the background in this back end");
	before_poll();
	if (test_ring_stops_threads()) {
		test_left_out("interrupted polls", "valgrind and a ring");
		return 0;
	}
	inside_poll(0);
	inside_poll(SA_RESTART);
	many();
	around_poll();
	return 0;
}

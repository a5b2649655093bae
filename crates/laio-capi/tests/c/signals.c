/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * signals.c - laio_set_signal(): completions announced by a signal, taken by sigwaitinfo() or a handler.
 */
#include "test.h"

static sigset_t set_of(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	return set;
}

static int is_pending(int number)
{
	sigset_t pending;

	CHECK_IS(sigpending(&pending), 0);
	return sigismember(&pending, number);
}

/* Takes signals that were sent before the signal was turned off. */
static void forget(int number)
{
	struct timespec zero = test_ms(0);
	sigset_t set = set_of(number);

	while (sigtimedwait(&set, NULL, &zero) == number)
		;
	CHECK(!is_pending(number));
}

/* Sleeps until the signal arrives. Without a handler EINTR occurs too: the kernel does a ring's work. */
static void sleep_for(int number, siginfo_t *info)
{
	sigset_t set = set_of(number);
	int result;

	memset(info, 0, sizeof(*info));
	do
		result = sigwaitinfo(&set, info);
	while (result < 0 && errno == EINTR);
	CHECK_IS(result, number);
	CHECK_IS(info->si_code, SI_QUEUE);
}

/* Waits for the signal and takes all completions into `completion`; returns how many. */
static int await_signal(int number, void *value, struct laio_completion *completions, int space)
{
	struct timespec zero = test_ms(0);
	siginfo_t info;
	int result, seen = 0;

	sleep_for(number, &info);
	CHECK(info.si_value.sival_ptr == value);
	do {
		result = laio_poll(completions + seen, space - seen, &zero);
		CHECK(result >= 0);
		seen += result;
	} while (result > 0 && seen < space);
	return seen;
}

static void wrong_numbers(void)
{
	static const int numbers[] = { -1, SIGKILL, SIGSTOP, 65, 1000, INT_MAX, INT_MIN };
	int i;

	for (i = 0; i < TEST_LENGTH(numbers); i++)
		CHECK_FAILS(laio_set_signal(NULL, numbers[i], NULL), EINVAL);
	CHECK_IS(laio_set_signal(NULL, 0, NULL), 0);
	CHECK_IS(laio_set_signal(NULL, 0, NULL), 0);
}

static void off_and_changed(void)
{
	struct laio_completion completions[2];
	int fds[2], one, two;
	sigset_t usr1 = set_of(SIGUSR1), usr2 = set_of(SIGUSR2);
	char byte = 0;
	void *handle;

	CHECK_IS(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
	test_pipe(fds);
	CHECK_IS(laio_set_signal(NULL, SIGUSR1, &one), 0);
	CHECK_IS(laio_set_signal(NULL, 0, NULL), 0);
	forget(SIGUSR1);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(write(fds[1], "x", 1), 1);
	CHECK_IS(test_await(NULL, handle).laio_return_value, 1);
	CHECK(!is_pending(SIGUSR1));

	/* Another number and value. */
	CHECK_IS(laio_set_signal(NULL, SIGUSR1, &one), 0);
	CHECK_IS(laio_set_signal(NULL, SIGUSR2, &two), 0);
	forget(SIGUSR1);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(write(fds[1], "x", 1), 1);
	while (await_signal(SIGUSR2, &two, completions, 2) == 0)
		;
	CHECK_COMPLETION(completions[0], handle, 1, 0);
	CHECK(!is_pending(SIGUSR1));
	CHECK_IS(laio_set_signal(NULL, 0, NULL), 0);
	forget(SIGUSR2);

	/* Requested when the completion is there already. */
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(laio_flush(NULL), 0);
	CHECK_IS(write(fds[1], "x", 1), 1);
	test_nap();
	CHECK_IS(laio_set_signal(NULL, SIGUSR2, &one), 0);
	while (await_signal(SIGUSR2, &one, completions, 2) == 0)
		;
	CHECK_COMPLETION(completions[0], handle, 1, 0);
	/* The context ends with the signal set. */
	CHECK_IS(laio_finish(), 0);
	forget(SIGUSR2);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(write(fds[1], "x", 1), 1);
	CHECK_IS(test_await(NULL, handle).laio_return_value, 1);
	CHECK(!is_pending(SIGUSR2));
	test_close_pipe(fds);
}

static volatile sig_atomic_t handled;
static void *volatile handled_value;
static pthread_t handled_in;

static void handler(int number, siginfo_t *info, void *machine)
{
	(void)number;
	(void)machine;
	handled_value = info->si_value.sival_ptr;
	handled_in = pthread_self();
	handled = 1;
}

/* The handler runs only in the thread that requested the signal. */
static void by_handler(void)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	struct sigaction action, before;
	int fds[2], here, i, result;
	sigset_t set = set_of(SIGUSR1), mask;
	char byte = 0;
	void *handle;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	CHECK_IS(sigaction(SIGUSR1, &action, &before), 0);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &set, &mask), 0);
	sigdelset(&mask, SIGUSR1);
	test_pipe(fds);
	CHECK_IS(laio_set_signal(NULL, SIGUSR1, &here), 0);
	for (i = 0; i < 50; i++) {
		handle = test_begin_read(NULL, fds[0], &byte, 1);
		CHECK_IS(write(fds[1], "x", 1), 1);
		do {
			handled = 0;
			/* Blocked except here, so that it cannot arrive before the sleep. */
			while (!handled)
				sigsuspend(&mask);
			CHECK(handled_value == &here);
			CHECK(pthread_equal(handled_in, pthread_self()));
			result = laio_poll(&completion, 1, &zero);
			CHECK(result >= 0);
		} while (result == 0);
		CHECK_COMPLETION(completion, handle, 1, 0);
		CHECK_IS(laio_poll(&completion, 1, &zero), 0);
	}
	CHECK_IS(laio_set_signal(NULL, 0, NULL), 0);
	forget(SIGUSR1);
	CHECK_IS(sigaction(SIGUSR1, &before, NULL), 0);
	test_close_pipe(fds);
}

/* Two contexts of a thread share a real-time signal, which queues; its value distinguishes them. */
static void two_contexts(void)
{
	struct laio_context *contexts[2];
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	sigset_t set = set_of(SIGRTMIN);
	char bytes[2] = { 0 };
	int fds[2][2], i, which, seen;
	void *handles[2];
	siginfo_t info;

	CHECK_IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	for (i = 0; i < 2; i++) {
		contexts[i] = laio_context_new(NULL);
		CHECK(contexts[i] != NULL);
		CHECK_IS(laio_set_signal(contexts[i], SIGRTMIN, contexts[i]), 0);
		test_pipe(fds[i]);
		handles[i] = test_begin_read(contexts[i], fds[i][0], &bytes[i], 1);
	}
	for (i = 0; i < 2; i++) {
		CHECK_IS(write(fds[i][1], "x", 1), 1);
		do {
			sleep_for(SIGRTMIN, &info);
			which = info.si_value.sival_ptr == contexts[0] ? 0 : 1;
			CHECK(info.si_value.sival_ptr == contexts[which]);
			seen = laio_context_poll(contexts[which], &completion, 1, &zero);
		} while (seen == 0);
		CHECK_IS(seen, 1);
		CHECK_IS(which, i);
		CHECK_COMPLETION(completion, handles[i], 1, 0);
	}
	for (i = 0; i < 2; i++) {
		CHECK_IS(laio_context_free(contexts[i]), 0);
		test_close_pipe(fds[i]);
	}
}

int main(void)
{
	test_start_pending();
	wrong_numbers();
	off_and_changed();
	by_handler();
	two_contexts();
	return 0;
}

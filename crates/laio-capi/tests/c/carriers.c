/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * carriers.c - the limit of the kernel threads of the back end "activations", its detectors of blocked calls,
 * and what laio_sigaction() returns. A storm of signals is a test of the engine (activations::signals).
 */
#include "test.h"

static struct laio_options options_of(uint32_t detector)
{
	struct laio_options options = LAIO_OPTIONS_INIT;

	options.backend = "activations";
	options.flags = LAIO_PURE;
	options.detector = detector;
	return options;
}

/* Each blocked call has a kernel thread. At the limit such a call fails, and no caller waits. */
static void limit(uint32_t detector)
{
	enum { LIMIT = 4 };
	struct laio_options options = options_of(detector);
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_info info = LAIO_INFO_INIT;
	struct laio_completion done;
	int fds[LIMIT + 1][2], i;
	char bytes[LIMIT + 1];
	void *handles[LIMIT];

	options.carriers = LIMIT;
	if (laio_init(&options) == -1) {
		test_left_out(detector == LAIO_DETECTOR_PERF ? "perf" : "idle", strerror(errno));
		return;
	}
	for (i = 0; i < LIMIT + 1; i++)
		test_pipe(fds[i]);
	for (i = 0; i < LIMIT; i++) {
		struct laio_call call = test_call(SYS_read, (uintptr_t)fds[i][0], (uintptr_t)&bytes[i], 1);

		handles[i] = test_begin(NULL, &call);
	}
	CHECK_FAILS(laio_syscall(SYS_read, fds[LIMIT][0], &bytes[LIMIT], (size_t)1), EAGAIN);
	CHECK(laio_gethandle() == NULL);
	/* Calls that do not block still succeed. */
	CHECK_IS(write(fds[LIMIT][1], "y", 1), 1);
	CHECK_IS(laio_syscall(SYS_read, fds[LIMIT][0], &bytes[LIMIT], (size_t)1), 1);
	CHECK_IS(laio_info(NULL, &info), 0);
	CHECK_IS(info.carriers, LIMIT);
	CHECK_IS(info.carrier_threads, LIMIT);
	CHECK_IS(info.flags & (LAIO_INFO_PERF | LAIO_INFO_IDLE),
		 detector == LAIO_DETECTOR_PERF ? LAIO_INFO_PERF : LAIO_INFO_IDLE);
	CHECK_IS(laio_stats(NULL, &stats), 0);
	CHECK(stats.handoffs >= LIMIT);
	for (i = 0; i < LIMIT; i++) {
		CHECK_IS(write(fds[i][1], "x", 1), 1);
		done = test_await(NULL, handles[i]);
		CHECK_COMPLETION(done, handles[i], 1, 0);
		CHECK_IS(bytes[i], 'x');
	}
	CHECK_IS(laio_finish(), 0);
	for (i = 0; i < LIMIT + 1; i++)
		test_close_pipe(fds[i]);
}

/* ---- Handlers ---- */

static __thread int is_program;          /* the handler sees the program's own variables */
static __thread int depth;
static volatile sig_atomic_t caught, parallel;

static void note(void)
{
	int error = errno;

	if (!is_program || depth++ > 0)
		parallel = 1;
	depth--;
	caught = caught + 1;
	errno = error;
}

static void plain_handler(int number)
{
	if (number == SIGUSR1)
		note();
}

static void full_handler(int number, siginfo_t *info, void *context)
{
	if (number == SIGUSR1 && info->si_signo == SIGUSR1 && context)
		note();
}

static struct sigaction action_of(void (*handler)(int), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	sigemptyset(&action.sa_mask);
	action.sa_handler = handler;
	action.sa_flags = flags;
	return action;
}

/* laio_sigaction() returns the earlier handler as the program set it. */
static void actions(void)
{
	struct sigaction first = action_of(plain_handler, SA_RESTART), second, old;

	CHECK_FAILS(laio_sigaction(0, &first, NULL), EINVAL);
	CHECK_FAILS(laio_sigaction(-1, &first, NULL), EINVAL);
	CHECK_FAILS(laio_sigaction(65, &first, NULL), EINVAL);
	CHECK_FAILS(laio_sigaction(1 << 20, NULL, &old), EINVAL);
	CHECK_FAILS(laio_sigaction(SIGKILL, &first, NULL), EINVAL);
	CHECK_IS(laio_sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	CHECK_IS(laio_sigaction(SIGUSR1, &first, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	memset(&second, 0, sizeof(second));
	sigemptyset(&second.sa_mask);
	sigaddset(&second.sa_mask, SIGUSR2);
	second.sa_sigaction = full_handler;
	second.sa_flags = SA_SIGINFO;
	CHECK_IS(laio_sigaction(SIGUSR1, &second, &old), 0);
	CHECK(old.sa_handler == plain_handler);
	CHECK_IS(old.sa_flags & (SA_SIGINFO | SA_RESTART), SA_RESTART);
	CHECK_IS(laio_sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_sigaction == full_handler);
	CHECK_IS(old.sa_flags & (SA_SIGINFO | SA_RESTART), SA_SIGINFO);
	CHECK_IS(sigismember(&old.sa_mask, SIGUSR2), 1);
	is_program = 1;
	CHECK_IS(raise(SIGUSR1), 0);
	CHECK_IS(caught, 1);
	first = action_of(SIG_IGN, 0);
	CHECK_IS(laio_sigaction(SIGUSR1, &first, &old), 0);
	CHECK(old.sa_sigaction == full_handler);
	CHECK_IS(raise(SIGUSR1), 0);
	CHECK_IS(caught, 1);
	/* The handler runs once, and not again. */
	first = action_of(plain_handler, (int)SA_RESETHAND);
	CHECK_IS(laio_sigaction(SIGUSR1, &first, &old), 0);
	CHECK(old.sa_handler == SIG_IGN);
	CHECK_IS(laio_sigaction(SIGUSR1, NULL, &old), 0);
	CHECK((old.sa_flags & (int)SA_RESETHAND) != 0);
	CHECK_IS(raise(SIGUSR1), 0);
	CHECK_IS(caught, 2);
	CHECK_IS(laio_sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
	CHECK_IS(parallel, 0);
}

int main(void)
{
	static const uint32_t detectors[] = { LAIO_DETECTOR_PERF, LAIO_DETECTOR_IDLE };
	int i;

	test_start();
	actions();
	if (!test_backend_is("activations"))
		return 0;
	for (i = 0; i < 2; i++)
		limit(detectors[i]);
	return 0;
}

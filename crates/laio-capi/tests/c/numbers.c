/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * numbers.c - numbers without a system call, and system calls that laio refuses.
 */
#include "test.h"

/* The error of a failing call, inline or later; 0 if it succeeds. */
static int error_of(long number, uintptr_t word)
{
	struct laio_call call = LAIO_CALL_INIT(number);
	int i;

	for (i = 0; i < 6; i++)
		call.args[i] = word;
	errno = 0;
	return test_finish(NULL, &call) == -1 ? errno : 0;
}

static void unknown(void)
{
	static const long numbers[] = {
		-1, -2, -4096, 600, 700, 1000, 4711, 65535, 65536, 1000000, INT_MAX, INT_MIN,
	};
	uint64_t random = 88172645463325252u;
	long number;
	int i;

	for (i = 0; i < TEST_LENGTH(numbers); i++) {
		CHECK_IS(error_of(numbers[i], 0), ENOSYS);
		CHECK_IS(error_of(numbers[i], UINTPTR_MAX), ENOSYS);
	}
	for (i = 0; i < 1000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		number = (long)(random % INT_MAX);
		/* The range in which newer kernels may have calls, and that of x32. */
		if (number >= 600 && !(number & 0x40000000))
			CHECK_IS(error_of(number, 0), ENOSYS);
	}
	/* The kernel reads the lower half only; whether laio does, the result is harmless. */
	CHECK(error_of(LONG_MAX, 0) == ENOSYS);
	if (sizeof(long) == 8) {
		int error = error_of((long)((uint64_t)1 << 32 | SYS_getpid), 0);

		CHECK(error == ENOSYS || error == 0);
	}
}

static void expect_error(long number, int first, int second)
{
	struct laio_call call = LAIO_CALL_INIT(number);
	void *handle = &call;

	errno = 0;
	CHECK_IS(laio_submit(NULL, &call, &handle), -1);
	CHECK(handle == NULL);
	if (errno != first && errno != second)
		TEST_FAIL("system call %ld: expected errno %d, got %d", number, first, errno);
	errno = 0;
	CHECK_IS(laio_syscall(number, 0L, 0L, 0L, 0L, 0L, 0L), -1);
	CHECK(errno == first || errno == second);
	CHECK(laio_gethandle() == NULL);
}

/* Refused at once in every back end, without making a process. */
static void refused(void)
{
#ifdef SYS_fork
	expect_error(SYS_fork, ENOSYS, ENOSYS);
	expect_error(SYS_vfork, ENOSYS, ENOSYS);
#endif
	expect_error(SYS_clone, ENOSYS, ENOSYS);
	expect_error(SYS_clone3, ENOSYS, ENOSYS);
	expect_error(SYS_rt_sigreturn, ENOSYS, EOPNOTSUPP);
	expect_error(SYS_restart_syscall, ENOSYS, EOPNOTSUPP);
	expect_error(SYS_rt_sigsuspend, ENOSYS, EOPNOTSUPP);
#ifdef SYS_pause
	expect_error(SYS_pause, ENOSYS, EOPNOTSUPP);
#endif
	CHECK_FAILS(waitpid(-1, NULL, WNOHANG), ECHILD);
}

/* Calls that end the process, or execute another program, do so. */
static void ends(void *argument)
{
	(void)argument;
	laio_syscall(SYS_exit_group, 0);
	_exit(1);
}

static void becomes(void *argument)
{
	static char name[] = "/bin/sh", option[] = "-c", command[] = "exit 0";
	char *const arguments[] = { name, option, command, NULL };
	char *const nothing[] = { NULL };

	(void)argument;
	laio_syscall(SYS_execve, name, arguments, nothing);
	_exit(1);
}

int main(void)
{
	test_start();
	unknown();
	refused();
	if (test_under_valgrind()) {
		test_left_out("calls that end the process", "valgrind does not like children with a ring");
		return 0;
	}
	test_reap(test_fork(ends, NULL));
	test_reap(test_fork(becomes, NULL));
	return 0;
}

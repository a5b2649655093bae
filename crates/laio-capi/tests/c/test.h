/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * test.h - helpers of the tests of the C API.
 *
 * Each program here is one test: it exits with 0 (passed), 1 (failed; standard error has the place, the
 * expected and the actual result), or 77 (skipped; standard error has the reason). To run one by hand:
 *
 *     cc -std=c99 -pthread timeouts.c $(pkg-config --cflags --libs laio) -o timeouts
 *     LAIO_BACKEND=threads ./timeouts
 *
 * $LAIO_BACKEND chooses the back end, $TMPDIR the place of files. A test also compiles as C17 and as C++20.
 */
#ifndef LAIO_TEST_H
#define LAIO_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <laio.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Far longer than any test needs, under valgrind too: only a test that hangs reaches it. */
#define TEST_SECONDS 1800

#define TEST_LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- Checks ---- */

/* The place of the last check of any thread: approximately where a test hangs. */
static const char *test_source = "";
static int test_line;

/* The line that has called a function with checks, see TEST_FROM(). */
static int test_caller;

/* A failed check ends the process at once: threads and operations may be in any state. */
#define TEST_FAIL(...)                                                         \
	do {                                                                   \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                \
		if (test_caller)                                               \
			fprintf(stderr, "from line %d: ", test_caller);        \
		fprintf(stderr, __VA_ARGS__);                                  \
		fprintf(stderr, "\n");                                         \
		fflush(stderr);                                                \
		_exit(1);                                                      \
	} while (0)

#define TEST_HERE()                                                                        \
	do {                                                                               \
		__atomic_store_n(&test_source, (const char *)__FILE__, __ATOMIC_RELAXED);  \
		__atomic_store_n(&test_line, __LINE__, __ATOMIC_RELAXED);                  \
	} while (0)

/* Calls a function that many lines call, so that its failed checks show the line. */
#define TEST_FROM(call)                 \
	do {                            \
		test_caller = __LINE__; \
		call;                   \
		test_caller = 0;        \
	} while (0)

#define CHECK(condition)                                                       \
	do {                                                                   \
		TEST_HERE();                                                   \
		if (!(condition))                                              \
			TEST_FAIL("expected %s, which is false", #condition);  \
	} while (0)

#define CHECK_IS(expression, expected)                                                          \
	do {                                                                                    \
		long long test_expected, test_came;                                             \
		TEST_HERE();                                                                    \
		test_came = (long long)(expression);                                            \
		test_expected = (long long)(expected);                                          \
		if (test_came != test_expected)                                                 \
			TEST_FAIL("%s: expected %s = %lld, got %lld (errno %d: %s)",           \
				  #expression, #expected, test_expected, test_came, errno,      \
				  strerror(errno));                                             \
	} while (0)

/* The expression is -1, with this errno. */
#define CHECK_FAILS(expression, expected)                                                       \
	do {                                                                                    \
		long long test_came;                                                            \
		TEST_HERE();                                                                    \
		errno = 0;                                                                      \
		test_came = (long long)(expression);                                            \
		if (test_came != -1 || errno != (expected))                                     \
			TEST_FAIL("%s: expected -1 and %s, got %lld and errno %d (%s)",        \
				  #expression, #expected, test_came, errno, strerror(errno));   \
	} while (0)

/* The expression is NULL, with this errno. */
#define CHECK_NULL(expression, expected)                                                        \
	do {                                                                                    \
		const void *test_came;                                                          \
		TEST_HERE();                                                                    \
		errno = 0;                                                                      \
		test_came = (expression);                                                       \
		if (test_came != NULL || errno != (expected))                                   \
			TEST_FAIL("%s: expected NULL and %s, got %p and errno %d (%s)",        \
				  #expression, #expected, test_came, errno, strerror(errno));   \
	} while (0)

/* A completion carries this handle, value and error, and nothing in its reserved field. */
#define CHECK_COMPLETION(completion, handle, value, error)               \
	do {                                                             \
		CHECK((completion).laio_handle == (handle));             \
		CHECK_IS((completion).laio_errno, error);                \
		CHECK_IS((completion).laio_return_value, value);         \
		CHECK_IS((completion).laio_reserved, 0);                 \
	} while (0)

static inline void test_skip(const char *reason)
{
	fprintf(stderr, "skipped: %s\n", reason);
	exit(77);
}

static inline void test_left_out(const char *part, const char *reason)
{
	fprintf(stderr, "left out: %s: %s\n", part, reason);
}

/* ---- The environment of the test ---- */

static inline int test_backend_is(const char *name)
{
	const char *backend = getenv("LAIO_BACKEND");

	return strcmp(backend && *backend ? backend : "lazy", name) == 0;
}

static inline int test_is_sync(void)
{
	return test_backend_is("sync");
}

/* memcheck reports bad pointers before the kernel sees them. */
static inline int test_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload") != NULL;
}

/* valgrind stops all threads while one waits in a ring: then no other thread can end that wait. */
static inline int test_ring_stops_threads(void)
{
	return test_under_valgrind() && (test_backend_is("lazy") || test_backend_is("uring"));
}

/* ---- Watchdog ---- */

static inline void test_hangs(int number)
{
	const char *source = __atomic_load_n(&test_source, __ATOMIC_RELAXED);
	int line = __atomic_load_n(&test_line, __ATOMIC_RELAXED);
	char text[PATH_MAX];
	int length;

	(void)number;
	length = snprintf(text, sizeof(text), "hangs after %s:%d, from line %d\n", source, line,
			  test_caller);
	if (write(2, text, (size_t)length) < 0)
		_exit(2);
	_exit(1);
}

/* Children of fork(2) inherit no alarm, and call this again. */
static inline void test_watch(void)
{
	signal(SIGALRM, test_hangs);
	alarm(TEST_SECONDS);
}

/* Called first in every test. */
static inline void test_start(void)
{
	struct laio_context *context;

	test_watch();
	if (!test_backend_is("uring") && !test_backend_is("activations"))
		return;
	context = laio_context_new(NULL);
	if (!context && (errno == ENOSYS || errno == EPERM || errno == EACCES || errno == EOPNOTSUPP))
		test_skip("the back end is not available here");
	CHECK(context != NULL);
	CHECK_IS(laio_context_free(context), 0);
}

/* Whether calls go to the background at all: with "sync" they block. */
static inline int test_pends(void)
{
	return !test_is_sync();
}

/* Called first in a test of operations, instead of test_start(). */
static inline void test_start_pending(void)
{
	test_start();
	if (!test_pends())
		test_skip("no call goes to the background in this back end");
}

/* ---- Files, pipes, processes, threads ---- */

static inline void test_pipe(int pipe_of[2])
{
	CHECK_IS(pipe(pipe_of), 0);
}

/* For tests that fill pipes of the usual size: a user with many pipes gets smaller ones, see fs.pipe-max-size. */
static inline void test_need_pipes(void)
{
	int fds[2], size;

	test_pipe(fds);
	size = fcntl(fds[1], F_GETPIPE_SZ);
	close(fds[0]);
	close(fds[1]);
	if (size < 65536)
		test_skip("a pipe holds less than 65536 bytes: see fs.pipe-max-size");
}

static inline void test_close_pipe(const int pipe_of[2])
{
	close(pipe_of[0]);
	close(pipe_of[1]);
}

/* The name of a new directory in $TMPDIR; the test removes it. */
static inline void test_directory(char name[PATH_MAX])
{
	const char *place = getenv("TMPDIR");

	snprintf(name, PATH_MAX, "%s/laio-test-XXXXXX", place && *place ? place : "/tmp");
	CHECK(mkdtemp(name) != NULL);
}

/* A file without a name that holds these bytes. */
static inline int test_file(const void *bytes, size_t count)
{
	char name[PATH_MAX];
	const char *place = getenv("TMPDIR");
	int fd;

	snprintf(name, sizeof(name), "%s/laio-test-XXXXXX", place && *place ? place : "/tmp");
	fd = mkstemp(name);
	CHECK(fd >= 0);
	CHECK_IS(unlink(name), 0);
	CHECK_IS(pwrite(fd, bytes, count, 0), count);
	return fd;
}

/* Runs `body` in a child, which then exits with exit(3), and so runs all its handlers. */
static inline pid_t test_fork(void (*body)(void *), void *argument)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		test_watch();
		body(argument);
		exit(0);
	}
	return child;
}

static inline void test_reap_(pid_t child)
{
	int status = 0;
	pid_t got;

	do
		got = waitpid(child, &status, 0);
	while (got < 0 && errno == EINTR);
	CHECK_IS(got, child);
	CHECK_IS(WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0);
	CHECK_IS(WEXITSTATUS(status), 0);
}

#define test_reap(child) TEST_FROM(test_reap_(child))

static inline pthread_t test_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	CHECK_IS(pthread_create(&thread, NULL, body, argument), 0);
	return thread;
}

static inline void test_join(pthread_t thread)
{
	CHECK_IS(pthread_join(thread, NULL), 0);
}

/* Sleeps between two checks of a state that another thread or the kernel is about to change. */
static inline void test_nap(void)
{
	poll(NULL, 0, 1);
}

/*
 * Sleeps until the descriptor is readable, in the epoll set if there is one. Without a handler epoll_wait(2)
 * is interrupted too: the kernel does a ring's work in between.
 */
static inline void test_sleep(int set, int fd)
{
	struct pollfd ready;
	struct epoll_event event;
	int got;

	ready.fd = fd;
	ready.events = POLLIN;
	do
		got = set < 0 ? poll(&ready, 1, -1) : epoll_wait(set, &event, 1, -1);
	while (got < 0 && errno == EINTR);
	CHECK_IS(got, 1);
}

static inline struct timespec test_ms(long ms)
{
	struct timespec time;

	time.tv_sec = ms / 1000;
	time.tv_nsec = ms % 1000 * 1000000;
	return time;
}

/* ---- Operations ---- */

/* The completion of this operation, which must be the next that is delivered. */
static inline struct laio_completion test_await(struct laio_context *context, void *handle)
{
	struct laio_completion completion;
	int got;

	memset(&completion, 0xa5, sizeof(completion));
	do
		got = laio_context_poll(context, &completion, 1, NULL);
	while (got == 0 && laio_pending(context) > 0);
	CHECK_IS(got, 1);
	CHECK(completion.laio_handle == handle);
	return completion;
}

/* laio_submit(), and waiting: returns the system call's result, and sets errno. */
static inline long test_finish(struct laio_context *context, const struct laio_call *call)
{
	struct laio_completion completion;
	void *handle;
	long value = laio_submit(context, call, &handle);

	if (value != -1 || errno != EINPROGRESS) {
		int error = errno;

		CHECK(handle == NULL);
		errno = error;
		return value;
	}
	CHECK(handle != NULL);
	completion = test_await(context, handle);
	CHECK_IS(completion.laio_reserved, 0);
	CHECK((completion.laio_errno != 0) <= (completion.laio_return_value == -1));
	errno = completion.laio_errno;
	return completion.laio_return_value;
}

static inline struct laio_call test_call(long number, uintptr_t a0, uintptr_t a1, uintptr_t a2)
{
	struct laio_call call = LAIO_CALL_INIT(number);

	call.args[0] = a0;
	call.args[1] = a1;
	call.args[2] = a2;
	return call;
}

/* Makes a call that must go to the background; returns its handle. */
static inline void *test_begin(struct laio_context *context, const struct laio_call *call)
{
	void *handle;

	CHECK_FAILS(laio_submit(context, call, &handle), EINPROGRESS);
	CHECK(handle != NULL);
	return handle;
}

static inline void *test_begin_read(struct laio_context *context, int fd, void *buffer, size_t count)
{
	struct laio_call call = test_call(SYS_read, (uintptr_t)fd, (uintptr_t)buffer, count);

	return test_begin(context, &call);
}

/*
 * The descriptor becomes unreadable: nothing is left to deliver. A helper may still ring for completions that
 * were collected already, but only for a while.
 */
static inline void test_settles(struct laio_context *context, int fd)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	struct pollfd ready;
	int i;

	ready.fd = fd;
	ready.events = POLLIN;
	for (i = 0; i < 100 && poll(&ready, 1, 0) != 0; i++) {
		CHECK_IS(laio_context_poll(context, &completion, 1, &zero), 0);
		test_nap();
	}
	CHECK(i < 100);
}

#endif /* LAIO_TEST_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * calls.c - the three calls, and boundary values of their arguments.
 */
#include "test.h"

/* The result of laio_syscall(), finished inline or later, as a minimal program gets it. */
static long settle(long got, int *error)
{
	struct laio_completion completion;

	*error = got == -1 ? errno : 0;
	if (got != -1 || errno != EINPROGRESS) {
		CHECK(laio_gethandle() == NULL);
		return got;
	}
	CHECK(laio_gethandle() != NULL);
	completion = test_await(NULL, laio_gethandle());
	CHECK(completion.laio_user == NULL);
	*error = completion.laio_errno;
	return completion.laio_return_value;
}

static void answers(void)
{
	struct stat status, expected;
	char text[16] = "";
	int fd = test_file("contents", 8), error;

	CHECK(laio_gethandle() == NULL);
	CHECK_IS(settle(laio_syscall(SYS_getpid), &error), getpid());
	CHECK_IS(error, 0);
	CHECK_IS(settle(laio_syscall(SYS_pread64, fd, text, sizeof(text), 3L), &error), 5);
	CHECK_IS(error, 0);
	CHECK(memcmp(text, "tents", 6) == 0);
	CHECK_IS(settle(laio_syscall(SYS_fstat, fd, &status), &error), 0);
	CHECK_IS(fstat(fd, &expected), 0);
	CHECK(status.st_ino == expected.st_ino && status.st_size == 8);
	CHECK_IS(settle(laio_syscall(SYS_read, -1, text, sizeof(text)), &error), -1);
	CHECK_IS(error, EBADF);
	CHECK_IS(settle(laio_syscall(SYS_openat, AT_FDCWD, "/no such name", O_RDONLY), &error), -1);
	CHECK_IS(error, ENOENT);
	CHECK_IS(settle(laio_syscall(SYS_close, fd), &error), 0);
	CHECK_IS(settle(laio_syscall(SYS_close, fd), &error), -1);
	CHECK_IS(error, EBADF);
}

/* A call with six arguments, the last of which matters. */
static void six_arguments(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char text[] = "0123456789";
	char *bytes;
	int fd, error;
	long address;

	bytes = (char *)calloc(2, page);
	CHECK(bytes != NULL);
	bytes[page] = 'x';
	fd = test_file(bytes, 2 * page);
	address = settle(laio_syscall(SYS_mmap, (void *)0, page, PROT_READ, MAP_PRIVATE, fd, page), &error);
	CHECK_IS(error, 0);
	CHECK_IS(*(char *)address, 'x');
	CHECK_IS(settle(laio_syscall(SYS_munmap, address, page), &error), 0);
	close(fd);
	free(bytes);

	fd = test_file(text, 10);
	CHECK_IS(settle(laio_syscall(SYS_lseek, fd, -4L, SEEK_END), &error), 6);
	CHECK_IS(lseek(fd, 0, SEEK_CUR), 6);
	close(fd);
}

static void goes_on(void)
{
	struct laio_completion completion;
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	CHECK_FAILS(laio_syscall(SYS_read, fds[0], &byte, (size_t)1), EINPROGRESS);
	handle = laio_gethandle();
	CHECK(handle != NULL);
	CHECK(laio_gethandle() == handle);
	CHECK_IS(laio_pending(NULL), 1);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);
	CHECK(completion.laio_user == NULL);
	CHECK_IS(byte, 'x');
	CHECK_IS(laio_pending(NULL), 0);
	test_close_pipe(fds);
}

/* Each completion is delivered once, and poll never returns more than requested. */
static void delivered_once(void)
{
	enum { COUNT = 20 };
	struct laio_completion completions[7];
	void *handles[COUNT];
	char bytes[COUNT] = { 0 };
	int fds[COUNT][2], i, j, got, seen = 0;

	for (i = 0; i < COUNT; i++) {
		test_pipe(fds[i]);
		handles[i] = test_begin_read(NULL, fds[i][0], &bytes[i], 1);
		for (j = 0; j < i; j++)
			CHECK(handles[j] != handles[i]);
	}
	CHECK_IS(laio_pending(NULL), COUNT);
	for (i = 0; i < COUNT; i++)
		CHECK_IS(write(fds[i][1], "x", 1), 1);
	while (seen < COUNT) {
		got = laio_poll(completions, TEST_LENGTH(completions), NULL);
		CHECK(got > 0 && got <= TEST_LENGTH(completions));
		for (i = 0; i < got; i++) {
			for (j = 0; j < COUNT && handles[j] != completions[i].laio_handle; j++)
				;
			CHECK(j < COUNT);
			handles[j] = NULL;
			CHECK_IS(completions[i].laio_return_value, 1);
			CHECK_IS(completions[i].laio_errno, 0);
		}
		seen += got;
		CHECK_IS(laio_pending(NULL), COUNT - seen);
	}
	CHECK_IS(laio_poll(completions, TEST_LENGTH(completions), NULL), 0);
	for (i = 0; i < COUNT; i++)
		test_close_pipe(fds[i]);
}

/* The last call sets the handle; a call that finishes inline sets it to NULL. */
static void handle_of_the_last(void)
{
	struct laio_completion completion;
	char byte = 0;
	int fds[2];
	void *handle;

	test_pipe(fds);
	CHECK_FAILS(laio_syscall(SYS_read, fds[0], &byte, (size_t)1), EINPROGRESS);
	handle = laio_gethandle();
	/* Calls that act on the calling thread finish inline in every back end. */
	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	CHECK(laio_gethandle() == NULL);
	CHECK_FAILS(laio_syscall(SYS_read, fds[0], &byte, (size_t)1), EINPROGRESS);
	CHECK(laio_gethandle() != NULL && laio_gethandle() != handle);
	CHECK_IS(laio_cancel(NULL, laio_gethandle()), 0);
	completion = test_await(NULL, laio_gethandle());
	CHECK_IS(completion.laio_errno, ECANCELED);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_IS(completion.laio_return_value, 1);
	test_close_pipe(fds);
}

/* poll waits as long as its timeout says; with nothing in flight an endless timeout does not wait. */
static void waits(void)
{
	struct laio_completion completion;
	struct timespec time = test_ms(0);
	char byte = 0;
	int fds[2];
	void *handle;

	CHECK_IS(laio_poll(&completion, 1, NULL), 0);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	time = test_ms(5);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	time = test_ms(0);

	test_pipe(fds);
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	time = test_ms(5);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	CHECK_IS(laio_poll(&completion, 1, &time), 0);
	/* A timeout far longer than the operation, with the largest nanoseconds. */
	time.tv_sec = 200;
	time.tv_nsec = 999999999;
	CHECK_IS(write(fds[1], "x", 1), 1);
	CHECK_IS(laio_poll(&completion, 1, &time), 1);
	CHECK_COMPLETION(completion, handle, 1, 0);
	/* The largest timeout must not overflow into a short one. */
	handle = test_begin_read(NULL, fds[0], &byte, 1);
	CHECK_IS(write(fds[1], "x", 1), 1);
	time.tv_sec = (time_t)(sizeof(time_t) == 8 ? LLONG_MAX : INT_MAX);
	CHECK_IS(laio_poll(&completion, 1, &time), 1);
	CHECK_COMPLETION(completion, handle, 1, 0);
	test_close_pipe(fds);
}

/* Wrong arguments of poll, with and without operations in flight: the operations stay. */
static void wrong_polls(void)
{
	static const struct { long sec, nsec; } no_times[] = {
		{ 0, -1 }, { 0, 1000000000 }, { 1, 1000000000 }, { -1, 0 }, { 0, LONG_MAX },
		{ 0, LONG_MIN }, { LONG_MIN, 0 }, { -1, 999999999 },
	};
	struct laio_completion completion, untouched;
	struct timespec time = test_ms(0);
	char byte = 0;
	int fds[2], round, i;
	void *handle = NULL;

	test_pipe(fds);
	memset(&completion, 0x5a, sizeof(completion));
	untouched = completion;
	for (round = 0; round < 2; round++) {
		time = test_ms(0);
		CHECK_FAILS(laio_poll(NULL, 1, &time), EFAULT);
		CHECK_FAILS(laio_poll(NULL, 1, NULL), EFAULT);
		CHECK_FAILS(laio_context_poll(NULL, NULL, 1, &time), EFAULT);
		CHECK_FAILS(laio_poll(&completion, 0, &time), EINVAL);
		CHECK_FAILS(laio_poll(&completion, -1, &time), EINVAL);
		CHECK_FAILS(laio_poll(&completion, INT_MIN, NULL), EINVAL);
		CHECK_FAILS(laio_context_poll(NULL, &completion, 0, NULL), EINVAL);
		for (i = 0; i < TEST_LENGTH(no_times); i++) {
			time.tv_sec = no_times[i].sec;
			time.tv_nsec = no_times[i].nsec;
			CHECK_FAILS(laio_poll(&completion, 1, &time), EINVAL);
			CHECK_FAILS(laio_context_poll(NULL, &completion, 1, &time), EINVAL);
		}
		CHECK(memcmp(&completion, &untouched, sizeof(completion)) == 0);
		if (round == 0)
			handle = test_begin_read(NULL, fds[0], &byte, 1);
	}
	CHECK_IS(laio_pending(NULL), 1);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK_IS(completion.laio_return_value, 1);
	test_close_pipe(fds);
}

/* Calls that laio_submit() refuses: it always sets the handle to NULL. */
static void wrong_submits(void)
{
	static const struct { long sec, nsec; } no_times[] = {
		{ 0, -1 }, { 0, 1000000000 }, { -1, 0 }, { 0, LONG_MAX }, { LONG_MIN, LONG_MIN },
	};
	struct {
		struct laio_call call;
		unsigned char tail[64];
	} larger;
	struct laio_call call = LAIO_CALL_INIT(SYS_gettid);
	struct timespec time;
	long me = syscall(SYS_gettid);
	void *handle;
	int i;

#define CHECK_REFUSED(call, error)                                         \
	do {                                                               \
		handle = &call;                                            \
		CHECK_FAILS(laio_submit(NULL, &call, &handle), error);     \
		CHECK(handle == NULL);                                     \
		CHECK_FAILS(laio_submit(NULL, &call, NULL), error);        \
	} while (0)

	handle = &time;
	CHECK_FAILS(laio_submit(NULL, NULL, &handle), EFAULT);
	CHECK(handle == NULL);
	CHECK_FAILS(laio_submit(NULL, NULL, NULL), EFAULT);

	CHECK_IS(laio_submit(NULL, &call, NULL), me);
	handle = &time;
	CHECK_IS(laio_submit(NULL, &call, &handle), me);
	CHECK(handle == NULL);

	call.size = 0;
	CHECK_REFUSED(call, EINVAL);
	call.size = 3;
	CHECK_REFUSED(call, EINVAL);
	call.size = sizeof(call);
	for (i = 0; i < 32; i++) {
		call.flags = (uint32_t)1 << i;
		CHECK_REFUSED(call, EINVAL);
	}
	call.flags = 0;
	call.timeout = &time;
	for (i = 0; i < TEST_LENGTH(no_times); i++) {
		time.tv_sec = no_times[i].sec;
		time.tv_nsec = no_times[i].nsec;
		CHECK_REFUSED(call, EINVAL);
	}
	time = test_ms(1);
	CHECK_IS(laio_submit(NULL, &call, &handle), me);

	memset(&larger, 0, sizeof(larger));
	larger.call = test_call(SYS_gettid, 0, 0, 0);
	larger.call.size = sizeof(larger);
	CHECK_IS(laio_submit(NULL, &larger.call, &handle), me);
	for (i = 0; i < (int)sizeof(larger.tail); i++) {
		larger.tail[i] = 1;
		CHECK_FAILS(laio_submit(NULL, &larger.call, &handle), E2BIG);
		CHECK(handle == NULL);
		larger.tail[i] = 0;
	}
#undef CHECK_REFUSED
}

static void user_pointers(void)
{
	struct laio_completion completion;
	struct laio_call call;
	char byte = 0;
	int fds[2], here;
	void *handle;

	test_pipe(fds);
	call = test_call(SYS_read, (uintptr_t)fds[0], (uintptr_t)&byte, 1);
	call.user = &here;
	handle = test_begin(NULL, &call);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK(completion.laio_user == &here);
	CHECK_COMPLETION(completion, handle, 1, 0);

	call.user = NULL;
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_set_user(NULL, handle, &byte), 0);
	CHECK_IS(laio_set_user(NULL, handle, &fds), 0);
	CHECK_IS(write(fds[1], "x", 1), 1);
	completion = test_await(NULL, handle);
	CHECK(completion.laio_user == (void *)&fds);
	CHECK_FAILS(laio_set_user(NULL, handle, &byte), ENOENT);
	CHECK_FAILS(laio_set_user(NULL, NULL, &byte), ENOENT);

	/* Also with laio_syscall(), and also after the operation has finished. */
	if (!test_is_sync()) {
		struct timespec zero = test_ms(0);
		int ready;

		CHECK_FAILS(laio_syscall(SYS_read, fds[0], &byte, (size_t)1), EINPROGRESS);
		handle = laio_gethandle();
		ready = laio_fd(NULL);
		CHECK_IS(laio_poll(&completion, 1, &zero), 0);
		CHECK_IS(write(fds[1], "x", 1), 1);
		test_sleep(-1, ready);
		CHECK_IS(laio_set_user(NULL, handle, &ready), 0);
		completion = test_await(NULL, handle);
		CHECK(completion.laio_user == &ready);
	}
	test_close_pipe(fds);
}

/* Versions and names exist without a context, and stay valid. */
static void names(void)
{
	char version[32];
	int i, known = 0;

	snprintf(version, sizeof(version), "%d.%d.%d", LAIO_VERSION_MAJOR, LAIO_VERSION_MINOR,
		 LAIO_VERSION_PATCH);
	CHECK(strcmp(laio_version(), version) == 0);
	CHECK(strcmp(laio_strbackend(0), "sync") == 0);
	for (i = 0; laio_strbackend(i); i++) {
		const char *name = laio_strbackend(i);

		CHECK(*name != 0);
		CHECK(laio_strbackend(i) == name);
		known += strcmp(name, "sync") == 0 || strcmp(name, "threads") == 0 ||
			 strcmp(name, "hybrid") == 0 || strcmp(name, "uring") == 0 ||
			 strcmp(name, "posix-aio") == 0 || strcmp(name, "linux-aio") == 0 ||
			 strcmp(name, "lazy") == 0 || strcmp(name, "activations") == 0;
	}
	CHECK_IS(known, 8);
	errno = 0;
	CHECK(laio_strbackend(i) == NULL);
	CHECK(laio_strbackend(-1) == NULL);
	CHECK(laio_strbackend(INT_MAX) == NULL);
	CHECK(laio_strbackend(INT_MIN) == NULL);
	CHECK_IS(errno, 0);
}

int main(void)
{
	names();
	test_start();
	answers();
	six_arguments();
	wrong_submits();
	if (!test_pends())
		test_skip("polls and handles: no call goes to the background in this back end");
	delivered_once();
	waits();
	wrong_polls();
	user_pointers();
	if (test_is_sync()) {
		test_left_out("laio_syscall() that blocks", "\"sync\" blocks");
		return 0;
	}
	goes_on();
	handle_of_the_last();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * limits.c - behaviour at the limits of operations and helpers, and after the inline budget is used up.
 */
#include "test.h"

enum { LIMIT = 4 };

static int fds[LIMIT + 1][2];
static char bytes[LIMIT + 1];
static void *handles[LIMIT + 1];
static struct laio_status statuses[LIMIT + 1];

static struct laio_call read_of(int i)
{
	struct laio_call call = test_call(SYS_read, (uintptr_t)fds[i][0], (uintptr_t)&bytes[i], 1);

	if (test_is_sync())
		call.status = &statuses[i];
	return call;
}

static void fill(struct laio_context *context)
{
	struct laio_call call;
	int i;

	for (i = 0; i <= LIMIT; i++)
		test_pipe(fds[i]);
	for (i = 0; i < LIMIT; i++) {
		call = read_of(i);
		handles[i] = test_begin(context, &call);
	}
	CHECK_IS(laio_pending(context), LIMIT);
}

static void empty(void)
{
	int i;

	for (i = 0; i <= LIMIT; i++)
		test_close_pipe(fds[i]);
}

/* EAGAIN: the call had no effect, and the program may repeat it after a delivery. */
static void refuses(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_completion completion;
	struct laio_context *context;
	struct laio_call call;
	int ready;
	void *handle = &call;
	int i;

	options.operations = LIMIT;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	fill(context);
	call = read_of(LIMIT);
	for (i = 0; i < 3; i++) {
		CHECK_FAILS(laio_submit(context, &call, &handle), EAGAIN);
		CHECK(handle == NULL);
	}
	CHECK_IS(laio_pending(context), LIMIT);
	CHECK_IS(laio_stats(context, &stats), 0);
	CHECK_IS(stats.limited, 3);
	CHECK_IS(stats.operations_max, LIMIT);

	/* Finished but undelivered: its slot is not free yet. */
	ready = laio_fd(context);
	CHECK_IS(write(fds[0][1], "x", 1), 1);
	test_sleep(-1, ready);
	CHECK_FAILS(laio_submit(context, &call, &handle), EAGAIN);
	completion = test_await(context, handles[0]);
	CHECK_COMPLETION(completion, handles[0], 1, 0);
	CHECK_FAILS(laio_submit(context, &call, &handle), EINPROGRESS);

	/* A close succeeds at the limit: no program repeats a failed close. */
	if (!test_is_sync()) {
		int fd = dup(2);

		call = test_call(SYS_close, (uintptr_t)fd, 0, 0);
		CHECK_IS(laio_submit(context, &call, NULL), 0);
		CHECK_FAILS(fcntl(fd, F_GETFD), EBADF);
	}
	CHECK_IS(write(fds[LIMIT][1], "x", 1), 1);
	completion = test_await(context, handle);
	CHECK_COMPLETION(completion, handle, 1, 0);
	CHECK_IS(laio_context_free(context), 0);
	empty();
}

static void *feed(void *argument)
{
	(void)argument;
	/* The call may not have reached the limit yet, which is also correct. */
	test_nap();
	CHECK_IS(write(fds[2][1], "x", 1), 1);
	return NULL;
}

/* LAIO_WAIT_AT_LIMIT: the call waits until an operation finishes, whose completion is still delivered. */
static void waits(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_completion completion;
	struct laio_context *context;
	struct laio_call call;
	pthread_t feeder;
	int i, seen = 0;

	options.operations = LIMIT;
	options.flags = LAIO_WAIT_AT_LIMIT;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	fill(context);
	feeder = test_thread(feed, NULL);
	call = read_of(LIMIT);
	handles[LIMIT] = test_begin(context, &call);
	test_join(feeder);
	CHECK(laio_pending(context) >= LIMIT);
	for (i = 0; i <= LIMIT; i++)
		if (i != 2)
			CHECK_IS(write(fds[i][1], "x", 1), 1);
	while (laio_pending(context) > 0) {
		CHECK_IS(laio_context_poll(context, &completion, 1, NULL), 1);
		CHECK_IS(completion.laio_return_value, 1);
		for (i = 0; i <= LIMIT && handles[i] != completion.laio_handle; i++)
			;
		CHECK(i <= LIMIT);
		handles[i] = NULL;
		seen++;
	}
	CHECK_IS(seen, LIMIT + 1);
	CHECK_IS(laio_context_free(context), 0);
	empty();
}

/* More waits than helpers: the rest queue, and each completes in the end. */
static void few_helpers(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_completion completion;
	struct laio_info info = LAIO_INFO_INIT;
	struct laio_context *context;
	struct laio_call call;
	int i;

	options.helpers = 2;
	options.waiting_helpers = 2;
	options.flags = LAIO_WAIT_AT_LIMIT;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	for (i = 0; i <= LIMIT; i++) {
		test_pipe(fds[i]);
		call = read_of(i);
		call.status = &statuses[i];
		handles[i] = test_begin(context, &call);
	}
	CHECK_IS(laio_info(context, &info), 0);
	CHECK(info.helper_threads <= 2);
	/* Operations that queue for a helper can also be cancelled. */
	CHECK_IS(laio_cancel(context, handles[LIMIT]), 0);
	completion = test_await(context, handles[LIMIT]);
	CHECK_COMPLETION(completion, handles[LIMIT], -1, ECANCELED);
	CHECK_IS(laio_peek(&statuses[LIMIT]), ECANCELED);
	for (i = 0; i < LIMIT; i++)
		CHECK_IS(write(fds[i][1], "x", 1), 1);
	for (i = 0; i < LIMIT; i++) {
		CHECK_IS(laio_context_poll(context, &completion, 1, NULL), 1);
		CHECK_IS(completion.laio_return_value, 1);
	}
	CHECK_IS(laio_info(context, &info), 0);
	CHECK(info.helper_threads <= 2);
	CHECK_IS(laio_pending(context), 0);
	CHECK_IS(laio_context_free(context), 0);
	empty();
}

/* At the limit of waits the next one fails, and calls that end by themselves have a helper. */
static void many_waits(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_completion completion;
	struct laio_info info = LAIO_INFO_INIT;
	struct laio_context *context;
	struct laio_call call;
	char target[64];
	void *handle;
	int i;

	options.helpers = 1;
	options.waiting_helpers = LIMIT;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	for (i = 0; i <= LIMIT; i++) {
		test_pipe(fds[i]);
		call = read_of(i);
		call.status = &statuses[i];
		if (i < LIMIT)
			handles[i] = test_begin(context, &call);
	}
	handle = &call;
	CHECK(laio_submit(context, &call, &handle) == -1 && errno == EAGAIN);
	CHECK(handle == NULL);
	CHECK_IS(laio_info(context, &info), 0);
	CHECK_IS(info.waiting_helpers, LIMIT);
	call = test_call(SYS_readlinkat, (uintptr_t)AT_FDCWD, (uintptr_t)"/proc/self/exe", (uintptr_t)target);
	call.args[3] = sizeof(target);
	CHECK(test_finish(context, &call) > 0);
	for (i = 0; i < LIMIT; i++)
		CHECK_IS(write(fds[i][1], "x", 1), 1);
	for (i = 0; i < LIMIT; i++) {
		CHECK_IS(laio_context_poll(context, &completion, 1, NULL), 1);
		CHECK_IS(completion.laio_return_value, 1);
	}
	CHECK_IS(laio_context_free(context), 0);
	empty();
}

/* A program whose calls all finish inline still gets its completions. */
static void inline_budget(uint32_t budget)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_completion completion;
	struct laio_context *context;
	struct laio_call call, waiting;
	char byte = 0;
	int i, over = 0, ready[2];
	void *handle, *first;

	options.inline_budget = budget;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	test_pipe(fds[0]);
	test_pipe(ready);
	waiting = read_of(0);
	first = test_begin(context, &waiting);
	call = test_call(SYS_read, (uintptr_t)ready[0], (uintptr_t)&byte, 1);
	for (i = 0; i < 40; i++) {
		byte = 0;
		CHECK_IS(write(ready[1], "x", 1), 1);
		if (laio_submit(context, &call, &handle) == -1) {
			CHECK_IS(errno, EINPROGRESS);
			over++;
			completion = test_await(context, handle);
			CHECK_COMPLETION(completion, handle, 1, 0);
		}
		CHECK_IS(byte, 'x');
	}
	CHECK_IS(laio_stats(context, &stats), 0);
	if (test_backend_is("lazy") || test_backend_is("hybrid") ||
	    test_backend_is("posix-aio") || test_backend_is("linux-aio")) {
		CHECK_IS(stats.over_budget, over);
		CHECK((over > 0) == (budget != UINT32_MAX));
	}
	CHECK_IS(laio_cancel(context, first), 0);
	CHECK_IS(test_await(context, first).laio_errno, ECANCELED);
	CHECK_IS(laio_context_free(context), 0);
	test_close_pipe(fds[0]);
	test_close_pipe(ready);
}

int main(void)
{
	test_start_pending();
	refuses();
	if (test_ring_stops_threads())
		test_left_out("LAIO_WAIT_AT_LIMIT", "valgrind and a ring");
	else
		waits();
	few_helpers();
	many_waits();
	inline_budget(1);
	inline_budget(10);
	inline_budget(UINT32_MAX);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fork.c - a child begins with empty contexts; whatever it does, the parent's operations continue.
 */
#include "test.h"

enum { COUNT = 5 };

#ifdef __cplusplus
extern "C"
#endif
int __lsan_is_turned_off(void);

/* LeakSanitizer reports in a child the memory of threads that the child does not have. */
int __lsan_is_turned_off(void)
{
	return 1;
}

/* Operations of the parent, in one context. */
struct flight {
	struct laio_context *context;
	int fds[COUNT][2];
	char bytes[COUNT];
	void *handles[COUNT];
};

static void begin(struct flight *flight, struct laio_context *context)
{
	int i;

	memset(flight, 0, sizeof(*flight));
	flight->context = context;
	for (i = 0; i < COUNT; i++) {
		test_pipe(flight->fds[i]);
		flight->handles[i] = test_begin_read(context, flight->fds[i][0], &flight->bytes[i], 1);
	}
}

static void end(struct flight *flight)
{
	struct laio_completion completion;
	int i;

	CHECK_IS(laio_pending(flight->context), COUNT);
	for (i = COUNT - 1; i >= 0; i--) {
		CHECK_IS(flight->bytes[i], 0);
		CHECK_IS(write(flight->fds[i][1], "p", 1), 1);
		completion = test_await(flight->context, flight->handles[i]);
		CHECK_COMPLETION(completion, flight->handles[i], 1, 0);
		CHECK_IS(flight->bytes[i], 'p');
		test_close_pipe(flight->fds[i]);
	}
	CHECK_IS(laio_pending(flight->context), 0);
}

/* Checks the context of a child whose parent had operations in flight. */
static void expect_empty(struct flight *flight)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	int i;

	CHECK_IS(laio_pending(flight->context), 0);
	CHECK_IS(laio_context_poll(flight->context, &completion, 1, &zero), 0);
	for (i = 0; i < COUNT; i++) {
		CHECK_FAILS(laio_take(flight->context, flight->handles[i], &completion), ENOENT);
		CHECK_FAILS(laio_cancel(flight->context, flight->handles[i]), ENOENT);
		CHECK_FAILS(laio_set_user(flight->context, flight->handles[i], NULL), ENOENT);
		CHECK_FAILS(laio_set_timeout(flight->context, flight->handles[i], &zero), ENOENT);
	}
}

/* Operations of the child, waited for with laio_poll() and through laio_fd(). */
static void work(struct laio_context *context)
{
	struct laio_completion completion;
	struct timespec zero = test_ms(0);
	int ready;
	char byte = 0;
	int fds[2], i, result;
	void *handle;

	CHECK_IS(laio_syscall(SYS_gettid), syscall(SYS_gettid));
	test_pipe(fds);
	for (i = 0; i < 3; i++) {
		handle = test_begin_read(context, fds[0], &byte, 1);
		CHECK_IS(write(fds[1], "c", 1), 1);
		completion = test_await(context, handle);
		CHECK_COMPLETION(completion, handle, 1, 0);
		CHECK_IS(byte, 'c');
	}
	ready = laio_fd(context);
	CHECK(ready >= 0);
	handle = test_begin_read(context, fds[0], &byte, 1);
	CHECK_IS(write(fds[1], "c", 1), 1);
	do {
		test_sleep(-1, ready);
		result = laio_context_poll(context, &completion, 1, &zero);
	} while (result == 0);
	CHECK_COMPLETION(completion, handle, 1, 0);
	test_close_pipe(fds);
}

/* ---- Children ---- */

static void does_nothing(void *argument)
{
	(void)argument;
}

static void looks(void *argument)
{
	expect_empty((struct flight *)argument);
}

static void works(void *argument)
{
	struct flight *flight = (struct flight *)argument;

	work(flight->context);
	expect_empty(flight);
}

static void ends_contexts(void *argument)
{
	struct flight *flight = (struct flight *)argument;

	if (flight->context)
		CHECK_IS(laio_context_free(flight->context), 0);
	CHECK_IS(laio_finish(), 0);
	CHECK_IS(laio_finish(), 0);
	work(NULL);
}

/* Leaves its own operations in flight when it exits. */
static void leaves_operations(void *argument)
{
	struct flight own;

	begin(&own, ((struct flight *)argument)->context);
	CHECK_IS(laio_pending(own.context), COUNT);
}

static void grandchild(void *argument)
{
	test_reap(test_fork(works, argument));
	works(argument);
	test_reap(test_fork(looks, argument));
}

static void wakes(void *argument)
{
	struct flight *flight = (struct flight *)argument;

	CHECK_IS(laio_wake(flight->context), 0);
	CHECK_IS(laio_flush(flight->context), 0);
	work(flight->context);
}

static void (*const children[])(void *) = {
	does_nothing, looks, works, ends_contexts, leaves_operations, grandchild, wakes,
};

/* One child after another, while the parent's operations are in flight. */
static void all_children(struct laio_context *context, int with_descriptor)
{
	struct flight flight;
	int i;

	if (with_descriptor)
		CHECK(laio_fd(context) >= 0);
	for (i = 0; i < TEST_LENGTH(children); i++) {
		begin(&flight, context);
		test_reap(test_fork(children[i], &flight));
		end(&flight);
	}
	/* Operations not yet given to the kernel or a helper also belong to the parent. */
	begin(&flight, context);
	CHECK_IS(laio_flush(context), 0);
	for (i = 0; i < TEST_LENGTH(children); i++)
		test_reap(test_fork(children[i], &flight));
	end(&flight);
}

/* Finished but undelivered at the fork: the parent gets the completion, the child does not. */
static void finished(void)
{
	struct laio_completion completion;
	struct flight flight;
	int i, seen = 0;

	begin(&flight, NULL);
	for (i = 0; i < COUNT; i++)
		CHECK_IS(write(flight.fds[i][1], "p", 1), 1);
	CHECK_IS(laio_poll(&completion, 1, NULL), 1);
	seen = 1;
	for (i = 0; i < COUNT && flight.handles[i] != completion.laio_handle; i++)
		;
	test_reap(test_fork(looks, &flight));
	while (seen < COUNT) {
		CHECK_IS(laio_poll(&completion, 1, NULL), 1);
		CHECK_IS(completion.laio_return_value, 1);
		seen++;
	}
	CHECK_IS(laio_pending(NULL), 0);
	for (i = 0; i < COUNT; i++)
		test_close_pipe(flight.fds[i]);
}

static void *of_a_thread(void *argument)
{
	struct flight flight;
	int i;

	(void)argument;
	for (i = 0; i < TEST_LENGTH(children); i++) {
		begin(&flight, NULL);
		test_reap(test_fork(children[i], &flight));
		end(&flight);
	}
	return NULL;
}

/* In the child, no thread owns the contexts of the parent's other threads. */
static void in_a_child(void *argument)
{
	struct laio_context *context = (struct laio_context *)argument;

	CHECK_FAILS(laio_pending(context), EINVAL);
	CHECK_FAILS(laio_context_free(context), EINVAL);
	work(NULL);
}

static void *forks_with_context(void *argument)
{
	test_reap(test_fork(in_a_child, argument));
	return NULL;
}

/* The parent keeps a pending signal and a pending wake. */
static void with_signal(void)
{
	struct timespec zero = test_ms(0);
	struct laio_completion completion;
	struct flight flight;
	sigset_t set;
	int i, result;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_IS(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_IS(laio_set_signal(NULL, SIGUSR1, NULL), 0);
	for (i = 0; i < TEST_LENGTH(children); i++) {
		begin(&flight, NULL);
		test_reap(test_fork(children[i], &flight));
		CHECK_IS(write(flight.fds[0][1], "p", 1), 1);
		do {
			do
				result = sigwaitinfo(&set, NULL);
			while (result < 0 && errno == EINTR);
			CHECK_IS(result, SIGUSR1);
			result = laio_poll(&completion, 1, &zero);
		} while (result == 0);
		CHECK_COMPLETION(completion, flight.handles[0], 1, 0);
		flight.bytes[0] = 0;
		flight.handles[0] = test_begin_read(NULL, flight.fds[0][0], &flight.bytes[0], 1);
		end(&flight);
	}
	CHECK_IS(laio_set_signal(NULL, 0, NULL), 0);
}

int main(void)
{
	struct laio_context *further;

	test_start_pending();
	if (test_under_valgrind())
		test_skip("valgrind does not know that the memory of a ring is not in a child");
	all_children(NULL, 0);
	further = laio_context_new(NULL);
	CHECK(further != NULL);
	all_children(further, 0);
	CHECK_IS(laio_context_use(further), 0);
	all_children(further, 1);
	all_children(NULL, 1);
	CHECK_IS(laio_context_use(NULL), 0);
	finished();
	test_join(test_thread(of_a_thread, NULL));
	test_join(test_thread(forks_with_context, further));
	test_join(test_thread(forks_with_context, laio_context_current()));
	with_signal();
	CHECK_IS(laio_context_free(further), 0);
	return 0;
}

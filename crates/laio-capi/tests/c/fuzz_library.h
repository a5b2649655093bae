/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_library.h - calls through laio, with checks of the rules of its API.
 */
#ifndef FUZZ_LIBRARY_H
#define FUZZ_LIBRARY_H

#include "fuzz_base.h"

static struct report *report;           /* of the child */

/* ---- The library ---- */

/* A rule of laio.h is violated: the parent prints it. */
__attribute__((format(printf, 1, 2)))
static void fault(const char *format, ...)
{
	va_list list;

	if (report->fault[0])
		return;
	va_start(list, format);
	vsnprintf(report->fault, sizeof(report->fault), format, list);
	va_end(list);
}

#define RULE(condition) ((condition) ? (void)0 : fault("not so: %s (%s:%d)", #condition, __FILE__, __LINE__))

static int watched_fd = -1;
static int few_operations;              /* calls may reach the limit */

/* Every other program has the default options. */
static void start_library(uint64_t seed, uint32_t limit_flags)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct dice dice = dice_of(seed, UINT64_MAX), carrying = dice_of(seed, UINT64_MAX - 2);

	options.flags = settings.flags;
	if (once_in(&dice, 2)) {
		options.helpers = 1 + below(&dice, 3);
		options.operations = 1 + below(&dice, 4);
		few_operations = 1;
		options.ring_entries = 1u << below(&dice, 4);
		options.inline_budget = 1 + below(&dice, 3);
		if (once_in(&dice, 2))
			options.flags |= limit_flags;
	}
	/* Makes all descriptors that calls need now: later ones would be among the program's descriptors. */
	if (!is_flight(seed))
		options.carriers = 2;
	if (transfers_are_short(seed))
		options.short_transfer = 4096 * (1 + below(&dice, 3)); /* whole pages of a pipe */
	if (once_in(&carrying, 2))
		options.flags |= LAIO_PURE;
	if (laio_init(&options) == -1) {
		fprintf(stderr, "laio_init: %s\n", strerror(errno));
		_exit(3);
	}
	/* Some programs wait for completions on the descriptor. */
	watched_fd = once_in(&dice, 4) ? laio_fd(NULL) : -1;
	snprintf(report->options, sizeof(report->options),
		 "options: flags %#x, operations %u, helpers %u, ring_entries %u, inline_budget %u, "
		 "short_transfer %u%s",
		 options.flags, options.operations, options.helpers, options.ring_entries,
		 options.inline_budget, options.short_transfer,
		 watched_fd == -1 ? "" : ", laio_fd() watched");
}

static void wait_for_completions(void)
{
	struct pollfd one;

	if (watched_fd == -1)
		return;
	one.fd = watched_fd;
	one.events = POLLIN;
	poll(&one, 1, -1);
}

static long settle(void *handle, void *user)
{
	struct laio_completion completion, more;
	struct timespec zero = { 0, 0 };
	int count;

	memset(&completion, 0xa5, sizeof(completion));
	do {
		wait_for_completions();
		count = laio_poll(&completion, 1, watched_fd == -1 ? NULL : &zero);
	} while (count == 0);
	if (count != 1) {
		fault("laio_poll returns %d, errno %d", count, errno);
		return -1;
	}
	RULE(completion.laio_handle == handle);
	RULE(completion.laio_reserved == 0);
	RULE(completion.laio_user == user);
	RULE((completion.laio_errno != 0) == (completion.laio_return_value == -1));
	RULE(laio_poll(&more, 1, &zero) == 0);
	RULE(laio_pending(NULL) == 0);
	errno = completion.laio_errno;
	return completion.laio_return_value;
}

/* Makes a call through the library, in one of several ways, and waits for its result. */
static long call_laio(const struct call *call, int *background)
{
	static struct laio_status status;
	const uintptr_t *w = call->words;
	struct laio_call made = LAIO_CALL_INIT(call->number);
	void *handle, *user = NULL;
	long value;

	memcpy(made.args, w, sizeof(made.args));
	memset(&status, 0x5a, sizeof(status));
	errno = 0;
	switch (call->way) {
	case 0:
		made.user = user = &made;
		value = laio_submit(NULL, &made, &handle);
		break;
	case 1:
		made.status = &status;
		value = laio_submit(NULL, &made, &handle);
		break;
	default:
		value = laio_syscall(call->number, w[0], w[1], w[2], w[3], w[4], w[5]);
		break;
	}
	if (value == -1 && errno == EINPROGRESS) {
		RULE(call->way > 1 || handle == laio_gethandle());
		handle = laio_gethandle();
	} else {
		int error = errno;

		RULE(laio_gethandle() == NULL);
		errno = error;
		return value;
	}
	if (!handle)
		return value; /* the result of the system call itself */
	*background = 1;
	value = settle(handle, user);
	if (call->way == 1) {
		int error = errno;

		RULE(laio_peek(&status) == error);
		RULE(status.laio_return_value == value);
		errno = error;
	}
	return value;
}

#endif /* FUZZ_LIBRARY_H */

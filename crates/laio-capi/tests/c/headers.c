/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * headers.c - laio.h needs no other header, may be included twice, and keeps the layout that programs were
 * compiled with. Nothing is included before it here, and no feature macro is defined: C99 is enough.
 */
#include <laio.h>
#include <laio.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* _Static_assert for C99 and C++. */
#define ASSERT_NAME(line) assert_in_line_##line
#define ASSERT_IN(line, condition) typedef char ASSERT_NAME(line)[(condition) ? 1 : -1]
#define ASSERT(condition) ASSERT_LINE(__LINE__, condition)
#define ASSERT_LINE(line, condition) ASSERT_IN(line, condition)

#define ASSERT_OFFSET(type, field, lp64, ilp32) \
	ASSERT(offsetof(struct type, field) == (sizeof(long) == 8 ? (lp64) : (ilp32)))

ASSERT(LAIO_VERSION_MAJOR == 0 && LAIO_VERSION_MINOR == 1 && LAIO_VERSION_PATCH == 0);

ASSERT(sizeof(struct laio_completion) == (sizeof(long) == 8 ? 32 : 20));
ASSERT_OFFSET(laio_completion, laio_handle, 0, 0);
ASSERT_OFFSET(laio_completion, laio_return_value, 8, 4);
ASSERT_OFFSET(laio_completion, laio_errno, 16, 8);
ASSERT_OFFSET(laio_completion, laio_reserved, 20, 12);
ASSERT_OFFSET(laio_completion, laio_user, 24, 16);

ASSERT(sizeof(struct laio_options) == (sizeof(long) == 8 ? 56 : 52));
ASSERT_OFFSET(laio_options, size, 0, 0);
ASSERT_OFFSET(laio_options, flags, 4, 4);
ASSERT_OFFSET(laio_options, backend, 8, 8);
ASSERT_OFFSET(laio_options, operations, 16, 12);
ASSERT_OFFSET(laio_options, helpers, 20, 16);
ASSERT_OFFSET(laio_options, ring_entries, 24, 20);
ASSERT_OFFSET(laio_options, inline_budget, 28, 24);
ASSERT_OFFSET(laio_options, cancel_signal, 32, 28);
ASSERT_OFFSET(laio_options, short_transfer, 36, 32);
ASSERT_OFFSET(laio_options, carriers, 40, 36);
ASSERT_OFFSET(laio_options, detector, 44, 40);
ASSERT_OFFSET(laio_options, waiting_helpers, 48, 44);
ASSERT_OFFSET(laio_options, spin_us, 52, 48);

ASSERT(sizeof(struct laio_status) == (sizeof(long) == 8 ? 16 : 12));
ASSERT_OFFSET(laio_status, laio_state, 0, 0);
ASSERT_OFFSET(laio_status, laio_reserved, 4, 4);
ASSERT_OFFSET(laio_status, laio_return_value, 8, 8);

ASSERT(sizeof(struct laio_call) == (sizeof(long) == 8 ? 88 : 48));
ASSERT_OFFSET(laio_call, size, 0, 0);
ASSERT_OFFSET(laio_call, flags, 4, 4);
ASSERT_OFFSET(laio_call, number, 8, 8);
ASSERT_OFFSET(laio_call, args, 16, 12);
ASSERT_OFFSET(laio_call, user, 64, 36);
ASSERT_OFFSET(laio_call, timeout, 72, 40);
ASSERT_OFFSET(laio_call, status, 80, 44);

ASSERT(sizeof(struct laio_counts) == 32);
ASSERT(offsetof(struct laio_counts, inline_done) == 0);
ASSERT(offsetof(struct laio_counts, background) == 8);
ASSERT(offsetof(struct laio_counts, fallback) == 16);
ASSERT(offsetof(struct laio_counts, latched) == 24);

ASSERT(sizeof(struct laio_stats) == 208);
ASSERT(offsetof(struct laio_stats, size) == 0);
ASSERT(offsetof(struct laio_stats, operations_max) == 4);
ASSERT(offsetof(struct laio_stats, calls) == 8);
ASSERT(offsetof(struct laio_stats, operations) == 40);
ASSERT(offsetof(struct laio_stats, completions) == 48);
ASSERT(offsetof(struct laio_stats, cancelled) == 56);
ASSERT(offsetof(struct laio_stats, timed_out) == 64);
ASSERT(offsetof(struct laio_stats, limited) == 72);
ASSERT(offsetof(struct laio_stats, over_budget) == 80);
ASSERT(offsetof(struct laio_stats, sleeps) == 88);
ASSERT(offsetof(struct laio_stats, submissions) == 96);
ASSERT(offsetof(struct laio_stats, aio) == 104);
ASSERT(offsetof(struct laio_stats, handoffs) == 160);
ASSERT(offsetof(struct laio_stats, false_wakeups) == 168);
ASSERT(offsetof(struct laio_stats, spins) == 176);
ASSERT(offsetof(struct laio_stats, helper_wakeups) == 184);
ASSERT(offsetof(struct laio_stats, unanswered) == 192);
ASSERT(offsetof(struct laio_stats, hung_mounts) == 200);
ASSERT(sizeof(struct laio_aio_counts) == 56);

ASSERT_OFFSET(laio_info, size, 0, 0);
ASSERT_OFFSET(laio_info, flags, 4, 4);
ASSERT_OFFSET(laio_info, backend, 8, 8);
ASSERT_OFFSET(laio_info, operations, 16, 12);
ASSERT_OFFSET(laio_info, helpers, 20, 16);
ASSERT_OFFSET(laio_info, ring_entries, 24, 20);
ASSERT_OFFSET(laio_info, inline_budget, 28, 24);
ASSERT_OFFSET(laio_info, pending, 32, 28);
ASSERT_OFFSET(laio_info, helper_threads, 36, 32);
ASSERT(sizeof(long) != 8 || offsetof(struct laio_info, memory) == 40);
ASSERT(sizeof(long) != 8 || offsetof(struct laio_info, carriers) == 48);
ASSERT(sizeof(long) != 8 || offsetof(struct laio_info, carrier_threads) == 52);
ASSERT(sizeof(long) != 8 || offsetof(struct laio_info, waiting_helpers) == 56);
ASSERT(sizeof(long) != 8 || offsetof(struct laio_info, spin_us) == 60);
ASSERT(sizeof(long) != 8 || sizeof(struct laio_info) == 64);

/* The initialisers match their structs, also where the number is not a constant. */
static int initialisers(long number)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_call call = LAIO_CALL_INIT(number);
	struct laio_stats stats = LAIO_STATS_INIT;
	struct laio_info info = LAIO_INFO_INIT;

	return options.size == sizeof(options) && options.flags == 0 && options.backend == 0 &&
	       options.detector == 0 && call.size == sizeof(call) && call.number == number &&
	       call.args[5] == 0 && call.user == 0 && call.timeout == 0 && call.status == 0 &&
	       stats.size == sizeof(stats) && stats.helper_wakeups == 0 && info.size == sizeof(info) &&
	       info.carrier_threads == 0;
}

/* Every function of the header is in the library, with C linkage. */
static int linkage(void)
{
	typedef void (*function)(void);
	const function functions[] = {
		(function)laio_syscall, (function)laio_gethandle, (function)laio_poll,
		(function)laio_init, (function)laio_finish, (function)laio_context_new,
		(function)laio_context_free, (function)laio_context_use,
		(function)laio_context_current, (function)laio_submit, (function)laio_context_poll,
		(function)laio_take, (function)laio_peek, (function)laio_cancel,
		(function)laio_set_user, (function)laio_set_timeout, (function)laio_set_ordered,
		(function)laio_forget, (function)laio_pending, (function)laio_fd,
		(function)laio_set_signal, (function)laio_sigaction, (function)laio_wake, (function)laio_flush,
		(function)laio_stats, (function)laio_call_stats, (function)laio_info,
		(function)laio_report, (function)laio_strbackend, (function)laio_version,
	};
	size_t i;

	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!functions[i])
			return 0;
	return i == 30;
}

int main(void)
{
	if (!initialisers(39)) {
		fprintf(stderr, "%s: an initialiser does not fit its struct\n", __FILE__);
		return 1;
	}
	if (!linkage()) {
		fprintf(stderr, "%s: a function is not in the library\n", __FILE__);
		return 1;
	}
	if (strcmp(laio_version(), "0.1.0") != 0) {
		fprintf(stderr, "%s: expected version 0.1.0, got %s\n", __FILE__, laio_version());
		return 1;
	}
	return 0;
}

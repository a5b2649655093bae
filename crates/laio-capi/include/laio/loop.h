/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * loop.h - what the adapters for event loops share: uv.h, glib.h, event.h.
 *
 * A program embeds a struct laio_waiter in what waits for a call, and gives it to the adapter with the result of
 * laio_syscall():
 *
 *     if (laio_uv_await(&adapter, &copy->waiter, laio_syscall(SYS_flock, file, LOCK_SH)))
 *         goes_on(&copy->waiter); // it did not block
 *
 * Otherwise the event loop calls waiter->done. In both cases waiter->result is the result, or -errno.
 */
#ifndef LAIO_LOOP_H
#define LAIO_LOOP_H

#include <laio.h>

#include <errno.h>
#include <stddef.h>

/* Something that waits for one call at a time. */
struct laio_waiter {
	void (*done)(struct laio_waiter *waiter); /* called by the event loop, if the call did not end inline */
	long result;                              /* the result of the call, or -errno */
};

/* Takes a result of laio_syscall(), before the next call. Returns whether it is the final one. */
static inline int laio_loop_await(struct laio_context *context, struct laio_waiter *waiter, long value)
{
	waiter->result = value == -1 ? -errno : value;
	if (waiter->result != -EINPROGRESS)
		return 1;
	laio_set_user(context, laio_gethandle(), waiter);
	return 0;
}

/* Delivers what has finished. Returns 0, or -1 with errno if that fails. A completion without a waiter is ignored. */
static inline int laio_loop_deliver(struct laio_context *context)
{
	static const struct timespec now = { 0, 0 };
	struct laio_completion done[16];
	int i, count;

	do {
		count = laio_context_poll(context, done, 16, &now);
		for (i = 0; i < count; i++) {
			struct laio_waiter *waiter = (struct laio_waiter *)done[i].laio_user;

			if (!waiter)
				continue;
			waiter->result = done[i].laio_return_value;
			if (done[i].laio_errno)
				waiter->result = -done[i].laio_errno;
			waiter->done(waiter);
		}
	} while (count == 16);
	return count == -1 ? -1 : 0;
}

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * event.h - laio in a libevent loop. See loop.h for struct laio_waiter.
 *
 *     struct laio_event adapter;
 *     laio_event_init(&adapter, base, NULL);
 *     ... laio_event_await(&adapter, waiter, laio_syscall(...)) ...
 *     event_base_dispatch(base);  // ends when no call is in flight and no other event is pending
 *     laio_event_free(&adapter);
 */
#ifndef LAIO_EVENT_H
#define LAIO_EVENT_H

#include <event2/event.h>
#include <laio/loop.h>

struct laio_event {
	struct event *readable; /* pending while a call is in flight */
	struct laio_context *context;
	int error; /* 0, or the errno with which waiting failed: the loop was stopped */
};

static inline void laio_event_readable_(evutil_socket_t fd, short events, void *argument)
{
	struct laio_event *adapter = (struct laio_event *)argument;

	(void)fd, (void)events;
	if (laio_loop_deliver(adapter->context) == -1) {
		adapter->error = errno;
		event_del(adapter->readable);
		event_base_loopbreak(event_get_base(adapter->readable));
	} else if (laio_pending(adapter->context) == 0) {
		event_del(adapter->readable);
	}
}

/* `context` is as in laio.h: NULL for the one that the thread uses. Returns 0, or -1 with errno. */
static inline int laio_event_init(struct laio_event *adapter, struct event_base *base, struct laio_context *context)
{
	int fd = laio_fd(context);

	adapter->context = context;
	adapter->error = 0;
	if (fd == -1)
		return -1;
	adapter->readable = event_new(base, fd, EV_READ | EV_PERSIST, laio_event_readable_, adapter);
	if (adapter->readable)
		return 0;
	errno = ENOMEM;
	return -1;
}

/* Returns whether the call ended inline. If not, the loop runs until it has ended, and calls waiter->done. */
static inline int laio_event_await(struct laio_event *adapter, struct laio_waiter *waiter, long value)
{
	if (laio_loop_await(adapter->context, waiter, value))
		return 1;
	event_add(adapter->readable, NULL);
	return 0;
}

/* Call it before the context ends, and not from waiter->done. */
static inline void laio_event_free(struct laio_event *adapter)
{
	event_free(adapter->readable);
}

#endif

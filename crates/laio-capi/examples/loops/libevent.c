/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libevent.c - laio in a libevent loop: copies files under a lock.
 *
 *     cc libevent.c -o libevent $(pkg-config --cflags --libs laio libevent)
 *
 * The loop ends when no call is in flight and no other event is pending. A timer and Ctrl-C show that it keeps running
 * meanwhile.
 */
#include "copies.h"
#include <laio/event.h>

static struct laio_event adapter;
static struct event *timer, *interrupt;

static bool began(struct laio_waiter *waiter, long value)
{
	return laio_event_await(&adapter, waiter, value);
}

static void end_loop(void)
{
	event_del(timer);
	event_del(interrupt);
}

static void on_timer(evutil_socket_t fd, short events, void *argument)
{
	(void)fd, (void)events, (void)argument;
	fprintf(stderr, "libevent: %d to go\n", copies);
}

static void on_interrupt(evutil_socket_t fd, short events, void *argument)
{
	(void)fd, (void)events;
	failures++;
	event_base_loopbreak((struct event_base *)argument);
}

int main(int argc, const char **argv)
{
	const struct timeval second = { 1, 0 };
	struct event_base *base = event_base_new();
	struct copy *all;

	if (!base || laio_event_init(&adapter, base, NULL) == -1)
		err(1, "laio");
	timer = event_new(base, -1, EV_PERSIST, on_timer, NULL);
	interrupt = evsignal_new(base, SIGINT, on_interrupt, base);
	event_add(timer, &second);
	event_add(interrupt, NULL);

	all = start_copies(argc, argv);
	event_base_dispatch(base);

	event_free(timer);
	event_free(interrupt);
	laio_event_free(&adapter);
	event_base_free(base);
	laio_finish();
	free(all);
	return failures || adapter.error ? 1 : 0;
}

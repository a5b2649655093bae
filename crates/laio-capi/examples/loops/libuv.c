/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libuv.c - laio in a libuv loop: copies files under a lock.
 *
 *     cc libuv.c -o libuv $(pkg-config --cflags --libs laio libuv)
 *
 * The loop ends by itself when no call is in flight. A timer and Ctrl-C show that it keeps running meanwhile.
 */
#include "copies.h"
#include <laio/uv.h>

static struct laio_uv adapter;
static uv_timer_t timer;
static uv_signal_t interrupt;

static bool began(struct laio_waiter *waiter, long value)
{
	return laio_uv_await(&adapter, waiter, value);
}

static void end_loop(void)
{
}

static void on_timer(uv_timer_t *handle)
{
	(void)handle;
	fprintf(stderr, "libuv: %d to go\n", copies);
}

static void on_interrupt(uv_signal_t *handle, int number)
{
	(void)number;
	failures++;
	uv_stop(handle->loop);
}

int main(int argc, const char **argv)
{
	uv_loop_t *loop = uv_default_loop();
	struct copy *all;
	int error = laio_uv_init(&adapter, loop, NULL);

	if (error < 0)
		errx(1, "laio: %s", uv_strerror(error));
	uv_timer_init(loop, &timer);
	uv_timer_start(&timer, on_timer, 1000, 1000);
	uv_unref((uv_handle_t *)&timer);
	uv_signal_init(loop, &interrupt);
	uv_signal_start(&interrupt, on_interrupt, SIGINT);
	uv_unref((uv_handle_t *)&interrupt);

	all = start_copies(argc, argv);
	uv_run(loop, UV_RUN_DEFAULT);

	laio_uv_close(&adapter);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_close((uv_handle_t *)&interrupt, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	laio_finish();
	uv_loop_close(loop);
	free(all);
	return failures || adapter.error ? 1 : 0;
}

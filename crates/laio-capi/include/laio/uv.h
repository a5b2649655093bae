/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * uv.h - laio in a libuv loop. See loop.h for struct laio_waiter.
 *
 *     struct laio_uv adapter;
 *     laio_uv_init(&adapter, uv_default_loop(), NULL);
 *     ... laio_uv_await(&adapter, waiter, laio_syscall(...)) ...
 *     uv_run(loop, UV_RUN_DEFAULT);  // ends when no call is in flight, as for all handles of libuv
 *     laio_uv_close(&adapter);
 *     uv_run(loop, UV_RUN_DEFAULT);
 */
#ifndef LAIO_UV_H
#define LAIO_UV_H

#include <laio/loop.h>
#include <uv.h>

struct laio_uv {
	uv_poll_t handle;
	struct laio_context *context;
	int error; /* 0, or the errno with which waiting failed: the loop was stopped */
};

static inline void laio_uv_readable_(uv_poll_t *handle, int status, int events)
{
	struct laio_uv *adapter = (struct laio_uv *)handle->data;

	(void)status, (void)events;
	if (laio_loop_deliver(adapter->context) == -1) {
		adapter->error = errno;
		uv_poll_stop(handle);
		uv_stop(handle->loop);
	} else if (!uv_is_closing((uv_handle_t *)handle) && laio_pending(adapter->context) == 0) {
		uv_unref((uv_handle_t *)handle);
	}
}

/* `context` is as in laio.h: NULL for the one that the thread uses. Returns 0, or a negative error of libuv. */
static inline int laio_uv_init(struct laio_uv *adapter, uv_loop_t *loop, struct laio_context *context)
{
	int result, fd = laio_fd(context);

	adapter->context = context;
	adapter->error = 0;
	if (fd == -1)
		return uv_translate_sys_error(errno);
	result = uv_poll_init(loop, &adapter->handle, fd);
	if (result < 0)
		return result;
	adapter->handle.data = adapter;
	uv_unref((uv_handle_t *)&adapter->handle);
	return uv_poll_start(&adapter->handle, UV_READABLE, laio_uv_readable_);
}

/* Returns whether the call ended inline. If not, the loop runs until it has ended, and calls waiter->done. */
static inline int laio_uv_await(struct laio_uv *adapter, struct laio_waiter *waiter, long value)
{
	if (laio_loop_await(adapter->context, waiter, value))
		return 1;
	uv_ref((uv_handle_t *)&adapter->handle);
	return 0;
}

/* Call it before the context ends. The loop must run once more, as after each uv_close(). */
static inline void laio_uv_close(struct laio_uv *adapter)
{
	uv_close((uv_handle_t *)&adapter->handle, NULL);
}

#endif

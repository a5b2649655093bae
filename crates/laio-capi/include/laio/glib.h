/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * glib.h - laio in a GLib main loop (GTK, GStreamer, ...). See loop.h for struct laio_waiter.
 *
 *     GSource *source = laio_glib_source_new(NULL);
 *     g_source_attach(source, NULL);
 *     ... laio_loop_await(NULL, waiter, laio_syscall(...)) ...
 *     g_main_loop_run(loop);
 *     g_source_destroy(source);
 *     g_source_unref(source);
 */
#ifndef LAIO_GLIB_H
#define LAIO_GLIB_H

#include <glib-unix.h>
#include <laio/loop.h>

struct laio_glib {
	GSource source;
	struct laio_context *context;
};

static inline gboolean laio_glib_dispatch_(GSource *source, GSourceFunc callback, gpointer data)
{
	struct laio_glib *adapter = (struct laio_glib *)source;

	(void)callback, (void)data;
	if (laio_loop_deliver(adapter->context) == 0)
		return G_SOURCE_CONTINUE;
	g_critical("laio_poll: %s", g_strerror(errno));
	return G_SOURCE_REMOVE;
}

/* `context` is as in laio.h: NULL for the one that the thread uses. Returns a source to attach to the GMainContext of
   this thread, or NULL with errno. Destroy it before the context ends. */
static inline GSource *laio_glib_source_new(struct laio_context *context)
{
	static GSourceFuncs functions = { NULL, NULL, laio_glib_dispatch_, NULL, NULL, NULL };
	int fd = laio_fd(context);
	GSource *source;

	if (fd == -1)
		return NULL;
	source = g_source_new(&functions, sizeof(struct laio_glib));
	((struct laio_glib *)source)->context = context;
	g_source_add_unix_fd(source, fd, G_IO_IN);
	return source;
}

#endif

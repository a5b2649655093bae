/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * glib.c - laio in a GLib main loop: copies files under a lock.
 *
 *     cc glib.c -o glib $(pkg-config --cflags --libs laio glib-2.0)
 *
 * A timer and Ctrl-C show that the loop keeps running meanwhile.
 */
#include "copies.h"
#include <laio/glib.h>

static GMainLoop *loop;

static bool began(struct laio_waiter *waiter, long value)
{
	return laio_loop_await(NULL, waiter, value);
}

static void end_loop(void)
{
	g_main_loop_quit(loop);
}

static gboolean on_timer(gpointer data)
{
	(void)data;
	fprintf(stderr, "glib: %d to go\n", copies);
	return G_SOURCE_CONTINUE;
}

static gboolean on_interrupt(gpointer data)
{
	(void)data;
	failures++;
	end_loop();
	return G_SOURCE_CONTINUE;
}

int main(int argc, const char **argv)
{
	GSource *source = laio_glib_source_new(NULL);
	struct copy *all;

	if (!source)
		err(1, "laio");
	loop = g_main_loop_new(NULL, FALSE);
	g_source_attach(source, NULL);
	g_timeout_add(1000, on_timer, NULL);
	g_unix_signal_add(SIGINT, on_interrupt, NULL);

	all = start_copies(argc, argv);
	if (copies > 0) /* all of them may have ended at once */
		g_main_loop_run(loop);

	g_source_destroy(source);
	g_source_unref(source);
	g_main_loop_unref(loop);
	laio_finish();
	free(all);
	return failures ? 1 : 0;
}

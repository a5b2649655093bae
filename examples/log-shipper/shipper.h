/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * shipper.h - what both versions of the log shipper share, which is all that does not read files: the connection to
 * the collector, the end, and a timer that measures the loop.
 */
#ifndef SHIPPER_H
#define SHIPPER_H

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* Whole lines of a log on their way to the collector: "LENGTH NAME\n", then the lines. */
struct frame {
	uv_write_t write;
	void (*sent)(struct frame *frame);
	char head[PATH_MAX + 32];
};

static uv_loop_t *loop;
static uv_tcp_t collector;

static void fail(const char *what, ssize_t error)
{
	fprintf(stderr, "shipper: %s: %s\n", what, uv_strerror((int)error));
	exit(1);
}

/* The number of bytes to send: whole lines, or a full buffer of a longer line. */
static size_t whole_lines(const char *bytes, size_t count, size_t size)
{
	size_t end = count;

	if (count == size && !memchr(bytes, '\n', count))
		return count;
	while (end > 0 && bytes[end - 1] != '\n')
		end--;
	return end;
}

static void on_sent(uv_write_t *write, int error)
{
	struct frame *frame = (struct frame *)write->data;

	if (error)
		fail("collector", error);
	frame->sent(frame);
}

/* Sends bytes, which must stay until the loop calls `sent`. */
static void send_frame(struct frame *frame, const char *name, char *bytes, size_t count,
		       void (*sent)(struct frame *frame))
{
	int length = snprintf(frame->head, sizeof(frame->head), "%zu %s\n", count, name);
	uv_buf_t parts[2] = { uv_buf_init(frame->head, (unsigned)length), uv_buf_init(bytes, (unsigned)count) };

	frame->sent = sent;
	frame->write.data = frame;
	uv_write(&frame->write, (uv_stream_t *)&collector, parts, 2, on_sent);
}

/* ---- A timer of 1 ms, if SHIPPER_TIMER is set: at the end the program prints how late it was ---- */

#define BEATS_MOST 1000000

static uint64_t beats[BEATS_MOST], beat_before;
static size_t beat_count;

static void on_beat(uv_timer_t *timer)
{
	uint64_t now = uv_hrtime(), passed = now - beat_before;

	(void)timer;
	beat_before = now;
	if (beat_count < BEATS_MOST)
		beats[beat_count++] = passed > 1000000 ? passed - 1000000 : 0;
}

static int compare_beats(const void *one, const void *other)
{
	uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return (a > b) - (a < b);
}

static void print_beats(void)
{
	if (beat_count == 0)
		return;
	qsort(beats, beat_count, sizeof(beats[0]), compare_beats);
	fprintf(stderr, "%.3f %.3f\n", (double)beats[beat_count / 2] / 1e6, (double)beats[beat_count / 100 * 99] / 1e6);
}

/* ---- Begin and end ---- */

static void on_connected(uv_connect_t *request, int error)
{
	(void)request;
	if (error)
		fail("collector", error);
}

static void on_signal(uv_signal_t *handle, int number)
{
	(void)number;
	uv_stop(handle->loop);
}

/* Frames may be sent before the connection is there: libuv keeps them. */
static void begin(int argc, char **argv)
{
	static uv_connect_t connecting;
	static uv_signal_t interrupt;
	static uv_timer_t timer;
	struct sockaddr_in address;

	if (argc < 3) {
		fprintf(stderr, "usage: %s PORT FILE...\n", argv[0]);
		exit(2);
	}
	loop = uv_default_loop();
	uv_ip4_addr("127.0.0.1", atoi(argv[1]), &address);
	uv_tcp_init(loop, &collector);
	uv_tcp_connect(&connecting, &collector, (const struct sockaddr *)&address, on_connected);
	uv_signal_init(loop, &interrupt);
	uv_signal_start(&interrupt, on_signal, SIGTERM);
	uv_timer_init(loop, &timer);
	if (getenv("SHIPPER_TIMER")) {
		beat_before = uv_hrtime();
		uv_timer_start(&timer, on_beat, 1, 1);
	}
}

#endif

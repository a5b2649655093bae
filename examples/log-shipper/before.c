/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * before.c - follows log files with the file functions of libuv, and sends their lines to a collector.
 */
#include "shipper.h"
#include <fcntl.h>
#include <stdbool.h>

struct log {
	uv_fs_t call;
	struct frame frame;
	uv_fs_event_t watch;
	const char *name;
	int file;
	int64_t offset; /* of the first byte that was not sent */
	size_t count;   /* of the bytes that are being sent */
	bool is_busy, has_changed;
	char bytes[65536];
};

static void read_on(struct log *log);

static void on_lines_sent(struct frame *frame)
{
	struct log *log = (struct log *)((char *)frame - offsetof(struct log, frame));

	log->offset += (int64_t)log->count;
	read_on(log);
}

static void on_read(uv_fs_t *call)
{
	struct log *log = (struct log *)call;

	uv_fs_req_cleanup(call);
	if (call->result < 0)
		fail(log->name, call->result);
	log->count = whole_lines(log->bytes, (size_t)call->result, sizeof(log->bytes));
	log->is_busy = log->count > 0;
	if (log->is_busy)
		send_frame(&log->frame, log->name, log->bytes, log->count, on_lines_sent);
	else if (log->has_changed)
		read_on(log);
}

static void read_on(struct log *log)
{
	uv_buf_t bytes = uv_buf_init(log->bytes, sizeof(log->bytes));

	log->is_busy = true;
	log->has_changed = false;
	uv_fs_read(loop, &log->call, log->file, &bytes, 1, log->offset, on_read);
}

static void on_change(uv_fs_event_t *watch, const char *name, int events, int error)
{
	struct log *log = (struct log *)watch->data;

	(void)name, (void)events;
	if (error)
		fail(log->name, error);
	log->has_changed = true;
	if (!log->is_busy)
		read_on(log);
}

static void on_open(uv_fs_t *call)
{
	struct log *log = (struct log *)call;
	int error;

	uv_fs_req_cleanup(call);
	if (call->result < 0)
		fail(log->name, call->result);
	log->file = (int)call->result;
	log->watch.data = log;
	uv_fs_event_init(loop, &log->watch);
	error = uv_fs_event_start(&log->watch, on_change, log->name, 0);
	if (error)
		fail(log->name, error);
	read_on(log);
}

static void follow(const char *name)
{
	struct log *log = (struct log *)calloc(1, sizeof(*log));

	if (!log)
		fail(name, UV_ENOMEM);
	log->name = name;
	uv_fs_open(loop, &log->call, name, O_RDONLY, 0, on_open);
}

int main(int argc, char **argv)
{
	int i;

	begin(argc, argv);
	for (i = 2; i < argc; i++)
		follow(argv[i]);
	uv_run(loop, UV_RUN_DEFAULT);
	print_beats();
	return 0;
}

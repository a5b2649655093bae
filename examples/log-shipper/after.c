/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * after.c - follows log files with laio in the loop of libuv, and sends their lines to a collector.
 */
#include "shipper.h"
#include <fcntl.h>
#include <laio/uv.h>
#include <stdbool.h>
#include <sys/syscall.h>

struct log {
	struct laio_waiter call;
	struct frame frame;
	uv_fs_event_t watch;
	const char *name;
	int file;
	int64_t offset; /* of the first byte that was not sent */
	size_t count;   /* of the bytes that are being sent */
	bool is_busy, has_changed;
	char bytes[65536];
};

static struct laio_uv adapter;

static void read_on(struct log *log);

static void on_lines_sent(struct frame *frame)
{
	struct log *log = (struct log *)((char *)frame - offsetof(struct log, frame));

	log->offset += (int64_t)log->count;
	read_on(log);
}

static void on_read(struct laio_waiter *call)
{
	struct log *log = (struct log *)call;

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
	log->is_busy = true;
	log->has_changed = false;
	log->call.done = on_read;
	if (laio_uv_await(&adapter, &log->call, laio_syscall(SYS_pread64, log->file, log->bytes,
							     sizeof(log->bytes), log->offset)))
		on_read(&log->call);
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

static void on_open(struct laio_waiter *call)
{
	struct log *log = (struct log *)call;
	int error;

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
	log->call.done = on_open;
	if (laio_uv_await(&adapter, &log->call, laio_syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC)))
		on_open(&log->call);
}

int main(int argc, char **argv)
{
	int i;

	begin(argc, argv);
	i = laio_uv_init(&adapter, loop, NULL);
	if (i < 0)
		fail("laio", i);
	for (i = 2; i < argc; i++)
		follow(argv[i]);
	uv_run(loop, UV_RUN_DEFAULT);
	print_beats();
	return 0;
}

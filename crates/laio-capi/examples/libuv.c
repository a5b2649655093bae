/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libuv.c - laio in a libuv loop: copies files under a lock, for which libuv has no function.
 *
 *     cc libuv.c -o libuv $(pkg-config --cflags --libs laio libuv)
 *
 * A uv_poll_t for laio_fd() is the only connection between the two. Another program may hold the lock of a
 * source for hours: only that copy waits. A timer and Ctrl-C show that the loop keeps running.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <uv.h>

static const char usage[] =
	"usage: libuv SOURCE TARGET [SOURCE TARGET]...\n"
	"Copies each SOURCE to TARGET while it holds a shared lock of SOURCE (see flock(1)), all of them at\n"
	"the same time, and prints bytes and TARGET as it is done with it.\n";

enum { PART_SIZE = 8 * 1024 * 1024 };

struct copy;
typedef bool handler(struct copy *copy, long result);

struct copy {
	handler *then;       /* continues when the current call has finished */
	long result;         /* the result of that call, or -errno */
	const char **names;  /* of source and target */
	int source, target;
	unsigned long long bytes;
};

static uv_poll_t completions;
static uv_timer_t timer;
static uv_signal_t interrupt;
static int copies, failures; /* to be made or under way; without success */

/* Returns whether `then` can continue at once. If not, it runs when laio_poll() delivers the copy. */
static bool await(struct copy *copy, handler *then, long value)
{
	copy->then = then;
	copy->result = value == -1 ? -errno : value;
	if (copy->result != -EINPROGRESS)
		return true;
	laio_set_user(NULL, laio_gethandle(), copy);
	return false;
}

/* A loop, because handlers whose calls complete inline would otherwise recurse for each part of a file. */
static void resume(struct copy *copy, long value, int error)
{
	copy->result = value == -1 ? -error : value;
	while (copy->then(copy, copy->result))
		;
}

/* Without handles the loop ends. laio_fd() belongs to laio: its uv_poll_t is closed before laio ends. */
static void end_loop(void)
{
	uv_close((uv_handle_t *)&completions, NULL);
	uv_close((uv_handle_t *)&timer, NULL);
	uv_close((uv_handle_t *)&interrupt, NULL);
}

static bool copy_done(struct copy *copy, long result)
{
	if (result < 0) {
		fprintf(stderr, "libuv: %s: %s\n", copy->names[copy->source >= 0], strerror((int)-result));
		failures++;
	} else {
		printf("%llu %s\n", copy->bytes, copy->names[1]);
	}
	if (copy->source >= 0)
		laio_syscall(SYS_close, copy->source); /* also releases the lock; its completion is ignored */
	if (--copies == 0)
		end_loop();
	return false;
}

static bool part_copied(struct copy *copy, long result)
{
	if (result < 0) {
		laio_syscall(SYS_close, copy->target);
		return copy_done(copy, result);
	}
	copy->bytes += (unsigned long long)result;
	if (result == 0) /* some file systems report ENOSPC only at the close */
		return await(copy, copy_done, laio_syscall(SYS_close, copy->target));
	return await(copy, part_copied, laio_syscall(SYS_sendfile, copy->target, copy->source, NULL,
	             (size_t)PART_SIZE));
}

static bool target_opened(struct copy *copy, long result)
{
	if (result < 0)
		return copy_done(copy, result);
	copy->target = (int)result;
	return await(copy, part_copied, laio_syscall(SYS_sendfile, copy->target, copy->source, NULL,
	             (size_t)PART_SIZE));
}

static bool source_locked(struct copy *copy, long result)
{
	if (result < 0)
		return copy_done(copy, result);
	return await(copy, target_opened, laio_syscall(SYS_openat, AT_FDCWD, copy->names[1],
	             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
}

static bool source_opened(struct copy *copy, long result)
{
	copy->source = (int)result;
	if (result < 0)
		return copy_done(copy, result);
	return await(copy, source_locked, laio_syscall(SYS_flock, copy->source, LOCK_SH));
}

static bool open_source(struct copy *copy, long result)
{
	(void)result;
	copy->source = -1;
	return await(copy, source_opened, laio_syscall(SYS_openat, AT_FDCWD, copy->names[0],
	             O_RDONLY | O_CLOEXEC));
}

static void on_completions(uv_poll_t *handle, int status, int events)
{
	static const struct timespec now = { 0, 0 };
	struct laio_completion done[16];
	int i, count;

	(void)handle, (void)status, (void)events;
	do {
		count = laio_poll(done, 16, &now);
		if (count == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++)
			if (done[i].laio_user)
				resume(done[i].laio_user, done[i].laio_return_value, done[i].laio_errno);
	} while (count == 16);
}

static void on_timer(uv_timer_t *handle)
{
	(void)handle;
	fprintf(stderr, "libuv: %d to go\n", copies);
}

static void on_interrupt(uv_signal_t *handle, int number)
{
	(void)handle, (void)number;
	failures++;
	end_loop();
}

int main(int argc, const char **argv)
{
	uv_loop_t *loop = uv_default_loop();
	struct copy *all = calloc((size_t)argc, sizeof(*all));
	int i, descriptor;

	if (argc < 3 || argc % 2 == 0) {
		fputs(usage, stderr);
		return 2;
	}
	descriptor = laio_fd(NULL);
	if (!all || descriptor == -1)
		err(1, "laio");
	uv_poll_init(loop, &completions, descriptor);
	uv_poll_start(&completions, UV_READABLE, on_completions);
	uv_timer_init(loop, &timer);
	uv_timer_start(&timer, on_timer, 1000, 1000);
	uv_signal_init(loop, &interrupt);
	uv_signal_start(&interrupt, on_interrupt, SIGINT);

	copies = argc / 2;
	for (i = 0; i < argc / 2; i++) {
		all[i].names = argv + 1 + 2 * i;
		all[i].then = open_source;
		resume(&all[i], 0, 0);
	}
	uv_run(loop, UV_RUN_DEFAULT);
	laio_finish();
	uv_loop_close(loop);
	free(all);
	return failures ? 1 : 0;
}

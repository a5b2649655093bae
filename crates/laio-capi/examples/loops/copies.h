/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * copies.h - what the examples for event loops do: they copy files under a lock, for which no event loop has a function.
 *
 * Another program may hold the lock of a source for hours: only that copy waits. Each example defines began(), and
 * end_loop(), which is called when all is done.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <laio/loop.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>

enum { PART_SIZE = 8 * 1024 * 1024 };

struct copy;
typedef bool handler(struct copy *copy, long result);

struct copy {
	struct laio_waiter waiter; /* first, so that its address is that of the copy */
	handler *then;             /* continues when the current call has finished */
	const char **names;        /* of source and target */
	int source, target;
	unsigned long long bytes;
};

static int copies, failures; /* to be made or under way; without success */

/* Gives the result of laio_syscall() to the adapter; returns whether it is final. */
static bool began(struct laio_waiter *waiter, long value);
static void end_loop(void);

/* Returns whether `then` can continue at once. */
static bool await(struct copy *copy, handler *then, long value)
{
	copy->then = then;
	return began(&copy->waiter, value);
}

/* A loop, because handlers whose calls complete inline would otherwise recurse for each part of a file. */
static void resume(struct laio_waiter *waiter)
{
	struct copy *copy = (struct copy *)waiter;

	while (copy->then(copy, waiter->result))
		;
}

static bool copy_done(struct copy *copy, long result)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", copy->names[copy->source >= 0], strerror((int)-result));
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

/* Returns the copies that the arguments name, to be freed after the loop. */
static struct copy *start_copies(int argc, const char **argv)
{
	struct copy *all;
	int i;

	if (argc < 3 || argc % 2 == 0)
		errx(2, "usage: %s SOURCE TARGET [SOURCE TARGET]...\n"
		     "Copies each SOURCE to TARGET while it holds a shared lock of SOURCE (see flock(1)), all of them at\n"
		     "the same time, and prints bytes and TARGET as it is done with it.", argv[0]);
	all = calloc((size_t)argc, sizeof(*all));
	if (!all)
		err(1, "no memory");
	copies = argc / 2;
	for (i = 0; i < argc / 2; i++) {
		all[i].names = argv + 1 + 2 * i;
		all[i].waiter.done = resume;
		all[i].then = open_source;
		resume(&all[i].waiter);
	}
	return all;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * walk.c - adds up the sizes of all files below a directory, many names at a time.
 *
 *     cc walk.c -o walk $(pkg-config --cflags --libs laio)
 *     ./walk /usr
 *
 * Prints how many names there are, the directory included, and the sum of their sizes, as find -printf
 * '%s\n' lists them. Symbolic links are not followed.
 *
 * openat(2), getdents64(2) and statx(2) have no non-blocking form; with laio the program needs no threads for
 * them. On a slow disk or network many calls are in flight at a time; with a warm cache they cost little more
 * than plain calls.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Each walker makes one call at a time, so this limits the operations in flight, far below laio's limit. */
enum { WALKERS = 64 };

/* A name that the walk has found. Unprocessed names are a stack: depth first, there are
   fewer of them than breadth first. */
struct path {
	struct path *next;
	char name[];
};

struct walker;
typedef bool handler(struct walker *walker, long result);

static struct walker {
	handler *then;     /* continues when the current call has finished */
	long result;       /* the result of that call, or -errno */
	struct path *path; /* the current path; NULL: idle */
	int directory;
	struct statx status;
	uint64_t names[4096]; /* as getdents64() writes them */
} walkers[WALKERS];
static struct path *found;
static int busy;
static unsigned long long names, bytes;
static bool failed;

static void push(const char *parent, const char *name)
{
	size_t length = strlen(parent) + strlen(name) + 2;
	struct path *path = malloc(sizeof(*path) + length);

	if (!path)
		err(1, "memory");
	snprintf(path->name, length, "%s%s%s", parent, *parent ? "/" : "", name);
	path->next = found;
	found = path;
}

/* Returns whether `then` can continue at once. If not, it runs when laio_poll() delivers the walker. */
static bool await(struct walker *walker, handler *then, long value)
{
	walker->then = then;
	walker->result = value == -1 ? -errno : value;
	if (walker->result != -EINPROGRESS)
		return true;
	laio_set_user(NULL, laio_gethandle(), walker);
	return false;
}

/* A loop, because handlers whose calls complete inline would otherwise recurse. */
static void resume(struct walker *walker, long value, int error)
{
	walker->result = value == -1 ? -error : value;
	while (walker->then(walker, walker->result))
		;
}

static bool path_done(struct walker *walker, long result)
{
	if (result < 0) {
		fprintf(stderr, "walk: %s: %s\n", walker->path->name, strerror((int)-result));
		failed = true;
	}
	free(walker->path);
	walker->path = NULL;
	busy--;
	return false;
}

static handler names_read;

static bool read_names(struct walker *walker)
{
	return await(walker, names_read, laio_syscall(SYS_getdents64, walker->directory, walker->names,
	             sizeof(walker->names)));
}

static bool names_read(struct walker *walker, long result)
{
	char *at = (char *)walker->names;

	if (result <= 0) {
		laio_syscall(SYS_close, walker->directory); /* without a user pointer: its completion is ignored */
		return path_done(walker, result);
	}
	while (at < (char *)walker->names + result) {
		struct dirent *entry = (void *)at;

		at += entry->d_reclen;
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			push(walker->path->name, entry->d_name);
	}
	return read_names(walker);
}

static bool opened(struct walker *walker, long result)
{
	if (result < 0)
		return path_done(walker, result);
	walker->directory = (int)result;
	return read_names(walker);
}

static bool status_known(struct walker *walker, long result)
{
	if (result < 0)
		return path_done(walker, result);
	names++;
	bytes += walker->status.stx_size;
	if (!S_ISDIR(walker->status.stx_mode))
		return path_done(walker, 0);
	return await(walker, opened, laio_syscall(SYS_openat, AT_FDCWD, walker->path->name,
	             O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static bool look(struct walker *walker, long result)
{
	(void)result;
	walker->path = found;
	found = found->next;
	busy++;
	return await(walker, status_known, laio_syscall(SYS_statx, AT_FDCWD, walker->path->name,
	             AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_SIZE, &walker->status));
}

int main(int argc, char **argv)
{
	struct laio_completion done[WALKERS];
	struct walker *walker;
	int i, count;

	if (argc != 2)
		errx(2, "usage: walk DIRECTORY");
	if (laio_init(NULL) == -1)
		err(1, "laio");
	push("", argv[1]);

	do {
		for (walker = walkers; walker < walkers + WALKERS; walker++) {
			while (found && !walker->path) {
				walker->then = look;
				resume(walker, 0, 0);
			}
		}
		count = laio_poll(done, WALKERS, NULL);
		if (count == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++)
			if (done[i].laio_user)
				resume(done[i].laio_user, done[i].laio_return_value, done[i].laio_errno);
	} while (busy > 0 || found);
	laio_finish();
	printf("%llu names, %llu bytes\n", names, bytes);
	return failed ? 1 : 0;
}

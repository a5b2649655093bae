/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * walk.c - adds up what is below a directory, many directories and many names at a time.
 *
 *     cc walk.c -o walk $(pkg-config --cflags --libs laio)
 *
 * openat(2), getdents64(2) and statx(2) have no non-blocking form; here they need no threads of one's
 * own. On a disk or a network that takes its time, what counts is that many calls are under way; in a
 * warm cache, that they cost little more than plain calls.
 */
#define _GNU_SOURCE
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

static const char usage[] =
	"usage: walk DIRECTORY\n"
	"Prints how many names there are below DIRECTORY, itself included, and the sum of their sizes, as\n"
	"find DIRECTORY -printf '%s\\n' lists them. Symbolic links are not followed.\n";

/* Together they bound the operations in flight, far below laio's own limit. */
enum { DIRECTORIES_MAX = 16, ENTRIES_MAX = 16 };

/* What the user pointer of an operation points to. */
struct task {
	void (*done)(struct task *task, long result);
	struct directory *directory;
};

/* A name that is being looked at, or room for one. */
struct entry {
	struct task task;
	struct entry *next; /* that is idle too */
	const char *name;   /* in buffer[] of the directory */
	struct statx status;
};

/* A directory that has been found. A tree can have more of them than memory for all the rest. */
struct path {
	struct path *next;
	char name[];
};

/* A directory that is being read. */
struct directory {
	struct task task;
	struct path *path;
	int descriptor, pending; /* entries being looked at; their names are in buffer[] */
	size_t at, filled;       /* bytes of buffer[] */
	uint64_t buffer[4096];
	struct entry entries[ENTRIES_MAX], *idle;
};

static struct path *found;
static int reading;
static unsigned long long names, bytes;
static bool failed;

static void complain(const char *path, const char *name, long result)
{
	fprintf(stderr, "walk: %s%s%s: %s\n", path, *name ? "/" : "", name, strerror((int)-result));
	failed = true;
}

static void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		err(1, "memory");
	return memory;
}

static void add(const char *parent, const char *name, unsigned mode, unsigned long long size)
{
	size_t length = strlen(parent) + strlen(name) + 2;
	struct path *path;

	names++;
	bytes += size;
	if (!S_ISDIR(mode))
		return;
	path = allocate(sizeof(*path) + length);
	snprintf(path->name, length, "%s%s%s", parent, *name ? "/" : "", name);
	path->next = found;
	found = path;
}

/* Says whether a call is done. If not, task->done() will be called with its result. */
static bool settled(struct task *task, long value, long *result)
{
	*result = value == -1 ? -errno : value;
	if (*result == -EINPROGRESS)
		laio_set_user(NULL, laio_gethandle(), task);
	return *result != -EINPROGRESS;
}

static void close_directory(struct directory *directory, long result)
{
	if (result < 0)
		complain(directory->path->name, "", result);
	if (directory->descriptor >= 0)
		laio_syscall(SYS_close, directory->descriptor); /* without a user: nobody waits for it */
	free(directory->path);
	free(directory);
	reading--;
}

static void add_entry(struct entry *entry, long result)
{
	struct directory *directory = entry->task.directory;

	entry->next = directory->idle;
	directory->idle = entry;
	if (result < 0)
		complain(directory->path->name, entry->name, result);
	else
		add(directory->path->name, entry->name, entry->status.stx_mode, entry->status.stx_size);
}

static bool take_names(struct directory *directory, long result)
{
	if (result <= 0) {
		close_directory(directory, result);
		return false;
	}
	directory->at = 0;
	directory->filled = (size_t)result;
	return true;
}

/* Goes on with a directory until something has to be waited for. */
static void read_directory(struct directory *directory)
{
	long result;

	for (;;) {
		while (directory->at < directory->filled && directory->idle) {
			struct dirent *name = (void *)((char *)directory->buffer + directory->at);
			struct entry *entry = directory->idle;

			directory->at += name->d_reclen;
			if (strcmp(name->d_name, ".") == 0 || strcmp(name->d_name, "..") == 0)
				continue;
			directory->idle = entry->next;
			entry->name = name->d_name;
			if (settled(&entry->task, laio_syscall(SYS_statx, directory->descriptor, entry->name,
			            AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_SIZE, &entry->status), &result))
				add_entry(entry, result);
			else
				directory->pending++;
		}
		if (directory->pending > 0)
			return;
		if (!settled(&directory->task, laio_syscall(SYS_getdents64, directory->descriptor,
		             directory->buffer, sizeof(directory->buffer)), &result) ||
		    !take_names(directory, result))
			return;
	}
}

static void entry_done(struct task *task, long result)
{
	add_entry((struct entry *)task, result);
	task->directory->pending--;
	read_directory(task->directory);
}

static void names_read(struct task *task, long result)
{
	if (take_names(task->directory, result))
		read_directory(task->directory);
}

static void opened(struct task *task, long result)
{
	task->directory->descriptor = (int)result;
	task->done = names_read;
	if (result < 0)
		close_directory(task->directory, result);
	else
		read_directory(task->directory);
}

static void open_directory(void)
{
	struct directory *directory = allocate(sizeof(*directory));
	long result;
	int i;

	directory->task = (struct task){ opened, directory };
	directory->path = found;
	found = found->next;
	for (i = 0; i < ENTRIES_MAX; i++) {
		directory->entries[i].task = (struct task){ entry_done, directory };
		directory->entries[i].next = directory->idle;
		directory->idle = &directory->entries[i];
	}
	reading++;
	if (settled(&directory->task, laio_syscall(SYS_openat, AT_FDCWD, directory->path->name,
	            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), &result))
		opened(&directory->task, result);
}

int main(int argc, char **argv)
{
	struct laio_completion done[64];
	struct stat status;
	int i, count;

	if (argc != 2) {
		fputs(usage, stderr);
		return 2;
	}
	if (laio_init(NULL) == -1)
		err(1, "laio");
	if (lstat(argv[1], &status) == -1)
		err(1, "%s", argv[1]);
	add(argv[1], "", status.st_mode, (unsigned long long)status.st_size);

	for (;;) {
		while (found && reading < DIRECTORIES_MAX)
			open_directory();
		if (reading == 0)
			break;
		count = laio_poll(done, 64, NULL);
		if (count == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++) {
			struct task *task = done[i].laio_user;

			long value = done[i].laio_return_value;

			if (task)
				task->done(task, value == -1 ? -done[i].laio_errno : value);
		}
	}
	laio_finish();
	printf("%llu names, %llu bytes\n", names, bytes);
	return failed ? 1 : 0;
}

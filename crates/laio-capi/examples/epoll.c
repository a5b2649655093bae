/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * epoll.c - laio in an existing event loop: counts lines and bytes of files, as wc(1).
 *
 *     cc epoll.c -o epoll $(pkg-config --cflags --libs laio)
 *     find /etc -type f | ./epoll
 *
 * Reads names of files, one per line, and prints the lines, the bytes and the name of each file when it has
 * read it. The loop is the program's own. It waits for names on standard input, for signals, and for
 * laio_fd(), which is readable when laio_poll() has completions to deliver. However slow a disk is, the
 * loop handles the next name and Ctrl-C at once.
 */
#define _GNU_SOURCE 1
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_MAX = 64, CHUNK_SIZE = 128 * 1024 };

struct file {
	int descriptor; /* -1: being opened */
	unsigned long long lines, bytes;
	char *name, chunk[CHUNK_SIZE];
};

static char names[64 * 1024]; /* read, and not yet begun with */
static size_t names_length;
static int files; /* begun with, and not yet done */
static int failures;

static void file_done(struct file *file, long result)
{
	if (result < 0) {
		fprintf(stderr, "epoll: %s: %s\n", file->name, strerror((int)-result));
		failures++;
	} else {
		printf("%llu %llu %s\n", file->lines, file->bytes, file->name);
	}
	if (file->descriptor >= 0)
		laio_syscall(SYS_close, file->descriptor); /* without a user pointer: its completion is ignored */
	free(file->name);
	free(file);
	files--;
}

static long read_chunk(struct file *file)
{
	long value = laio_syscall(SYS_read, file->descriptor, file->chunk, sizeof(file->chunk));

	return value == -1 ? -errno : value;
}

static void count_chunk(struct file *file, size_t length)
{
	const char *at = file->chunk, *end = file->chunk + length;

	file->bytes += length;
	for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
		file->lines++;
}

/* Continues with a file, whose last call returned `result`, until a call goes to the background. */
static void advance(struct file *file, long result)
{
	if (file->descriptor == -1 && result >= 0) {
		file->descriptor = (int)result;
		result = read_chunk(file);
	}
	while (result > 0) {
		count_chunk(file, (size_t)result);
		result = read_chunk(file);
	}
	if (result == -EINPROGRESS)
		laio_set_user(NULL, laio_gethandle(), file);
	else
		file_done(file, result);
}

/* Starts as many files as are allowed. Returns whether to read more names. */
static bool begin(void)
{
	char *end;
	long value;

	while (files < FILES_MAX && (end = memchr(names, '\n', names_length)) != NULL) {
		struct file *file = calloc(1, sizeof(*file));
		size_t length = (size_t)(end - names);

		if (!file || !(file->name = strndup(names, length)))
			err(1, "memory");
		names_length -= length + 1;
		memmove(names, end + 1, names_length);
		files++;
		file->descriptor = -1;
		value = laio_syscall(SYS_openat, AT_FDCWD, file->name, O_RDONLY | O_CLOEXEC);
		advance(file, value == -1 ? -errno : value);
	}
	return files < FILES_MAX;
}

/* Returns whether there may be more input. The descriptor is ready, so this does not block. */
static bool read_names(void)
{
	ssize_t count = read(STDIN_FILENO, names + names_length, sizeof(names) - names_length);

	if (count == -1)
		err(1, "standard input");
	if (count > 0)
		names_length += (size_t)count;
	else if (names_length > 0 && names[names_length - 1] != '\n')
		names[names_length++] = '\n';
	if (names_length == sizeof(names) && !memchr(names, '\n', sizeof(names)))
		errx(1, "a name is too long");
	return count > 0;
}

static void collect(void)
{
	static const struct timespec now = { 0, 0 };
	struct laio_completion done[16];
	int i, count;

	do {
		count = laio_poll(done, 16, &now);
		if (count == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++) {
			long value = done[i].laio_return_value;

			if (done[i].laio_user)
				advance(done[i].laio_user, value == -1 ? -done[i].laio_errno : value);
		}
	} while (count == 16);
}

static void watch(int set, int operation, int descriptor)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .fd = descriptor } };

	if (epoll_ctl(set, operation, descriptor, &event) == -1)
		err(1, "epoll_ctl%s", descriptor ? "" : ": standard input must be a pipe or a terminal");
}

int main(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC), signals, completions;
	bool more = true, watched = true, stopped = false, wanted;
	struct epoll_event event;
	sigset_t mask;

	if (laio_init(NULL) == -1)
		err(1, "laio");
	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signals = signalfd(-1, &mask, SFD_CLOEXEC);
	completions = laio_fd(NULL);
	if (set == -1 || signals == -1 || completions == -1)
		err(1, "start");
	watch(set, EPOLL_CTL_ADD, STDIN_FILENO);
	watch(set, EPOLL_CTL_ADD, signals);
	watch(set, EPOLL_CTL_ADD, completions);

	while (!stopped) {
		wanted = begin() && more;
		if (!more && files == 0)
			break;
		if (wanted != watched)
			watch(set, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, STDIN_FILENO);
		watched = wanted;
		fflush(stdout);
		if (epoll_wait(set, &event, 1, -1) == -1) {
			if (errno == EINTR)
				continue;
			err(1, "epoll_wait");
		}
		if (event.data.fd == completions)
			collect();
		else if (event.data.fd == signals)
			stopped = true;
		else
			more = read_names();
	}
	laio_finish();
	return failures || stopped ? 1 : 0;
}

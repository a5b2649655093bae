/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * epoll.c - laio inside an event loop that exists already: counts lines and bytes of files, as wc(1).
 *
 *     cc epoll.c -o epoll $(pkg-config --cflags --libs laio)
 *     find /etc -type f | ./epoll
 *
 * The loop is the program's own. It waits for names on standard input, for signals, and for laio_fd(),
 * which is readable when laio_poll() has something to deliver. However slow a disk is, the next name and
 * Ctrl-C are seen at once.
 */
#define _GNU_SOURCE
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

static const char usage[] =
	"usage: epoll < NAMES\n"
	"Reads names of files, one a line, and prints the lines, the bytes and the name of each when it is\n"
	"done with it. Ends at the end of the names, or at SIGINT or SIGTERM.\n";

enum { FILES_MAX = 64, CHUNK_SIZE = 128 * 1024 };

struct file;
typedef bool handler(struct file *file, long result);

struct file {
	handler *then; /* goes on when the call being made is done */
	long result;   /* what that call returned, or -errno */
	int descriptor;
	unsigned long long lines, bytes;
	char *name, chunk[CHUNK_SIZE];
};

static char names[64 * 1024]; /* read, and not yet begun with */
static size_t names_length;
static int files; /* begun with, and not yet done */
static int failures;

/* Says whether `then` can go on at once. If not, it will when laio_poll() delivers the file. */
static bool await(struct file *file, handler *then, long value)
{
	file->then = then;
	file->result = value == -1 ? -errno : value;
	if (file->result != -EINPROGRESS)
		return true;
	laio_set_user(NULL, laio_gethandle(), file);
	return false;
}

/* A loop, since calls that are done at once would otherwise nest as deep as a file is long. */
static void resume(struct file *file, long value, int error)
{
	file->result = value == -1 ? -error : value;
	while (file->then(file, file->result))
		;
}

static bool file_done(struct file *file, long result)
{
	if (result < 0) {
		fprintf(stderr, "epoll: %s: %s\n", file->name, strerror((int)-result));
		failures++;
	} else {
		printf("%llu %llu %s\n", file->lines, file->bytes, file->name);
	}
	free(file->name);
	free(file);
	files--;
	return false;
}

static bool file_read(struct file *file, long result);

static bool read_more(struct file *file)
{
	return await(file, file_read, laio_syscall(SYS_read, file->descriptor, file->chunk,
	             (size_t)CHUNK_SIZE));
}

static bool file_read(struct file *file, long result)
{
	const char *at = file->chunk, *end = file->chunk + (result > 0 ? result : 0);

	if (result <= 0) {
		laio_syscall(SYS_close, file->descriptor); /* without a user: nobody waits for it */
		return file_done(file, result);
	}
	file->bytes += (unsigned long long)result;
	for (; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++)
		file->lines++;
	return read_more(file);
}

static bool file_opened(struct file *file, long result)
{
	if (result < 0)
		return file_done(file, result);
	file->descriptor = (int)result;
	return read_more(file);
}

static bool open_file(struct file *file, long result)
{
	(void)result;
	return await(file, file_opened, laio_syscall(SYS_openat, AT_FDCWD, file->name,
	             O_RDONLY | O_CLOEXEC));
}

/* Begins with as many files as are allowed. Returns whether more names are wanted. */
static bool begin(void)
{
	char *end;

	while (files < FILES_MAX && (end = memchr(names, '\n', names_length)) != NULL) {
		struct file *file = calloc(1, sizeof(*file));
		size_t length = (size_t)(end - names);

		if (!file || !(file->name = strndup(names, length)))
			err(1, "memory");
		names_length -= length + 1;
		memmove(names, end + 1, names_length);
		files++;
		file->then = open_file;
		resume(file, 0, 0);
	}
	return files < FILES_MAX;
}

/* Returns whether there may be more. The descriptor is ready, so this does not wait. */
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
		for (i = 0; i < count; i++)
			if (done[i].laio_user)
				resume(done[i].laio_user, done[i].laio_return_value, done[i].laio_errno);
	} while (count == 16);
}

static void watch(int set, int operation, int descriptor)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .fd = descriptor } };

	if (epoll_ctl(set, operation, descriptor, &event) == -1)
		err(1, "epoll_ctl%s", descriptor ? "" : ": standard input must be a pipe or a terminal");
}

int main(int argc, char **argv)
{
	int set = epoll_create1(EPOLL_CLOEXEC), signals, completions;
	bool more = true, watched = true, stopped = false, wanted;
	struct epoll_event event;
	sigset_t mask;

	(void)argv;
	if (argc != 1) {
		fputs(usage, stderr);
		return 2;
	}
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

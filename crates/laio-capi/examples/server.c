/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * server.c - an event-driven echo and file server whose calls all look as if they blocked.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs laio)
 *
 * Every call goes through laio_syscall(), on ordinary blocking descriptors. A handler makes one call and
 * names the handler that goes on with its result: at once, or from the event loop when laio_poll()
 * delivers it. With LAIO_BACKEND=sync nothing is ever in the background: one client at a time is served.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

static const char usage[] =
	"usage: server PORT DIRECTORY [SECONDS]\n"
	"Serves the files below DIRECTORY at 127.0.0.1:PORT (0: any) until SIGINT or SIGTERM. A line\n"
	"`GET path' is answered by length, newline, file, or `ERR reason'; other lines come back.\n"
	"A client that neither sends nor takes anything for SECONDS (60) is dropped.\n";

enum { CLIENTS = 64, LINE_SIZE = 4096, CHUNK_SIZE = 64 * 1024 };

struct client;
typedef bool handler(struct client *client, long result);

static struct client {
	handler *then;       /* goes on when the call being made is done */
	long result;         /* what that call returned, or -errno */
	int socket, file;    /* or -1 */
	long sending;        /* bytes of an answer in the background */
	size_t read, used;   /* bytes in line[], perhaps of several lines, and in the line being answered */
	off_t offset;        /* what has been read of the file */
	struct stat status;
	char line[LINE_SIZE], chunk[CHUNK_SIZE];
} clients[CLIENTS];
static int listener, root;
static volatile sig_atomic_t stopping;

/* Operations in the background read these, so they do not live on a stack. A FIFO can be refused only
   when it is open, and O_NONBLOCK opens it at once. */
static const struct open_how how = { O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, RESOLVE_BENEATH };
static const struct timespec second = { 1, 0 };
static struct timespec patience = { 60, 0 };

static handler accepted, next_line, read_chunk;

/* Says whether `then` can go on at once. If not, the event loop will call it. */
static bool await(struct client *client, handler *then, long value)
{
	client->then = then;
	client->result = value == -1 ? -errno : value;
	if (client->result != -EINPROGRESS)
		return true;
	laio_set_user(NULL, laio_gethandle(), client);
	if (client->socket >= 0) /* it may have vanished without a word */
		laio_set_timeout(NULL, laio_gethandle(), &patience);
	return false;
}

/* A loop, since calls that are done at once would otherwise nest as deep as a file is long. */
static void resume(struct client *client, long value, int error)
{
	client->result = value == -1 ? -error : value;
	if (value >= 0 && value < client->sending) /* patience has come to an end amid an answer */
		client->result = -ETIME;
	client->sending = 0;
	while (client->then(client, client->result))
		;
}

/* A close that goes to the background has no user: nobody waits for it. */
static void close_later(int *descriptor)
{
	if (*descriptor >= 0)
		laio_syscall(SYS_close, *descriptor);
	*descriptor = -1;
}

/* This client is done with; its place waits for another. */
static bool next_client(struct client *client, long result)
{
	(void)result;
	close_later(&client->file);
	close_later(&client->socket);
	client->read = client->used = 0;
	return !stopping && await(client, accepted, laio_syscall(SYS_accept4, listener, NULL, NULL,
	                          SOCK_CLOEXEC));
}

static bool accepted(struct client *client, long result)
{
	static time_t told;

	client->socket = (int)result;
	if (result >= 0)
		return next_line(client, 0);
	if (stopping || result == -ECONNABORTED)
		return next_client(client, 0);
	if (told != time(NULL)) /* all places are told the same */
		fprintf(stderr, "server: accept: %s\n", strerror((int)-result));
	told = time(NULL);
	return await(client, next_client, laio_syscall(SYS_nanosleep, &second, NULL));
}

/* A call that writes has written all or has failed: there is no partial write to remember. */
static bool reply(struct client *client, const char *data, size_t length, int flags, handler *then)
{
	bool at_once = await(client, then, laio_syscall(SYS_sendto, client->socket, data, length,
	                     MSG_NOSIGNAL | flags, NULL, (size_t)0));

	client->sending = at_once ? 0 : (long)length;
	return at_once;
}

static bool refuse(struct client *client, long error)
{
	int length = sprintf(client->chunk, "ERR %s\n", strerror((int)-error));

	return reply(client, client->chunk, (size_t)length, 0, next_line);
}

/* The length was promised: only hanging up tells that the file has become shorter since. */
static bool chunk_read(struct client *client, long result)
{
	if (result <= 0)
		return next_client(client, 0);
	client->offset += result;
	return reply(client, client->chunk, (size_t)result, 0, read_chunk);
}

static bool read_chunk(struct client *client, long result)
{
	off_t left = client->status.st_size - client->offset;

	if (result < 0 || left == 0)
		return next_line(client, result);
	return await(client, chunk_read, laio_syscall(SYS_pread64, client->file, client->chunk,
	             left < CHUNK_SIZE ? (size_t)left : (size_t)CHUNK_SIZE, client->offset));
}

static bool file_known(struct client *client, long result)
{
	off_t size = client->status.st_size;

	if (result < 0 || !S_ISREG(client->status.st_mode))
		return refuse(client, result < 0 ? result : -EACCES);
	client->offset = 0;
	return reply(client, client->chunk, (size_t)sprintf(client->chunk, "%lld\n", (long long)size),
	             size ? MSG_MORE : 0, read_chunk);
}

static bool file_opened(struct client *client, long result)
{
	client->file = (int)result;
	if (result < 0)
		return refuse(client, result == -EXDEV ? -EACCES : result);
	return await(client, file_known, laio_syscall(SYS_fstat, client->file, &client->status));
}

static bool line_read(struct client *client, long result)
{
	if (result <= 0)
		return next_client(client, 0);
	client->read += (size_t)result;
	return next_line(client, 0);
}

static bool next_line(struct client *client, long result)
{
	size_t left = client->read - client->used;
	char *line = memmove(client->line, client->line + client->used, left);
	char *end = memchr(line, '\n', left);

	close_later(&client->file);
	client->read = left;
	client->used = end ? (size_t)(end + 1 - line) : 0;
	if (result < 0 || (!end && left == LINE_SIZE))
		return next_client(client, 0);
	if (!end)
		return await(client, line_read,
		             laio_syscall(SYS_read, client->socket, line + left, LINE_SIZE - left));
	if (client->used < 5 || memcmp(line, "GET ", 4) != 0)
		return reply(client, line, client->used, 0, next_line);
	*end = '\0';
	return await(client, file_opened, laio_syscall(SYS_openat2, root, line + 4, &how, sizeof(how)));
}

/* A second signal ends the program by itself: with "sync" no call is interrupted by the first. */
static void stop(int number)
{
	stopping = number;
	laio_wake(NULL);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct sigaction action = { .sa_handler = stop, .sa_flags = SA_RESETHAND };
	struct laio_completion done[32];
	socklen_t length = sizeof(address);
	struct client *client;
	int i, count;

	if (argc < 3 || argc > 4 || (argc == 4 && (patience.tv_sec = atoi(argv[3])) <= 0)) {
		fputs(usage, stderr);
		return 2;
	}
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	if ((root = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC)) == -1)
		err(1, "%s", argv[2]);
	if ((listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) == -1 ||
	    bind(listener, (struct sockaddr *)&address, length) == -1 || listen(listener, SOMAXCONN) == -1 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) == -1)
		err(1, "port %s", argv[1]);
	if (laio_init(NULL) == -1)
		err(1, "laio");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	printf("listening at 127.0.0.1:%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (client = clients; client < clients + CLIENTS; client++) {
		client->socket = client->file = -1;
		client->then = next_client;
		resume(client, 0, 0);
	}
	while (!stopping) {
		if ((count = laio_poll(done, 32, NULL)) == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++)
			if ((client = done[i].laio_user) != NULL)
				resume(client, done[i].laio_return_value, done[i].laio_errno);
	}
	laio_finish();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * server.c - an event-driven echo and file server with ordinary, blocking-style calls.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs laio)
 *
 * Serves the current directory on a port of 127.0.0.1 (0: any). The response to a line `GET path' is the length,
 * a newline and the file, or `ERR reason'; other lines are echoed.
 *
 * Every call goes through laio_syscall(), on ordinary blocking descriptors. A handler makes one call and
 * names the handler that continues with its result: at once, or from the event loop when laio_poll()
 * delivers it. With LAIO_BACKEND=sync no call goes to the background: the server serves one client at a time.
 */
#define _GNU_SOURCE 1
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { CLIENTS = 64, LINE_SIZE = 4096, CHUNK_SIZE = 64 * 1024 };

struct client;
typedef bool handler(struct client *client, long result);
static handler accepted, line_read, replied;

static struct client {
	handler *then;      /* continues when the current call has finished */
	long result;        /* the result of that call, or -errno */
	int socket, file;   /* or -1 */
	size_t read, used;  /* bytes in line[], perhaps of several lines, and in the line being answered */
	struct stat status;
	size_t left;        /* bytes of the file that have not been read */
	char line[LINE_SIZE], chunk[CHUNK_SIZE];
} clients[CLIENTS];
static int listener;

/* Operations in the background read these, so they do not live on a stack. A FIFO can be refused only
   when it is open, and O_NONBLOCK opens it at once. */
static const struct open_how how = { O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, RESOLVE_BENEATH };
static const struct timespec second = { 1, 0 };

/* Returns whether `then` can continue at once. If not, the event loop will call it. */
static bool await(struct client *client, handler *then, long value)
{
	client->then = then;
	client->result = value == -1 ? -errno : value;
	if (client->result != -EINPROGRESS)
		return true;
	laio_set_user(NULL, laio_gethandle(), client);
	return false;
}

/* A loop, because handlers whose calls complete inline would otherwise recurse for each part of a file. */
static void resume(struct client *client, long value, int error)
{
	client->result = value == -1 ? -error : value;
	while (client->then(client, client->result))
		;
}

/* A close that goes to the background has no user pointer: its completion is ignored. */
static void close_later(int *descriptor)
{
	if (*descriptor >= 0)
		laio_syscall(SYS_close, *descriptor);
	*descriptor = -1;
}

/* Frees the slot of a client for the next one. */
static bool next_client(struct client *client, long result)
{
	(void)result;
	close_later(&client->file);
	close_later(&client->socket);
	client->left = client->read = client->used = 0;
	return await(client, accepted, laio_syscall(SYS_accept4, listener, NULL, NULL, SOCK_CLOEXEC));
}

/* A write completes entirely or fails, so no state of a partial write is needed. */
static bool reply(struct client *client, const char *data, size_t length)
{
	return await(client, replied, laio_syscall(SYS_sendto, client->socket, data, length,
	             MSG_NOSIGNAL | (client->left > 0 ? MSG_MORE : 0), NULL, (size_t)0));
}

static bool answer(struct client *client, long result)
{
	if (result == 0 && S_ISREG(client->status.st_mode)) {
		client->left = (size_t)client->status.st_size;
		sprintf(client->chunk, "%zu\n", client->left);
	} else {
		sprintf(client->chunk, "ERR %s\n", strerror(result == 0 ? EACCES : (int)-result));
	}
	return reply(client, client->chunk, strlen(client->chunk));
}

static bool file_opened(struct client *client, long result)
{
	client->file = (int)result;
	if (result < 0)
		return answer(client, result == -EXDEV ? -EACCES : result);
	return await(client, answer, laio_syscall(SYS_fstat, client->file, &client->status));
}

static bool next_line(struct client *client)
{
	size_t rest = client->read - client->used;
	char *line = memmove(client->line, client->line + client->used, rest);
	char *end = memchr(line, '\n', rest);

	client->read = rest;
	client->used = end ? (size_t)(end + 1 - line) : 0;
	if (!end) /* if the buffer is full, this reads nothing */
		return await(client, line_read,
		             laio_syscall(SYS_read, client->socket, line + rest, LINE_SIZE - rest));
	if (client->used < 5 || memcmp(line, "GET ", 4) != 0)
		return reply(client, line, client->used);
	*end = '\0';
	return await(client, file_opened, laio_syscall(SYS_openat2, AT_FDCWD, line + 4, &how, sizeof(how)));
}

static bool line_read(struct client *client, long result)
{
	if (result <= 0)
		return next_client(client, 0);
	client->read += (size_t)result;
	return next_line(client);
}

static bool accepted(struct client *client, long result)
{
	client->socket = (int)result;
	if (result >= 0)
		return next_line(client);
	fprintf(stderr, "server: accept: %s\n", strerror((int)-result));
	return await(client, next_client, laio_syscall(SYS_nanosleep, &second, NULL));
}

/* The length was sent already: closing the connection is the only way to report that the file has shrunk. */
static bool chunk_read(struct client *client, long result)
{
	if (result <= 0)
		return next_client(client, 0);
	client->left -= (size_t)result;
	return reply(client, client->chunk, (size_t)result);
}

static bool replied(struct client *client, long result)
{
	size_t length = client->left < CHUNK_SIZE ? client->left : (size_t)CHUNK_SIZE;

	if (result < 0)
		return next_client(client, 0);
	if (length > 0)
		return await(client, chunk_read, laio_syscall(SYS_read, client->file, client->chunk, length));
	close_later(&client->file);
	return next_line(client);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct laio_completion done[32];
	socklen_t length = sizeof(address);
	struct client *client;
	int i, count;

	if (argc != 2)
		errx(2, "usage: server PORT");
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	if ((listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) == -1 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int)) == -1 ||
	    bind(listener, (struct sockaddr *)&address, length) == -1 || listen(listener, SOMAXCONN) == -1 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) == -1 ||
	    laio_init(NULL) == -1)
		err(1, "cannot serve at port %s", argv[1]);
	fprintf(stderr, "listening at 127.0.0.1:%d\n", ntohs(address.sin_port));
	for (client = clients; client < clients + CLIENTS; client++) {
		client->socket = client->file = -1;
		client->then = next_client;
		resume(client, 0, 0);
	}
	for (;;) {
		if ((count = laio_poll(done, 32, NULL)) == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++)
			if ((client = done[i].laio_user) != NULL)
				resume(client, done[i].laio_return_value, done[i].laio_errno);
	}
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * laio.c - the file server with laio: blocking descriptors, and ordinary system calls.
 *
 *     cc laio.c -o laio $(pkg-config --cflags --libs laio)
 */
#include "common.h"
#include <laio.h>

/* [connections] */
struct client;
typedef bool handler(struct client *client, long result);

static struct client {
	/* [event loop] */
	handler *then; /* continues when the current call has finished */
	long result;   /* the result of that call, or -errno */
	/* [connections] */
	int socket, file; /* or -1 */
	struct lines lines;
	/* [file read] */
	struct stat status;
	off_t offset;
	size_t length; /* bytes in chunk[] */
	/* [connections] */
	char chunk[CHUNK_SIZE];
} clients[CLIENTS];
static volatile sig_atomic_t stopping;

static handler next_line;

/* [event loop] */
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

/* [connections] */
/* A close that goes to the background has no user pointer: its completion is ignored. */
static void close_later(int *descriptor)
{
	if (*descriptor >= 0)
		laio_syscall(SYS_close, *descriptor);
	*descriptor = -1;
}

static handler accepted;

static bool next_client(struct client *client, long result)
{
	(void)result;
	close_later(&client->file);
	close_later(&client->socket);
	client->lines.read = client->lines.used = 0;
	return !stopping && await(client, accepted, laio_syscall(SYS_accept4, listener, NULL, NULL,
	                          SOCK_CLOEXEC));
}

static bool accepted(struct client *client, long result)
{
	static const struct timespec second = { 1, 0 };

	client->socket = (int)result;
	if (result >= 0)
		return next_line(client, 0);
	if (result == -EINTR || result == -ECONNABORTED)
		return next_client(client, 0);
	complain_of_accept((int)-result);
	return await(client, next_client, laio_syscall(SYS_nanosleep, &second, NULL));
}

/* [requests] */
/* A short send means a broken connection; the next send returns the error. */
static bool reply(struct client *client, const char *data, size_t length, handler *then)
{
	return await(client, then, laio_syscall(SYS_sendto, client->socket, data, length, MSG_NOSIGNAL, NULL,
	             (size_t)0));
}

/* [file read] */
static handler read_file;

static bool file_read(struct client *client, long result)
{
	if (result <= 0)
		return next_client(client, 0);
	client->offset += result;
	result += (long)client->length;
	client->length = 0;
	return reply(client, client->chunk, (size_t)result, read_file);
}

/* Reads into the rest of chunk[], and sends all of chunk[]. */
static bool read_file(struct client *client, long result)
{
	size_t space = CHUNK_SIZE - client->length;
	off_t left = client->status.st_size - client->offset;

	if (result < 0 || left == 0)
		return next_line(client, result);
	return await(client, file_read,
	             laio_syscall(SYS_pread64, client->file, client->chunk + client->length,
	                          left < (off_t)space ? (size_t)left : space, client->offset));
}

/* [name conversion] */
static bool refuse(struct client *client, int error)
{
	return reply(client, client->chunk, write_error(client->chunk, error), next_line);
}

static bool file_known(struct client *client, long result)
{
	if (result < 0)
		return refuse(client, (int)-result);
	if (!S_ISREG(client->status.st_mode))
		return refuse(client, EACCES);
	client->offset = 0;
	client->length = write_length(client->chunk, client->status.st_size);
	if (client->status.st_size == 0)
		return reply(client, client->chunk, client->length, next_line);
	return read_file(client, 0);
}

static bool file_opened(struct client *client, long result)
{
	client->file = (int)result;
	if (result < 0)
		return refuse(client, (int)-result);
	return await(client, file_known, laio_syscall(SYS_fstat, client->file, &client->status));
}

/* [requests] */
static bool line_read(struct client *client, long result)
{
	if (result <= 0)
		return next_client(client, 0);
	client->lines.read += (size_t)result;
	return next_line(client, 0);
}

static bool next_line(struct client *client, long result)
{
	struct lines *lines = &client->lines;

	close_later(&client->file);
	if (result < 0)
		return next_client(client, 0);
	switch (next_of(lines)) {
	case LINE_GET:
		return await(client, file_opened,
		             laio_syscall(SYS_openat2, root, path_of(lines), &how, sizeof(how)));
	case LINE_ECHO:
		return reply(client, lines->text, lines->used, next_line);
	case LINE_TOO_LONG:
		return next_client(client, 0);
	default:
		return await(client, line_read,
		             laio_syscall(SYS_read, client->socket, lines->text + lines->read,
		                          LINE_SIZE - lines->read));
	}
}

/* [event loop] */
static void stop(int number)
{
	stopping = number;
	laio_wake(NULL);
}

int main(int argc, char **argv)
{
	struct laio_completion done[64];
	int i, count;

	if (laio_init(NULL) == -1)
		err(1, "laio");
	begin(argc, argv, 0, stop);
	for (i = 0; i < CLIENTS; i++) {
		clients[i].socket = clients[i].file = -1;
		clients[i].then = next_client;
		resume(&clients[i], 0, 0);
	}
	while (!stopping) {
		count = laio_poll(done, 64, NULL);
		if (count == -1)
			err(1, "laio_poll");
		for (i = 0; i < count; i++)
			if (done[i].laio_user)
				resume(done[i].laio_user, done[i].laio_return_value, done[i].laio_errno);
	}
	laio_finish();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * liburing.c - the file server with io_uring: blocking descriptors, and every call an operation.
 *
 *     cc liburing.c -o liburing $(pkg-config --cflags --libs liburing)
 */
#include "common.h"
#include <liburing.h>
#include <sys/eventfd.h>

/* [connections] */
struct client;
typedef void handler(struct client *client, long result);

static struct client {
	/* [event loop] */
	handler *then; /* continues when the operation has finished */
	/* [connections] */
	int socket, file; /* or -1 */
	struct lines lines;
	/* [file read] */
	struct statx status;
	uint64_t offset;
	size_t length; /* bytes in chunk[] */
	/* [connections] */
	char chunk[CHUNK_SIZE];
} clients[CLIENTS];
static struct io_uring ring;
static int wake; /* an eventfd */
static volatile sig_atomic_t stopping;

static handler next_line;

/* [event loop] */
static struct io_uring_sqe *entry(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe) { /* the queue is full */
		io_uring_submit(&ring);
		sqe = io_uring_get_sqe(&ring);
	}
	return sqe;
}

static void await(struct client *client, handler *then, struct io_uring_sqe *sqe)
{
	client->then = then;
	io_uring_sqe_set_data(sqe, client);
}

/* [connections] */
/* A close has no user data: its completion is ignored. */
static void close_later(int *descriptor)
{
	struct io_uring_sqe *sqe;

	if (*descriptor >= 0) {
		sqe = entry();
		io_uring_prep_close(sqe, *descriptor);
		io_uring_sqe_set_data(sqe, NULL);
	}
	*descriptor = -1;
}

static handler accepted;

static void next_client(struct client *client, long result)
{
	struct io_uring_sqe *sqe;

	(void)result;
	close_later(&client->file);
	close_later(&client->socket);
	client->lines.read = client->lines.used = 0;
	sqe = entry();
	io_uring_prep_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
	await(client, accepted, sqe);
}

static void accepted(struct client *client, long result)
{
	static struct __kernel_timespec second = { 1, 0 };
	struct io_uring_sqe *sqe;

	client->socket = (int)result;
	if (result >= 0) {
		next_line(client, 0);
	} else if (result == -EINTR || result == -ECONNABORTED) {
		next_client(client, 0);
	} else {
		complain_of_accept((int)-result);
		sqe = entry();
		io_uring_prep_timeout(sqe, &second, 0, 0);
		await(client, next_client, sqe);
	}
}

/* [requests] */
/* MSG_WAITALL: the kernel goes on after a partial send (Linux 5.19). One that falls short all the same
   has met a broken connection, and the next one says so. */
static void reply(struct client *client, const char *data, size_t length, handler *then)
{
	struct io_uring_sqe *sqe = entry();

	io_uring_prep_send(sqe, client->socket, data, length, MSG_NOSIGNAL | MSG_WAITALL);
	await(client, then, sqe);
}

/* [file read] */
static handler read_file;

static void file_read(struct client *client, long result)
{
	if (result <= 0) {
		next_client(client, 0);
		return;
	}
	client->offset += (uint64_t)result;
	result += (long)client->length;
	client->length = 0;
	reply(client, client->chunk, (size_t)result, read_file);
}

/* Reads into the rest of chunk[], and sends all of chunk[]. */
static void read_file(struct client *client, long result)
{
	size_t space = CHUNK_SIZE - client->length;
	uint64_t left = client->status.stx_size - client->offset;
	struct io_uring_sqe *sqe;

	if (result < 0 || left == 0) {
		next_line(client, result);
		return;
	}
	sqe = entry();
	io_uring_prep_read(sqe, client->file, client->chunk + client->length,
	                   (unsigned)(left < space ? left : space), client->offset);
	await(client, file_read, sqe);
}

/* [name conversion] */
static void refuse(struct client *client, int error)
{
	reply(client, client->chunk, write_error(client->chunk, error), next_line);
}

static void file_known(struct client *client, long result)
{
	client->offset = 0;
	client->length = write_length(client->chunk, (off_t)client->status.stx_size);
	if (result < 0)
		refuse(client, (int)-result);
	else if (!S_ISREG(client->status.stx_mode))
		refuse(client, EACCES);
	else if (client->status.stx_size == 0)
		reply(client, client->chunk, client->length, next_line);
	else
		read_file(client, 0);
}

static void file_opened(struct client *client, long result)
{
	struct io_uring_sqe *sqe;

	client->file = (int)result;
	if (result < 0) {
		refuse(client, (int)-result);
		return;
	}
	sqe = entry();
	io_uring_prep_statx(sqe, client->file, "", AT_EMPTY_PATH, STATX_TYPE | STATX_SIZE, &client->status);
	await(client, file_known, sqe);
}

/* [requests] */
static void line_read(struct client *client, long result)
{
	if (result <= 0) {
		next_client(client, 0);
		return;
	}
	client->lines.read += (size_t)result;
	next_line(client, 0);
}

static void next_line(struct client *client, long result)
{
	struct lines *lines = &client->lines;
	struct io_uring_sqe *sqe;

	close_later(&client->file);
	if (result < 0) {
		next_client(client, 0);
		return;
	}
	switch (next_of(lines)) {
	case LINE_GET:
		sqe = entry();
		io_uring_prep_openat2(sqe, root, path_of(lines), &how);
		await(client, file_opened, sqe);
		break;
	case LINE_ECHO:
		reply(client, lines->text, lines->used, next_line);
		break;
	case LINE_TOO_LONG:
		next_client(client, 0);
		break;
	default:
		sqe = entry();
		io_uring_prep_recv(sqe, client->socket, lines->text + lines->read,
		                   LINE_SIZE - lines->read, 0);
		await(client, line_read, sqe);
	}
}

/* [event loop] */
/* The signal could come right before the wait: an operation that ends makes it return all the same. */
static void stop(int number)
{
	static const eventfd_t one = 1;

	stopping = number;
	if (write(wake, &one, sizeof(one)) == -1)
		_exit(1);
}

int main(int argc, char **argv)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	eventfd_t value;
	unsigned head, count;
	int i, error;

	wake = eventfd(0, EFD_CLOEXEC);
	if (wake == -1)
		err(1, "eventfd");
	error = io_uring_queue_init(256, &ring, 0);
	if (error)
		errx(1, "io_uring: %s", strerror(-error));
	begin(argc, argv, 0, stop);
	sqe = entry();
	io_uring_prep_read(sqe, wake, &value, sizeof(value), 0);
	io_uring_sqe_set_data(sqe, NULL);
	for (i = 0; i < CLIENTS; i++) {
		clients[i].socket = clients[i].file = -1;
		next_client(&clients[i], 0);
	}
	while (!stopping) {
		error = io_uring_submit_and_wait(&ring, 1);
		if (error < 0 && error != -EINTR)
			errx(1, "io_uring: %s", strerror(-error));
		count = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			struct client *client = io_uring_cqe_get_data(cqe);

			count++;
			if (client)
				client->then(client, cqe->res);
		}
		io_uring_cq_advance(&ring, count);
	}
	io_uring_queue_exit(&ring);
	return 0;
}

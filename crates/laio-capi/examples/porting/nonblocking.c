/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * nonblocking.c - the file server with epoll and non-blocking sockets. Files have no non-blocking form:
 * while one is opened or read, every client waits.
 *
 *     cc nonblocking.c -o nonblocking
 */
#include "common.h"
#include <sys/epoll.h>

/* [connections] */
static struct client {
	bool here;
	int socket, file; /* file: or -1 */
	uint32_t events;  /* that epoll watches for */
	struct lines lines;
	/* [file read] */
	off_t size, offset;
	/* [connections] */
	char chunk[CHUNK_SIZE];
	/* [partial-write state] */
	const char *data; /* being sent, in lines or in chunk[] */
	size_t length, sent;
	/* [connections] */
} clients[CLIENTS];
static int set, nclients;
static bool accept_failed;
static volatile sig_atomic_t stopping;

/* [event loop] */
static void watch(int descriptor, uint32_t *watched, uint32_t events, void *user)
{
	struct epoll_event event = { .events = events, .data = { .ptr = user } };
	int operation = !*watched ? EPOLL_CTL_ADD : !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

	if (*watched != events && epoll_ctl(set, operation, descriptor, &event) == -1)
		err(1, "epoll_ctl");
	*watched = events;
}

/* [connections] */
static bool hang_up(struct client *client)
{
	if (client->file >= 0)
		close(client->file);
	close(client->socket);
	client->here = false;
	nclients--;
	accept_failed = false;
	return false;
}

static void accept_clients(void)
{
	struct client *client = clients;
	int descriptor;

	while (nclients < CLIENTS) {
		descriptor = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (descriptor == -1) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			accept_failed = errno != EAGAIN;
			if (accept_failed)
				complain_of_accept(errno);
			return;
		}
		while (client->here)
			client++;
		client->here = true;
		client->socket = descriptor;
		client->file = -1;
		client->events = 0;
		client->lines.read = client->lines.used = 0;
		client->length = client->sent = 0;
		watch(descriptor, &client->events, EPOLLIN, client);
		nclients++;
	}
}

/* [file read] */
/* Fills the rest of chunk[]. */
static bool read_file(struct client *client)
{
	size_t space = CHUNK_SIZE - client->length;
	off_t left = client->size - client->offset;
	ssize_t count = 0;

	if (left == 0) {
		close(client->file);
		client->file = -1;
	} else {
		count = pread(client->file, client->chunk + client->length,
		              left < (off_t)space ? (size_t)left : space, client->offset);
		if (count <= 0)
			return hang_up(client);
	}
	client->data = client->chunk;
	client->length += (size_t)count;
	client->offset += count;
	return true;
}

/* [name conversion] */
static bool open_file(struct client *client)
{
	struct stat status;
	int error = 0;

	client->data = client->chunk;
	client->file = (int)syscall(SYS_openat2, root, path_of(&client->lines), &how, sizeof(how));
	if (client->file == -1 || fstat(client->file, &status) == -1)
		error = errno;
	else if (!S_ISREG(status.st_mode))
		error = EACCES;
	if (error) {
		if (client->file >= 0)
			close(client->file);
		client->file = -1;
		client->length = write_error(client->chunk, error);
		return true;
	}
	client->size = status.st_size;
	client->offset = 0;
	client->length = write_length(client->chunk, client->size);
	return read_file(client);
}

/* [requests] */
static bool read_line(struct client *client)
{
	struct lines *lines = &client->lines;
	ssize_t count;

	switch (next_of(lines)) {
	case LINE_GET:
		return open_file(client);
	case LINE_ECHO:
		client->data = lines->text;
		client->length = lines->used;
		return true;
	case LINE_TOO_LONG:
		return hang_up(client);
	default:
		count = read(client->socket, lines->text + lines->read, LINE_SIZE - lines->read);
		if (count == -1 && errno == EAGAIN) {
			watch(client->socket, &client->events, EPOLLIN, client);
			return false;
		}
		if (count <= 0)
			return hang_up(client);
		lines->read += (size_t)count;
		return true;
	}
}

/* [partial-write state] */
static bool send_rest(struct client *client)
{
	ssize_t count = send(client->socket, client->data + client->sent, client->length - client->sent,
	                     MSG_NOSIGNAL);

	if (count == -1 && errno == EAGAIN) {
		watch(client->socket, &client->events, EPOLLOUT, client);
		return false;
	}
	if (count == -1)
		return hang_up(client);
	client->sent += (size_t)count;
	if (client->sent == client->length)
		client->length = client->sent = 0;
	return true;
}

/* [event loop] */
static void serve(struct client *client)
{
	bool goes_on = true;
	int turns;

	for (turns = 0; goes_on && turns < 16; turns++) {
		if (client->length > 0)
			goes_on = send_rest(client);
		else if (client->file >= 0)
			goes_on = read_file(client);
		else
			goes_on = read_line(client);
	}
	if (goes_on) /* lets others run first; epoll reports this one again at once */
		watch(client->socket, &client->events, EPOLLIN | EPOLLOUT, client);
}

static void stop(int number)
{
	stopping = number;
}

int main(int argc, char **argv)
{
	struct epoll_event events[64];
	sigset_t signals, mask;
	uint32_t listening = 0;
	int i, count;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	begin(argc, argv, SOCK_NONBLOCK, stop);
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set == -1)
		err(1, "epoll_create1");
	while (!stopping) {
		watch(listener, &listening, nclients < CLIENTS && !accept_failed ? EPOLLIN : 0, NULL);
		count = epoll_pwait(set, events, 64, accept_failed ? 1000 : -1, &mask);
		if (count == -1 && errno != EINTR)
			err(1, "epoll_pwait");
		accept_failed = accept_failed && count != 0;
		for (i = 0; i < count; i++) {
			if (events[i].data.ptr)
				serve(events[i].data.ptr);
			else
				accept_clients();
		}
	}
	return 0;
}

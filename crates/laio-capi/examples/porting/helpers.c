/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * helpers.c - the file server with epoll, non-blocking sockets, and helper threads that open and read
 * files while the event loop runs. A client has at most one job in their queue.
 *
 *     cc helpers.c -o helpers -pthread
 */
#include "common.h"
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

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
	/* [helpers] */
	void (*job)(struct client *client);   /* runs on a helper */
	bool (*after)(struct client *client); /* continues in the event loop */
	long result; /* of the job: the result of a system call, or -errno */
	struct client *next;
	/* [connections] */
} clients[CLIENTS];
static int set, nclients;
static bool accept_failed;
static volatile sig_atomic_t stopping;

/* [helpers] */
enum { HELPERS = 16 };

struct queue {
	struct client *first, **end;
};
static struct queue todo = { NULL, &todo.first }, done = { NULL, &done.first };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static int done_event; /* an eventfd, readable while done is not empty */

static void put(struct queue *queue, struct client *client)
{
	client->next = NULL;
	*queue->end = client;
	queue->end = &client->next;
}

static struct client *take(struct queue *queue)
{
	struct client *client = queue->first;

	if (client && !(queue->first = client->next))
		queue->end = &queue->first;
	return client;
}

static void *help(void *unused)
{
	struct client *client;

	pthread_mutex_lock(&lock);
	for (;;) {
		while (!(client = take(&todo)))
			pthread_cond_wait(&work, &lock);
		pthread_mutex_unlock(&lock);
		client->job(client);
		pthread_mutex_lock(&lock);
		put(&done, client);
		if (eventfd_write(done_event, 1) == -1)
			err(1, "eventfd");
	}
	return unused;
}

static void start_helpers(void)
{
	pthread_t thread;
	int i, error;

	done_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (done_event == -1)
		err(1, "eventfd");
	for (i = 0; i < HELPERS; i++) {
		error = pthread_create(&thread, NULL, help, NULL);
		if (error)
			errx(1, "helper: %s", strerror(error));
		pthread_detach(thread);
	}
}

/* [event loop] */
static void watch(int descriptor, uint32_t *watched, uint32_t events, void *user)
{
	struct epoll_event event = { .events = events, .data = { .ptr = user } };
	int operation = !*watched ? EPOLL_CTL_ADD : !events ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;

	if (*watched != events && epoll_ctl(set, operation, descriptor, &event) == -1)
		err(1, "epoll_ctl");
	*watched = events;
}

/* [helpers] */
/* A helper uses the client until the job ends; until then epoll must not report events, not even EPOLLHUP. */
static bool give(struct client *client, void (*job)(struct client *), bool (*after)(struct client *))
{
	watch(client->socket, &client->events, 0, client);
	client->job = job;
	client->after = after;
	pthread_mutex_lock(&lock);
	put(&todo, client);
	pthread_cond_signal(&work);
	pthread_mutex_unlock(&lock);
	return false;
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
/* The number of bytes that fit after those in chunk[]. */
static void read_job(struct client *client)
{
	size_t space = CHUNK_SIZE - client->length;
	off_t left = client->size - client->offset;

	client->result = pread(client->file, client->chunk + client->length,
	                       left < (off_t)space ? (size_t)left : space, client->offset);
}

static bool file_read(struct client *client)
{
	if (client->result <= 0)
		return hang_up(client);
	client->data = client->chunk;
	client->length += (size_t)client->result;
	client->offset += client->result;
	return true;
}

static bool read_file(struct client *client)
{
	if (client->offset < client->size)
		return give(client, read_job, file_read);
	close(client->file);
	client->file = -1;
	return true;
}

/* [name conversion] */
static void open_job(struct client *client)
{
	struct stat status;

	client->result = 0;
	client->file = (int)syscall(SYS_openat2, root, path_of(&client->lines), &how, sizeof(how));
	if (client->file == -1 || fstat(client->file, &status) == -1)
		client->result = -errno;
	else if (!S_ISREG(status.st_mode))
		client->result = -EACCES;
	else
		client->size = status.st_size;
	if (client->result == 0 || client->file == -1)
		return;
	close(client->file);
	client->file = -1;
}

static bool file_opened(struct client *client)
{
	client->data = client->chunk;
	if (client->result < 0) {
		client->length = write_error(client->chunk, (int)-client->result);
		return true;
	}
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
		return give(client, open_job, file_opened);
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
static void serve(struct client *client, bool goes_on)
{
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

/* [helpers] */
static void collect(void)
{
	struct client *client;
	eventfd_t count;

	eventfd_read(done_event, &count);
	do {
		pthread_mutex_lock(&lock);
		client = take(&done);
		pthread_mutex_unlock(&lock);
		if (client)
			serve(client, client->after(client));
	} while (client);
}

/* [event loop] */
static void stop(int number)
{
	stopping = number;
}

int main(int argc, char **argv)
{
	struct epoll_event events[64];
	sigset_t signals, mask;
	uint32_t listening = 0, helped = 0;
	int i, count;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &mask);
	begin(argc, argv, SOCK_NONBLOCK, stop);
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set == -1)
		err(1, "epoll_create1");
	start_helpers();
	watch(done_event, &helped, EPOLLIN, &done);
	while (!stopping) {
		watch(listener, &listening, nclients < CLIENTS && !accept_failed ? EPOLLIN : 0, NULL);
		count = epoll_pwait(set, events, 64, accept_failed ? 1000 : -1, &mask);
		if (count == -1 && errno != EINTR)
			err(1, "epoll_pwait");
		accept_failed = accept_failed && count != 0;
		for (i = 0; i < count; i++) {
			if (events[i].data.ptr == &done)
				collect();
			else if (events[i].data.ptr)
				serve(events[i].data.ptr, true);
			else
				accept_clients();
		}
	}
	return 0;
}

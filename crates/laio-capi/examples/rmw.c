/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * rmw.c - clients that read a block of a file, modify it, and write it back, with a bound on what is in
 * flight and a choice of how to learn that an operation has finished.
 *
 *     cc rmw.c -o rmw $(pkg-config --cflags --libs laio)
 *     ./rmw -c 32 -n 1000 -l 8 -w signal scratch-file
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char usage[] =
	"usage: rmw [-c CLIENTS] [-n ITERATIONS] [-l LIMIT] [-w poll|signal|word] [-o] FILE\n"
	"Each of CLIENTS (8) adds 1 to every 64-bit number of its own 4096 bytes of FILE, ITERATIONS times\n"
	"(1000), with at most LIMIT (16, at least 2) operations in flight. -w: how to learn that one has\n"
	"finished. -o: a client reads right behind its write, without waiting; laio keeps the order.\n";

enum { BLOCK_SIZE = 4096 };

struct client;

struct operation {
	struct client *client;
	long number;               /* SYS_pread64 or SYS_pwrite64 */
	void *handle;              /* NULL: not in flight */
	struct laio_status status; /* with -w word */
};

struct client {
	struct client *next;       /* that is ready too */
	struct operation read, write;
	int pending;               /* why it is not ready */
	bool has_read;
	unsigned long left;        /* iterations */
	off_t offset;
	uint64_t blocks[2][BLOCK_SIZE / 8]; /* one to write, and with -o one that the next read fills */
	int turn;                  /* which of them is to be modified */
};

static int file, in_flight, active;
static int nclients = 8, iterations = 1000, limit = 16;
static bool ordered, words;
static struct client *clients, *ready, **ready_end = &ready;

/* A client with nothing pending has its turn when there is room in flight. */
static void release(struct client *client)
{
	if (--client->pending > 0)
		return;
	if (client->left == 0 && !client->has_read) {
		active--;
		return;
	}
	client->next = NULL;
	*ready_end = client;
	ready_end = &client->next;
}

static void finished(struct operation *operation, long value, int error)
{
	if (value != BLOCK_SIZE)
		errx(1, "%s: %s", operation->number == SYS_pread64 ? "read" : "write",
		     value == -1 ? strerror(error) : "not a whole block");
	if (operation->number == SYS_pread64)
		operation->client->has_read = true;
	release(operation->client);
}

static void submit(struct operation *operation, void *block)
{
	struct laio_call call = LAIO_CALL_INIT(operation->number);
	struct client *client = operation->client;
	long value;

	call.args[0] = (uintptr_t)file;
	call.args[1] = (uintptr_t)block;
	call.args[2] = BLOCK_SIZE;
	call.args[3] = (uintptr_t)client->offset;
	call.user = operation;
	call.status = words ? &operation->status : NULL;
	client->pending++;
	value = laio_submit(NULL, &call, &operation->handle);
	if (operation->handle)
		in_flight++;
	else
		finished(operation, value, errno);
}

static void turn(struct client *client)
{
	uint64_t *block = client->blocks[client->turn];
	int i;

	client->pending = 1; /* so that it is not ready before all is submitted */
	if (client->has_read) {
		for (i = 0; i < BLOCK_SIZE / 8; i++)
			block[i]++;
		client->has_read = false;
		client->left--;
		submit(&client->write, block);
		client->turn = !client->turn;
	}
	if (client->left > 0 && (ordered || !client->write.handle))
		submit(&client->read, client->blocks[client->turn]);
	release(client);
}

static void deliver(const struct laio_completion *completion)
{
	struct operation *operation = completion->laio_user;

	operation->handle = NULL;
	in_flight--;
	finished(operation, completion->laio_return_value, completion->laio_errno);
}

static int poll_for(const struct timespec *timeout)
{
	struct laio_completion done[32];
	int i, count = laio_poll(done, 32, timeout);

	if (count == -1)
		err(1, "laio_poll");
	for (i = 0; i < count; i++)
		deliver(&done[i]);
	return count;
}

static void wait_by_poll(void)
{
	poll_for(NULL);
}

/* The signal is blocked, and taken here; a handler that sets a flag would do as well. */
static void wait_by_signal(void)
{
	static const struct timespec now = { 0, 0 };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGRTMIN);
	if (sigwaitinfo(&mask, NULL) == -1 && errno != EINTR)
		err(1, "sigwaitinfo");
	while (poll_for(&now) == 32)
		;
}

/* Where a program has something to compute, it would look at the words now and then. */
static void wait_by_word(void)
{
	struct laio_completion completion;
	struct operation *operations[2];
	int i, j;

	for (i = 0; i < nclients; i++) {
		operations[0] = &clients[i].read;
		operations[1] = &clients[i].write;
		for (j = 0; j < 2; j++)
			if (operations[j]->handle && laio_peek(&operations[j]->status) != EINPROGRESS &&
			    laio_take(NULL, operations[j]->handle, &completion) == 0)
				deliver(&completion);
	}
	sched_yield();
}

static int number(const char *text, int least)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || value < least || value > 1000000)
		errx(2, "%s: not a number from %d to 1000000", text, least);
	return (int)value;
}

int main(int argc, char **argv)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_stats stats = LAIO_STATS_INIT;
	void (*wait)(void) = wait_by_poll;
	struct client *client;
	sigset_t mask;
	int option;

	while ((option = getopt(argc, argv, "c:n:l:w:o")) != -1) {
		if (option == 'c')
			nclients = number(optarg, 1);
		else if (option == 'n')
			iterations = number(optarg, 1);
		else if (option == 'l')
			limit = number(optarg, 2);
		else if (option == 'o')
			ordered = true;
		else if (option == 'w' && strcmp(optarg, "signal") == 0)
			wait = wait_by_signal;
		else if (option == 'w' && strcmp(optarg, "word") == 0)
			wait = wait_by_word;
		else if (option != 'w' || strcmp(optarg, "poll") != 0)
			break;
	}
	if (option != -1 || argc != optind + 1) {
		fputs(usage, stderr);
		return 2;
	}
	file = open(argv[optind], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (file == -1 || ftruncate(file, (off_t)nclients * BLOCK_SIZE) == -1)
		err(1, "%s", argv[optind]);
	clients = calloc((size_t)nclients, sizeof(*clients));
	if (!clients)
		err(1, "memory");

	/* laio counts too: were there a mistake above, a call would fail with EAGAIN. */
	options.operations = (uint32_t)limit;
	if (laio_init(&options) == -1 || laio_set_ordered(NULL, file, ordered) == -1)
		err(1, "laio");
	words = wait == wait_by_word;
	if (wait == wait_by_signal) {
		sigemptyset(&mask);
		sigaddset(&mask, SIGRTMIN);
		sigprocmask(SIG_BLOCK, &mask, NULL);
		if (laio_set_signal(NULL, SIGRTMIN, NULL) == -1)
			err(1, "laio_set_signal");
	}
	for (client = clients; client < clients + nclients; client++) {
		client->read = (struct operation){ .client = client, .number = SYS_pread64 };
		client->write = (struct operation){ .client = client, .number = SYS_pwrite64 };
		client->left = (unsigned long)iterations;
		client->offset = (off_t)(client - clients) * BLOCK_SIZE;
		client->pending = 1;
		active++;
		release(client);
	}

	while (active > 0) {
		while (ready && in_flight + 2 <= limit) { /* a turn makes up to two calls */
			client = ready;
			ready = client->next;
			if (!ready)
				ready_end = &ready;
			turn(client);
		}
		if (in_flight > 0)
			wait();
	}
	if (laio_stats(NULL, &stats) == -1 || laio_finish() == -1 || close(file) == -1)
		err(1, "end");
	printf("%d clients, %d iterations each: %llu calls did not block, %llu did, at most %u at a time\n",
	       nclients, iterations, (unsigned long long)stats.calls.inline_done,
	       (unsigned long long)stats.operations, stats.operations_max);
	free(clients);
	return 0;
}

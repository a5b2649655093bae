/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * rmw.c - clients that read a block of a file, modify it, and write it back, with a limit on operations in
 * flight and a choice of how the program is notified of completions.
 *
 *     cc rmw.c -o rmw $(pkg-config --cflags --libs laio)
 *     ./rmw signal scratch-file
 *
 * Each of CLIENTS adds 1 to every 64-bit number of its own block of the file, ITERATIONS times. It starts the
 * next read right after its write, without waiting: laio_set_ordered() keeps the order. Each client has a
 * descriptor of its own, since the order applies to all calls on a descriptor.
 */
#define _GNU_SOURCE 1
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLIENTS = 32, ITERATIONS = 100, IN_FLIGHT_MAX = 8, BLOCK_SIZE = 4096 };

struct operation {
	struct client *client;
	void *handle;              /* NULL: not in flight */
	struct laio_status status; /* if the program watches status words */
};

static struct client {
	int file;
	off_t offset;
	int turn;    /* the next turn */
	int pending; /* operations that have not finished; the next turn starts when none is left */
	struct operation read, write;
	uint64_t blocks[2][BLOCK_SIZE / 8]; /* the block of this turn, and the buffer of the next read */
} clients[CLIENTS];
static bool words;

static void finished(struct operation *operation, long value, int error)
{
	if (value != BLOCK_SIZE)
		errx(1, "a block: %s", value == -1 ? strerror(error) : "not all of it");
	operation->client->pending--;
}

static void submit(struct client *client, struct operation *operation, long number, uint64_t *block)
{
	struct laio_call call = LAIO_CALL_INIT(number);
	long value;

	operation->client = client;
	call.args[0] = (uintptr_t)client->file;
	call.args[1] = (uintptr_t)block;
	call.args[2] = BLOCK_SIZE;
	call.args[3] = (uintptr_t)client->offset;
	call.user = operation;
	call.status = words ? &operation->status : NULL;
	client->pending++;
	value = laio_submit(NULL, &call, &operation->handle);
	if (!operation->handle)
		finished(operation, value, errno);
}

/* The first turn of a client only reads, and the last one only writes. */
static void take_turn(struct client *client)
{
	uint64_t *block = client->blocks[client->turn % 2], *other = client->blocks[(client->turn + 1) % 2];
	int i;

	if (client->turn > 0) {
		for (i = 0; i < BLOCK_SIZE / 8; i++)
			block[i]++;
		submit(client, &client->write, SYS_pwrite64, block);
	}
	if (client->turn < ITERATIONS)
		submit(client, &client->read, SYS_pread64, other);
	client->turn++;
}

static void deliver(const struct laio_completion *completion)
{
	struct operation *operation = completion->laio_user;

	operation->handle = NULL;
	finished(operation, completion->laio_return_value, completion->laio_errno);
}

static void poll_for(const struct timespec *timeout)
{
	struct laio_completion done[IN_FLIGHT_MAX];
	int i, count = laio_poll(done, IN_FLIGHT_MAX, timeout);

	if (count == -1)
		err(1, "laio_poll");
	for (i = 0; i < count; i++)
		deliver(&done[i]);
}

static void wait_by_poll(void)
{
	poll_for(NULL);
}

/* The signal is blocked, and received here; a handler that sets a flag would work too. */
static void wait_by_signal(void)
{
	static const struct timespec now = { 0, 0 };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGRTMIN);
	if (sigwaitinfo(&mask, NULL) == -1 && errno != EINTR)
		err(1, "sigwaitinfo");
	poll_for(&now);
}

static void take_if_finished(struct operation *operation)
{
	struct laio_completion completion;

	if (operation->handle && laio_peek(&operation->status) != EINPROGRESS &&
	    laio_take(NULL, operation->handle, &completion) == 0)
		deliver(&completion);
}

/* A program that computes would check the status words periodically. */
static void wait_by_word(void)
{
	struct client *client;

	for (client = clients; client < clients + CLIENTS; client++) {
		take_if_finished(&client->read);
		take_if_finished(&client->write);
	}
	sched_yield();
}

int main(int argc, char **argv)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_stats stats = LAIO_STATS_INIT;
	void (*wait)(void);
	int i, turns = CLIENTS * (ITERATIONS + 1);
	struct client *client;
	unsigned next = 0;
	sigset_t mask;

	if (argc == 3 && strcmp(argv[1], "poll") == 0)
		wait = wait_by_poll;
	else if (argc == 3 && strcmp(argv[1], "signal") == 0)
		wait = wait_by_signal;
	else if (argc == 3 && strcmp(argv[1], "word") == 0)
		wait = wait_by_word;
	else
		errx(2, "usage: rmw poll|signal|word FILE");
	words = wait == wait_by_word;
	/* laio has the same limit: after a mistake above, a call would fail with EAGAIN. */
	options.operations = IN_FLIGHT_MAX;
	if (laio_init(&options) == -1)
		err(1, "laio");
	if (wait == wait_by_signal) {
		sigemptyset(&mask);
		sigaddset(&mask, SIGRTMIN);
		sigprocmask(SIG_BLOCK, &mask, NULL);
		if (laio_set_signal(NULL, SIGRTMIN, NULL) == -1)
			err(1, "laio_set_signal");
	}
	for (i = 0; i < CLIENTS; i++) {
		client = &clients[i];
		client->offset = (off_t)BLOCK_SIZE * i;
		client->file = open(argv[2], O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (client->file == -1 || ftruncate(client->file, (off_t)BLOCK_SIZE * CLIENTS) == -1 ||
		    laio_set_ordered(NULL, client->file, true) == -1)
			err(1, "%s", argv[2]);
	}

	while (turns > 0 || laio_pending(NULL) > 0) {
		/* A turn makes up to two calls. */
		for (i = 0; i < CLIENTS && laio_pending(NULL) + 2 <= IN_FLIGHT_MAX; i++) {
			client = &clients[next++ % CLIENTS];
			if (client->pending > 0 || client->turn > ITERATIONS)
				continue;
			take_turn(client);
			turns--;
		}
		if (laio_pending(NULL) > 0)
			wait();
	}
	if (laio_stats(NULL, &stats) == -1 || laio_finish() == -1)
		err(1, "end");
	printf("%llu calls went to the background, at most %u at a time\n",
	       (unsigned long long)stats.operations, stats.operations_max);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_flight.h - many operations in flight at once, some of them cancelled. They are independent, so that
 * the possible results of each are known, whatever the order.
 */
#ifndef FUZZ_FLIGHT_H
#define FUZZ_FLIGHT_H

#include "fuzz_library.h"

#define FLIGHTS 40

/* Polls of 20 ms in which nothing ends, which a slow disk may need. */
#define PATIENCE_IDLE 3000

enum {
	FLY_PREAD, FLY_PWRITE, FLY_READ_PIPE, FLY_WRITE_PIPE, FLY_SLEEP, FLY_STAT, FLY_OPEN, FLY_POLL,
	FLY_RECV, FLY_SYNC, FLY_KINDS
};

static const char *const flight_names[] = { "pread64", "pwrite64", "read of a pipe", "write to a pipe",
	"nanosleep",
	"newfstatat", "openat", "poll", "recvfrom with MSG_WAITALL", "fdatasync" };

struct flight {
	int kind, index;
	int fds[2];                 /* of its own: from, to */
	unsigned char *bytes;
	size_t count;
	struct timespec time;
	struct pollfd one;
	char path[32];
	struct stat stat;
	struct laio_status status;
	void *handle;
	int made, asked, fed, delivered;
	long value;
	int error;
	uint64_t hash;              /* of the buffer when it became ours again */
};

/* The byte at position `at` that flight `index` moves. */
static unsigned char flight_byte(int index, size_t at)
{
	return (unsigned char)(1 + ((size_t)index * 31 + at * 7 + at / 255) % 250);
}

static void flight_bytes(int index, unsigned char *bytes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		bytes[i] = flight_byte(index, i);
}

#define FLIGHT_RULE(flight, condition) \
	((condition) ? (void)0 : \
	 fault("%s (%d): not so: %s; value %ld, errno %d, count %zu, asked to end %d (line %d)", \
	       flight_names[(flight)->kind], (flight)->index, #condition, (flight)->value, (flight)->error, \
	       (flight)->count, (flight)->asked, __LINE__))

static int open_descriptors(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) != -1;
	return count;
}

static void prepare(struct flight *flight, struct dice *dice, int index)
{
	flight->index = index;
	flight->kind = (int)below(dice, FLY_KINDS);
	flight->fds[0] = flight->fds[1] = -1;
	flight->count = 1 + below(dice, 8192);
	if (flight->kind == FLY_WRITE_PIPE)
		flight->count = 60000 + below(dice, 100000);
	flight->bytes = (unsigned char *)malloc(flight->count);
	memset(flight->bytes, 0, flight->count);
	flight->time.tv_nsec = (long)below(dice, 1000) * 1000;
	snprintf(flight->path, sizeof(flight->path), "new%d", index);
	switch (flight->kind) {
	case FLY_READ_PIPE:
	case FLY_WRITE_PIPE:
	case FLY_POLL:
		CHECK_IS(pipe(flight->fds), 0);
		break;
	case FLY_RECV:
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, flight->fds), 0);
		break;
	case FLY_SLEEP:
		/* It ends only by cancellation. */
		if (once_in(dice, 4))
			flight->time.tv_sec = 1000;
		break;
	default:
		break;
	}
	if (flight->kind == FLY_WRITE_PIPE || flight->kind == FLY_PWRITE)
		flight_bytes(index, flight->bytes, flight->count);
	flight->one.fd = flight->fds[0];
	flight->one.events = POLLIN;
}

static uintptr_t word(const void *pointer)
{
	return (uintptr_t)pointer;
}

static struct laio_call call_of(struct flight *flight, int file, int out)
{
	struct laio_call call = LAIO_CALL_INIT(SYS_fdatasync);
	uintptr_t *args = call.args;

	args[0] = (uintptr_t)flight->fds[0];
	args[1] = word(flight->bytes);
	args[2] = flight->count;
	switch (flight->kind) {
	case FLY_PREAD:
	case FLY_PWRITE:
		call.number = flight->kind == FLY_PREAD ? SYS_pread64 : SYS_pwrite64;
		args[0] = (uintptr_t)(flight->kind == FLY_PREAD ? file : out);
		args[3] = (uintptr_t)flight->index * 8192;
		break;
	case FLY_READ_PIPE:
		call.number = SYS_read;
		break;
	case FLY_WRITE_PIPE:
		call.number = SYS_write;
		args[0] = (uintptr_t)flight->fds[1];
		break;
	case FLY_SLEEP:
		call.number = SYS_nanosleep;
		args[0] = word(&flight->time);
		args[1] = 0;
		break;
	case FLY_STAT:
		call.number = SYS_newfstatat;
		args[0] = (uintptr_t)AT_FDCWD;
		args[1] = word("in");
		args[2] = word(&flight->stat);
		break;
	case FLY_OPEN:
		call.number = SYS_openat;
		args[0] = (uintptr_t)AT_FDCWD;
		args[1] = word(flight->path);
		args[2] = O_RDWR | O_CREAT;
		args[3] = 0600;
		break;
	case FLY_POLL:
		call.number = SYS_ppoll;
		args[0] = word(&flight->one);
		args[1] = 1;
		args[2] = args[3] = 0;
		break;
	case FLY_RECV:
		call.number = SYS_recvfrom;
		args[3] = MSG_WAITALL;
		break;
	default:
		args[0] = (uintptr_t)out;
		break;
	}
	call.user = flight;
	return call;
}

/* Ends the wait of a flight. A flight that will not be cancelled is always fed, so that it ends. */
static void feed_flight(struct flight *flight)
{
	unsigned char *bytes;

	if (flight->fed || flight->fds[0] == -1 || flight->kind == FLY_WRITE_PIPE)
		return;
	bytes = (unsigned char *)malloc(flight->count);
	flight_bytes(flight->index, bytes, flight->count);
	flight->fed = 1;
	CHECK_IS(write(flight->fds[1], bytes, flight->count), flight->count);
	free(bytes);
}

static void check_result(struct flight *flight, int error)
{
	long full = 0;
	size_t i;

	flight->hash = hash_bytes(1, flight->bytes, flight->count);
	if (flight->value == -1) {
		FLIGHT_RULE(flight, flight->asked && (error == ECANCELED || error == ETIME));
		if (flight->kind == FLY_PWRITE || flight->kind == FLY_WRITE_PIPE)
			return;
		for (i = 0; i < flight->count; i++)
			if (flight->bytes[i] != 0)
				break;
		FLIGHT_RULE(flight, i == flight->count);
		return;
	}
	switch (flight->kind) {
	case FLY_POLL:
		FLIGHT_RULE(flight, flight->value == 1 && flight->one.revents == POLLIN);
		return;
	case FLY_OPEN:
		FLIGHT_RULE(flight, fcntl((int)flight->value, F_GETFD) != -1);
		close((int)flight->value);
		return;
	case FLY_STAT:
		FLIGHT_RULE(flight, flight->value == 0 && flight->stat.st_size == 8192 * (FLIGHTS + 1));
		return;
	case FLY_PREAD: case FLY_PWRITE: case FLY_READ_PIPE: case FLY_WRITE_PIPE: case FLY_RECV:
		full = (long)flight->count;
		break;
	default:
		break;
	}
	/* At the limit of operations the rest of a transfer is not done. */
	FLIGHT_RULE(flight, flight->value == full ||
			    ((flight->asked || (few_operations && !flight->handle)) && flight->value > 0 &&
			     flight->value < full));
	for (i = 0; i < (size_t)flight->value; i++)
		if (flight->bytes[i] != flight_byte(flight->index, i))
			break;
	FLIGHT_RULE(flight, i == (size_t)flight->value);
}

static void deliver(struct flight *flights, int count, const struct laio_completion *completion)
{
	struct flight *flight = (struct flight *)completion->laio_user;

	if (flight < flights || flight >= flights + count) {
		fault("a completion of nothing");
		return;
	}
	flight->value = completion->laio_return_value;
	flight->error = completion->laio_errno;
	FLIGHT_RULE(flight, !flight->delivered);
	FLIGHT_RULE(flight, completion->laio_handle == flight->handle);
	flight->delivered = 1;
	check_result(flight, completion->laio_errno);
}

static int poll_flights(struct flight *flights, int count, struct dice *dice, long milliseconds)
{
	struct laio_completion completions[8];
	struct timespec time = test_ms(milliseconds);
	int i, result = laio_poll(completions, 1 + (int)below(dice, 8), &time);

	if (result == -1)
		fault("laio_poll: errno %d", errno);
	for (i = 0; i < result; i++)
		deliver(flights, count, &completions[i]);
	return result;
}

static void launch(struct flight *flight, struct dice *dice, int file, int out)
{
	struct laio_call call = call_of(flight, file, out);
	struct timespec time = test_ms(below(dice, 3));
	long value;

	/* These would block the thread itself. */
	if ((settings.flags & LAIO_INJECT_INLINE) || test_is_sync()) {
		flight->time.tv_sec = 0;
		feed_flight(flight);
		if (flight->kind == FLY_WRITE_PIPE)
			return;
	}
	if (once_in(dice, 4))
		feed_flight(flight);
	if (once_in(dice, 6))
		call.status = &flight->status;
	if (once_in(dice, 5)) {
		call.timeout = &time;
		flight->asked = 1;
	}
	value = laio_submit(NULL, &call, &flight->handle);
	flight->made = 1;
	if (value == -1 && errno == EINPROGRESS && flight->handle)
		return;
	flight->delivered = 1;
	flight->value = value;
	flight->error = errno;
	RULE(flight->handle == NULL);
	if (value == -1 && flight->error == EAGAIN) {
		flight->made = 0; /* at the limit of operations */
		return;
	}
	check_result(flight, flight->error);
}

/* The number of bytes in the pipe or socket. */
static long waiting_in(int fd)
{
	int count = 0;

	ioctl(fd, FIONREAD, &count);
	return count;
}

static void take_out(struct flight *flight, long *total)
{
	unsigned char bytes[4096];
	ssize_t count;
	long i;

	while (waiting_in(flight->fds[0]) > 0 && (count = read(flight->fds[0], bytes, sizeof(bytes))) > 0)
		for (i = 0; i < count; i++, ++*total)
			if (bytes[i] != flight_byte(flight->index, (size_t)*total))
				fault("write to a pipe (%d): byte %ld is another", flight->index, *total);
}

static void check_after(struct flight *flight, int out, long taken)
{
	unsigned char bytes[8192];
	long moved = flight->made && flight->value > 0 ? flight->value : 0;
	long i;

	if (flight->made)
		FLIGHT_RULE(flight, flight->hash == hash_bytes(1, flight->bytes, flight->count));
	if (flight->fed && (flight->kind == FLY_READ_PIPE || flight->kind == FLY_RECV))
		FLIGHT_RULE(flight, moved + waiting_in(flight->fds[0]) == (long)flight->count);
	if (flight->kind == FLY_WRITE_PIPE)
		FLIGHT_RULE(flight, moved == taken);
	if (flight->kind == FLY_PWRITE) {
		memset(bytes, 0, sizeof(bytes));
		if (pread(out, bytes, sizeof(bytes), (off_t)flight->index * 8192) < 0)
			fault("pread: errno %d", errno);
		for (i = 0; i < moved; i++)
			FLIGHT_RULE(flight, bytes[i] == flight_byte(flight->index, (size_t)i));
		for (; i < (long)sizeof(bytes); i++)
			FLIGHT_RULE(flight, bytes[i] == 0);
	}
}

static void fly(uint64_t seed)
{
	static struct flight flights[FLIGHTS];
	struct dice dice = dice_of(seed, 0);
	int count = 4 + (int)below(&dice, FLIGHTS - 4), before = open_descriptors();
	int file, out, i, idle, pending;
	long taken[FLIGHTS];
	unsigned char bytes[8192];

	memset(taken, 0, sizeof(taken));
	file = open("in", O_RDWR | O_CREAT, 0600);
	out = open("out", O_RDWR | O_CREAT, 0600);
	for (i = 0; i <= FLIGHTS; i++) {
		flight_bytes(i, bytes, sizeof(bytes));
		CHECK_IS(write(file, bytes, sizeof(bytes)), sizeof(bytes));
	}
	if (ftruncate(out, 8192 * (FLIGHTS + 1)) != 0)
		_exit(3);
	start_library(seed, 0);
	for (i = 0; i < count; i++)
		prepare(&flights[i], &dice, i);
	for (i = 0; i < count && !report->fault[0]; i++) {
		launch(&flights[i], &dice, file, out);
		if (once_in(&dice, 3))
			poll_flights(flights, count, &dice, 0);
		if (once_in(&dice, 3)) {
			struct flight *one = &flights[below(&dice, (unsigned)i + 1)];
			int done;

			if (!one->handle)
				continue;
			one->asked = one->asked || !one->delivered;
			done = laio_cancel(NULL, one->handle);
			RULE(one->delivered ? done == -1 && errno == ENOENT : done == 0 || errno == EALREADY);
		}
	}
	/* Now every flight can end, except those that sleep too long. */
	for (i = 0; i < count; i++) {
		feed_flight(&flights[i]);
		if (!flights[i].delivered && flights[i].kind == FLY_SLEEP && flights[i].time.tv_sec) {
			flights[i].asked = 1;
			laio_cancel(NULL, flights[i].handle);
		}
	}
	for (idle = 0; laio_pending(NULL) > 0 && idle < PATIENCE_IDLE && !report->fault[0];) {
		idle = poll_flights(flights, count, &dice, 20) > 0 ? 0 : idle + 1;
		for (i = 0; i < count; i++)
			if (flights[i].kind == FLY_WRITE_PIPE)
				take_out(&flights[i], &taken[i]);
	}
	pending = laio_pending(NULL);
	for (i = 0; i < count; i++) {
		if (flights[i].made)
			FLIGHT_RULE(&flights[i], flights[i].delivered);
		if (flights[i].kind == FLY_WRITE_PIPE)
			take_out(&flights[i], &taken[i]);
	}
	RULE(pending == 0);
	RULE(laio_finish() == 0);
	for (i = 0; i < count && !report->fault[0]; i++) {
		check_after(&flights[i], out, taken[i]);
		close(flights[i].fds[0]);
		close(flights[i].fds[1]);
	}
	close(file);
	close(out);
	if (!report->fault[0] && open_descriptors() != before)
		fault("descriptors: %d before, %d after", before, open_descriptors());
	report->started = count;
	report->finished = 1;
}

#endif /* FUZZ_FLIGHT_H */

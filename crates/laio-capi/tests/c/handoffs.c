/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * handoffs.c - pipes, files, names and waits through the back end "activations" at random, many in
 * flight: every result is checked, and arrives once. The sanitizers watch the program's side.
 *
 *     ./handoffs [hand-offs for each detector]
 */
#include "test.h"

#include <linux/futex.h>
#include <sys/eventfd.h>

#define LANES 24
#define FILE_SIZE 65536

enum { PIPE, EVENT, WORD, BYTES, NAME, MISSING, SLEEP, KINDS };

/* One call at a time, with its memory. */
struct lane {
	int pipe[2], event, kind, busy, fed;
	struct pollfd poll;
	uint32_t word;
	uint64_t stamp;
	size_t from;
	unsigned char buffer[512];
	struct stat status;
	void *handle;                /* NULL: the call is over */
};

static struct lane lanes[LANES];
static struct timespec moment = { 0, 50000 };
static unsigned char contents[FILE_SIZE];
static char name[PATH_MAX + 8];
static long checked;
static int file;

static unsigned below(unsigned limit)
{
	static uint64_t state = 0xac71;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % limit;
}

static void prepare(void)
{
	static char top[PATH_MAX];
	int i;

	test_directory(top);
	snprintf(name, sizeof(name), "%s/file", top);
	for (i = 0; i < FILE_SIZE; i++)
		contents[i] = (unsigned char)(i * 31 + i / 257);
	file = open(name, O_RDWR | O_CREAT, 0600);
	CHECK_IS(write(file, contents, FILE_SIZE), FILE_SIZE);
	for (i = 0; i < LANES; i++) {
		test_pipe(lanes[i].pipe);
		lanes[i].event = lanes[i].poll.fd = eventfd(0, EFD_NONBLOCK);
		lanes[i].poll.events = POLLIN;
	}
}

static void clean_up(void)
{
	int i;

	for (i = 0; i < LANES; i++) {
		test_close_pipe(lanes[i].pipe);
		close(lanes[i].event);
	}
	close(file);
	unlink(name);
	*strrchr(name, '/') = 0;
	rmdir(name);
}

static void check_lane(struct lane *lane, long value, int error)
{
	uint64_t count;

	lane->busy = 0;
	lane->handle = NULL;
	checked++;
	switch (lane->kind) {
	case PIPE:
		CHECK_IS(value, 8);
		CHECK(memcmp(lane->buffer, &lane->stamp, 8) == 0);
		break;
	case EVENT:
		CHECK_IS(value, 1);
		CHECK_IS(read(lane->event, &count, 8), 8);
		break;
	case WORD:
		/* The word had changed before an interrupted call was repeated. */
		CHECK(value == 0 || (value == -1 && error == EAGAIN));
		break;
	case BYTES:
		CHECK_IS(value, sizeof(lane->buffer));
		CHECK(memcmp(lane->buffer, contents + lane->from, sizeof(lane->buffer)) == 0);
		break;
	case NAME:
		CHECK_IS(value, 0);
		CHECK_IS(lane->status.st_size, FILE_SIZE);
		break;
	case MISSING:
		CHECK_IS(value, -1);
		CHECK_IS(error, ENOENT);
		break;
	default:
		CHECK_IS(value, 0);
		break;
	}
	memset(lane->buffer, 0xee, 8);
}

static void begin(struct lane *lane)
{
	static uint64_t stamp;
	long value;

	/* Calls that certainly wait are more frequent. */
	lane->kind = below(2) ? (int)below(3) : (int)below(KINDS);
	lane->busy = 1;
	lane->fed = 0;
	lane->stamp = ++stamp;
	lane->from = below(FILE_SIZE - sizeof(lane->buffer));
	lane->status.st_size = 0;
	switch (lane->kind) {
	case PIPE:
		value = laio_syscall(SYS_read, lane->pipe[0], lane->buffer, (size_t)8);
		break;
	case EVENT:
		value = laio_syscall(SYS_ppoll, &lane->poll, (size_t)1, (void *)0, (void *)0, (size_t)0);
		break;
	case WORD:
		value = laio_syscall(SYS_futex, &lane->word, FUTEX_WAIT,
				     (uintptr_t)__atomic_load_n(&lane->word, __ATOMIC_SEQ_CST), (void *)0);
		break;
	case BYTES:
		value = laio_syscall(SYS_pread64, file, lane->buffer, sizeof(lane->buffer), lane->from);
		break;
	case NAME:
		value = laio_syscall(SYS_newfstatat, AT_FDCWD, name, &lane->status, (size_t)0);
		break;
	case MISSING:
		value = laio_syscall(SYS_newfstatat, AT_FDCWD, "/nothing/of/this/name", &lane->status,
				     (size_t)0);
		break;
	default:
		value = laio_syscall(SYS_nanosleep, &moment, (void *)0);
		break;
	}
	if (value == -1 && errno == EINPROGRESS)
		CHECK((lane->handle = laio_gethandle()) != NULL);
	else
		check_lane(lane, value, errno);
}

/* Makes the action that ends a call's wait, once. */
static void feed(struct lane *lane)
{
	uint64_t one = 1;

	if (lane->fed)
		return;
	lane->fed = 1;
	if (lane->kind == PIPE)
		CHECK_IS(write(lane->pipe[1], &lane->stamp, 8), 8);
	if (lane->kind == EVENT)
		CHECK_IS(write(lane->event, &one, 8), 8);
	if (lane->kind == WORD) {
		__atomic_fetch_add(&lane->word, 1, __ATOMIC_SEQ_CST);
		CHECK(syscall(SYS_futex, &lane->word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
	}
}

static void collect(long milliseconds)
{
	struct laio_completion done[8];
	struct timespec time = test_ms(milliseconds);
	int got = laio_poll(done, 8, &time), i, at;

	CHECK(got >= 0);
	for (i = 0; i < got; i++) {
		for (at = 0; at < LANES && lanes[at].handle != done[i].laio_handle; at++)
			;
		CHECK(at < LANES);
		check_lane(&lanes[at], done[i].laio_return_value, done[i].laio_errno);
	}
}

static uint64_t handed_off(void)
{
	struct laio_stats stats = LAIO_STATS_INIT;

	CHECK_IS(laio_stats(NULL, &stats), 0);
	return stats.handoffs;
}

static void run(uint32_t detector, uint64_t wanted)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	int i;

	options.backend = "activations";
	options.flags = LAIO_PURE;
	options.detector = detector;
	checked = 0;
	if (laio_init(&options) == -1) {
		test_left_out(detector == LAIO_DETECTOR_PERF ? "perf" : "idle", strerror(errno));
		return;
	}
	while (handed_off() < wanted) {
		for (i = 0; i < 64; i++) {
			struct lane *lane = &lanes[below(LANES)];

			if (lane->busy)
				feed(lane);
			else
				begin(lane);
			/* For the C library the program is one thread. */
			free(malloc(100 + below(4000)));
			collect(0);
		}
		alarm(TEST_SECONDS);
	}
	while (laio_pending(NULL) > 0) {
		for (i = 0; i < LANES; i++)
			if (lanes[i].busy)
				feed(&lanes[i]);
		collect(10);
	}
	for (i = 0; i < LANES; i++)
		CHECK_IS(lanes[i].busy, 0);
	printf("%s: %ld results checked, %lu hand-offs\n", detector == LAIO_DETECTOR_PERF ? "perf" : "idle",
	       checked, (unsigned long)handed_off());
	CHECK_IS(laio_finish(), 0);
}

int main(int argc, char **argv)
{
	uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 500;

	test_start();
	if (!test_backend_is("activations"))
		test_skip("only that back end hands off");
	prepare();
	run(LAIO_DETECTOR_PERF, wanted);
	run(LAIO_DETECTOR_IDLE, wanted);
	clean_up();
	return 0;
}

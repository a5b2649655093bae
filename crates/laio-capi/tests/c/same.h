/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * same.h - makes a call plainly and through laio, each time in an equal small world of files, pipes and
 * sockets, and compares value, error, the memory written, and the state of the world
 * afterwards.
 */
#ifndef LAIO_SAME_H
#define LAIO_SAME_H

#include "test.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>

/* The parts of a result that can be compared. */
enum same_kind {
	SAME_VALUE,      /* all of it */
	SAME_DESCRIPTOR, /* not the number: it is a new descriptor, which is closed again */
	SAME_ERROR       /* neither value nor memory, which change by themselves */
};

/* ---- The world ---- */

static char world_directory[PATH_MAX];
static int world_root; /* the directory */
static int world_file; /* "file" in it: 100 bytes, at position 10 */
static int world_pipe[2];
static int world_sockets[2];
static int world_set; /* an epoll set in which the pipe is readable */

/* The memory that calls write and read. */
static union {
	unsigned char bytes[8192];
	uint64_t words[1024];
} world_out;

static char world_text[64];
static struct timespec world_time;
static struct iovec world_iovecs[2];
static struct msghdr world_message;
static struct mmsghdr world_messages[2];
static struct pollfd world_pollfd;
static fd_set world_fds;
static socklen_t world_length;
static int64_t world_offset;
static struct epoll_event world_event;
static uint64_t world_how[4]; /* struct open_how, and a word beyond */

/* Invalid pointers within these. */
static uintptr_t *world_wrong_place;
static uintptr_t world_wrong_value;

static inline void world_refill(int from, int to)
{
	char rest[4096];
	int count = 0;

	while (ioctl(from, FIONREAD, &count) == 0 && count > 0)
		CHECK(read(from, rest, sizeof(rest)) > 0);
	CHECK_IS(write(to, "0123456789abcdef", 16), 16);
}

static inline void world_begin(void)
{
	static const char *const made[] = { "new", "moved" };
	int i;

	if (!world_root) {
		test_directory(world_directory);
		world_root = open(world_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(world_root > 0);
		CHECK_IS(chdir(world_directory), 0);
		world_file = openat(world_root, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0640);
		CHECK(world_file > 0);
		CHECK_IS(symlinkat("file", world_root, "link"), 0);
		CHECK_IS(mkdirat(world_root, "dir", 0750), 0);
		test_pipe(world_pipe);
		CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, world_sockets), 0);
		world_set = epoll_create1(EPOLL_CLOEXEC);
		memset(&world_event, 0, sizeof(world_event));
		world_event.events = EPOLLIN;
		CHECK_IS(epoll_ctl(world_set, EPOLL_CTL_ADD, world_pipe[0], &world_event), 0);
	}
	for (i = 0; i < TEST_LENGTH(made); i++)
		if (unlinkat(world_root, made[i], 0) != 0)
			unlinkat(world_root, made[i], AT_REMOVEDIR);
	if (faccessat(world_root, "file", F_OK, 0) != 0 || faccessat(world_root, "link", F_OK, 0) != 0 ||
	    faccessat(world_root, "dir", F_OK, 0) != 0)
		TEST_FAIL("a call has removed a part of the world");
	CHECK_IS(ftruncate(world_file, 0), 0);
	for (i = 0; i < 100; i++)
		world_text[i % 64] = (char)('a' + i % 23);
	CHECK_IS(pwrite(world_file, world_text, 50, 0), 50);
	CHECK_IS(pwrite(world_file, world_text, 50, 50), 50);
	CHECK_IS(lseek(world_file, 10, SEEK_SET), 10);
	CHECK_IS(fchmod(world_file, 0640), 0);
	world_refill(world_pipe[0], world_pipe[1]);
	world_refill(world_sockets[0], world_sockets[1]);
	world_refill(world_sockets[1], world_sockets[0]);

	memset(&world_out, 0xee, sizeof(world_out));
	world_time.tv_sec = 0;
	world_time.tv_nsec = 1;
	for (i = 0; i < 2; i++) {
		world_iovecs[i].iov_base = world_out.bytes + 1000 * i;
		world_iovecs[i].iov_len = 5;
	}
	memset(&world_message, 0, sizeof(world_message));
	world_message.msg_iov = world_iovecs;
	world_message.msg_iovlen = 2;
	memset(world_messages, 0, sizeof(world_messages));
	world_messages[0].msg_hdr = world_message;
	world_messages[1].msg_hdr = world_message;
	world_pollfd.fd = world_pipe[0];
	world_pollfd.events = POLLIN;
	world_pollfd.revents = 0;
	FD_ZERO(&world_fds);
	FD_SET(world_pipe[0], &world_fds);
	world_length = 128;
	world_offset = 3;
	memset(world_how, 0, sizeof(world_how));
	if (world_wrong_place)
		*world_wrong_place = world_wrong_value;
}

static inline void world_remove(void)
{
	world_wrong_place = NULL;
	world_begin();
	unlinkat(world_root, "file", 0);
	unlinkat(world_root, "link", 0);
	unlinkat(world_root, "dir", AT_REMOVEDIR);
	CHECK_IS(chdir("/"), 0);
	CHECK_IS(rmdir(world_directory), 0);
}

/* The state of the world after a call. */
struct world_state {
	long long position, size, mode, uid, readable[3], new_mode, moved_mode;
	int length, ready, offset;
};

static inline void world_look(struct world_state *state)
{
	struct stat status;
	int i, count;

	memset(state, 0, sizeof(*state));
	CHECK_IS(fstat(world_file, &status), 0);
	state->position = lseek(world_file, 0, SEEK_CUR);
	state->size = status.st_size;
	state->mode = status.st_mode;
	state->uid = status.st_uid;
	for (i = 0; i < 3; i++) {
		count = -1;
		ioctl(i < 2 ? world_sockets[i] : world_pipe[0], FIONREAD, &count);
		state->readable[i] = count;
	}
	if (fstatat(world_root, "new", &status, AT_SYMLINK_NOFOLLOW) == 0)
		state->new_mode = status.st_mode;
	if (fstatat(world_root, "moved", &status, AT_SYMLINK_NOFOLLOW) == 0)
		state->moved_mode = status.st_mode;
	state->length = (int)world_length;
	state->ready = world_pollfd.revents;
	state->offset = (int)world_offset;
}

/* ---- The comparison ---- */

struct same_result {
	long value;
	int error;
	struct world_state state;
	unsigned char out[sizeof(world_out)];
};

/* The call that is compared, for the message after a crash. */
static char same_what[128];

static inline void same_crashes(int number)
{
	if (write(2, same_what, strlen(same_what)) >= 0 && write(2, ": crashes\n", 10) >= 0)
		_exit(1);
	_exit(number);
}

static inline void same_make(int by_laio, enum same_kind kind, long number, const uintptr_t *words,
			     struct same_result *result)
{
	struct laio_call call = LAIO_CALL_INIT(number);

	world_begin();
	errno = 0;
	if (by_laio) {
		memcpy(call.args, words, sizeof(call.args));
		result->value = test_finish(NULL, &call);
	} else {
		result->value = syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
	}
	result->error = result->value == -1 ? errno : 0;
	memcpy(result->out, world_out.bytes, sizeof(result->out));
	world_look(&result->state);
	if (kind == SAME_DESCRIPTOR && result->value >= 0) {
		close((int)result->value);
		result->value = 0;
	}
	if (kind == SAME_ERROR && result->value != -1)
		result->value = 0;
}

/* Checks that the call with these words has the same result through laio. */
static inline void same_words(const char *name, enum same_kind kind, long number, const uintptr_t words[6])
{
	static struct same_result plain, laio;

	same_make(0, kind, number, words, &plain);
	same_make(1, kind, number, words, &laio);
	if (plain.value != laio.value || plain.error != laio.error)
		TEST_FAIL("%s (%#lx, %#lx, %#lx, %#lx, %#lx, %#lx) [%s]: expected %ld and errno %d (%s), "
			  "got %ld and errno %d", name, (long)words[0], (long)words[1], (long)words[2],
			  (long)words[3], (long)words[4], (long)words[5], same_what, plain.value,
			  plain.error, strerror(plain.error), laio.value, laio.error);
	if (memcmp(&plain.state, &laio.state, sizeof(plain.state)) != 0)
		TEST_FAIL("%s [%s]: the files differ from those after the plain call", name,
			  same_what);
	if (kind != SAME_ERROR && memcmp(plain.out, laio.out, sizeof(plain.out)) != 0)
		TEST_FAIL("%s [%s]: the memory differs from that after the plain call", name,
			  same_what);
}

/* Runs the tests in contexts whose options change the strategy, but no result. */
static inline void same_in_every_way(void (*tests)(void))
{
	static const uint32_t flags[] = {
		0, LAIO_INJECT_BACKGROUND, LAIO_INJECT_INLINE, LAIO_INJECT_FALSE_EOF,
		LAIO_INJECT_ATTEMPTS_FAIL, LAIO_WITHOUT_RING, LAIO_TRUST_NAMES, LAIO_TRUST_WRITES,
	};
	struct laio_options options = LAIO_OPTIONS_INIT;
	int i;

	for (i = 0; i < TEST_LENGTH(flags); i++) {
		options.flags = flags[i];
		CHECK_IS(laio_init(&options), 0);
		tests();
		CHECK_IS(laio_finish(), 0);
	}
}

#endif /* LAIO_SAME_H */

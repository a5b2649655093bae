/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_args.h - random arguments of every kind: mostly good, sometimes hostile.
 */
#ifndef FUZZ_ARGS_H
#define FUZZ_ARGS_H

#include "fuzz_base.h"

/*
 * The descriptors that a program begins with, by fixed numbers. Pairs follow each other. None refers to a
 * file that other programs share, such as /dev/null: a program of the superuser could change its mode.
 */
enum {
	W_ROOT = 3, W_DIR, W_A, W_B, W_C, W_BIG, W_DIRECT, W_SHM, W_MEMFD, W_PATH,
	W_PIPE, W_PIPE_W, W_EMPTY, W_EMPTY_W, W_PIPE2, W_PIPE2_W,
	W_STREAM, W_STREAM2, W_DGRAM, W_DGRAM2, W_SEQ, W_SEQ2, W_TIMED, W_TIMED2,
	W_LISTEN, W_CLIENT, W_CLIENT2, W_SOCKET, W_UDP,
	W_EVENT, W_SEM, W_TIMER, W_TIMER2, W_EPOLL, W_INOTIFY, W_SIGNAL,
	W_FIFO, W_FULL, W_FULL_W, W_DUP, W_DIR2, W_LOCK, W_LOCK2,
	W_CLOSED, W_CLOSED2, W_CLOSED3,
	/* Only for calls that wait until the other thread acts. */
	W_FED, W_FED_W, W_FED_SOCKET, W_FED_SOCKET2, W_FED_COUNTER, W_FED_CLIENT, W_DRAINED, W_DRAINED_W,
	W_FED_LOCK, W_FED_LOCK2, W_FED_LISTEN,
	W_END
};

/* Kinds of arguments. A set of values goes with BITS and ONE, a descriptor with THIS. */
enum {
	JUNK, FD, FILE_, STREAM, SOCK, PIPE, DIR_, EPOLL, PATH, OUT, IN, LEN, SHORT, OFF, OFFP,
	OUTV, INV, CNT, MSG_OUT, MSG_IN, MMSG_OUT, MMSG_IN, ADDR_OUT, ADDR_LENP, ADDR_IN, ADDR_LEN,
	SOCK_LEVEL, SOCK_NAME, SOCK_OUT, SOCK_IN, SOCK_LENP, SOCK_LEN, TIME, PAST, TIMEVAL_, ITIMER,
	MS, HOW, HOW_SIZE, MODE, ID, INT, ATTR, STRUCT, PAIR, POLLS, POLL_FED, EVENT, FDSETS, NSETS,
	SIGSET_, SIGSET6, EIGHT, FUTEX, FUTEX_OP, LAPSE, FCNTL, FCNTL_ARG, IOCTL, IOCTL_ARG,
	NOTHING, WHENCE_, BITS_, ONE_, THIS_
};

#define BITS(set) (BITS_ | (set) << 8)
#define ONE(set) (ONE_ | (set) << 8)
#define THIS(fd) (THIS_ | (fd) << 8)

enum {
	S_OPEN, S_AT, S_RWF, S_MSG, S_SPLICE, S_WHENCE, S_FALLOC, S_RENAME, S_ADVICE, S_SYNC,
	S_ACCESS, S_STATX, S_XATTR, S_LOCK, S_CLOCK, S_SOCK, S_TYPE, S_DOMAIN, S_SHUT, S_MEMFD,
	S_WAIT, S_EPOLL, S_FILETYPE, S_SMALL, S_GRND, S_DUP, S_RESOLVE
};

static const long values_open[] = { O_WRONLY, O_RDWR, O_RDWR, O_CREAT, O_CREAT, O_EXCL, O_TRUNC, O_APPEND,
	O_NONBLOCK, O_DIRECTORY, O_NOFOLLOW, O_CLOEXEC, O_PATH, O_DIRECT, O_NOATIME, O_TMPFILE, O_DSYNC,
		O_LARGEFILE };
static const long values_at[] = { AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_NO_AUTOMOUNT,
	AT_EMPTY_PATH, AT_EMPTY_PATH, 0x2000, 0x4000 };
static const long values_rwf[] = { 1, 2, 4, 8, 8, 0x10, 0x20, 0x40, 0x80 };
static const long values_msg[] = { MSG_DONTWAIT, MSG_DONTWAIT, MSG_PEEK, MSG_TRUNC, MSG_NOSIGNAL, MSG_OOB,
	MSG_WAITALL,
	MSG_CMSG_CLOEXEC, MSG_EOR, MSG_MORE, MSG_ERRQUEUE, MSG_WAITFORONE, MSG_DONTROUTE };
static const long values_splice[] = { 1, 2, 2, 4, 8, 16 };
static const long values_whence[] = { 0, 0, 1, 2, 3, 4, 5, -1 };
static const long values_falloc[] = { 1, 3, 8, 16, 32, 2, 64 };
static const long values_rename[] = { 1, 1, 2, 4, 8 };
static const long values_advice[] = { 0, 1, 2, 3, 4, 5, 6, 17 };
static const long values_sync[] = { 1, 2, 4, 7, 8 };
static const long values_access[] = { 0, R_OK, W_OK, X_OK, 8 };
static const long values_statx[] = { 0x7ff, 0xfff, 0, 1, 0x200, 0x40000000, 0x80000000 };
static const long values_xattr[] = { 0, 0, 1, 2, 3, 4 };
static const long values_lock[] = { LOCK_SH, LOCK_EX, LOCK_SH | LOCK_NB, LOCK_EX | LOCK_NB, LOCK_UN, LOCK_UN,
	0, 64 };
static const long values_clock[] = { 0, 1, 7, 4, 11, 12, 99 };
static const long values_sock[] = { SOCK_NONBLOCK, SOCK_CLOEXEC, 1 << 20 };
static const long values_type[] = { 1, 2, 5, 1 | SOCK_NONBLOCK, 2 | SOCK_CLOEXEC, 5 | SOCK_NONBLOCK, 9, 77 };
static const long values_domain[] = { AF_UNIX, AF_UNIX, AF_UNIX, AF_UNIX, 0, 99, -1 };
static const long values_shut[] = { 0, 1, 2, 3, -1 };
static const long values_memfd[] = { 1, 2, 8, 16, 0x20 };
static const long values_wait[] = { 1, 2, 4, 8, 0x40000000, 0x20000000 };
static const long values_epoll[] = { 1, 2, 3, 1, 3, 0, 99 };
static const long values_filetype[] = { S_IFIFO | 0600, S_IFREG | 0640, S_IFSOCK | 0600, 0600, S_IFDIR,
	S_IFLNK, 0170000 };
static const long values_small[] = { 0, 1, 2, 3, 5, 16, -1, 1000 };
static const long values_grnd[] = { 0, 1, 2, 3, 4, 8 };
static const long values_dup[] = { O_CLOEXEC, O_NONBLOCK, O_DIRECT, 1 };
/* Not RESOLVE_CACHED: its result depends on the dentry cache, which other processes change. */
static const long values_resolve[] = { 1, 2, 4, 8, 16, 64 };

#define SET(values) { values, (unsigned)TEST_LENGTH(values) }
static const struct {
	const long *values;
	unsigned count;
} sets[] = {
	SET(values_open), SET(values_at), SET(values_rwf), SET(values_msg), SET(values_splice),
		SET(values_whence),
	SET(values_falloc), SET(values_rename), SET(values_advice), SET(values_sync), SET(values_access),
	SET(values_statx), SET(values_xattr), SET(values_lock), SET(values_clock), SET(values_sock),
	SET(values_type), SET(values_domain), SET(values_shut), SET(values_memfd), SET(values_wait),
	SET(values_epoll), SET(values_filetype), SET(values_small), SET(values_grnd), SET(values_dup),
	SET(values_resolve),
};

/* A call that is being generated. */
struct maker {
	struct dice dice;
	struct call *call;
	size_t used;
	size_t length;    /* of the last buffer or array */
	uintptr_t last;   /* the argument before this one */
	int aligned;
	int gentle;       /* nothing hostile */
};

static int hostile_once_in(struct maker *m, unsigned times)
{
	return once_in(&m->dice, times) && !m->gentle;
}

/* ---- Memory ---- */

/* Unused memory holds these bytes: no name in it has an end, a slash or a dot, and none is a valid address. */
static unsigned char filler(size_t place)
{
	return (unsigned char)(0x80 | ((place * 37) & 0x7f));
}

static void refill(size_t from, size_t count)
{
	size_t i;

	for (i = from; i < from + count; i++)
		arena[i] = filler(i);
}

static unsigned char *take(struct maker *m, size_t count, size_t align)
{
	size_t start = (m->used + align - 1) / align * align;

	CHECK(start + count + 64 < ARENA_SIZE - PAGE);
	refill(m->used, start + count + 64 - m->used);
	m->used = start + count + 64;
	return arena + start;
}

static uintptr_t put(struct maker *m, const void *bytes, size_t count)
{
	unsigned char *place = take(m, count, 8);

	memcpy(place, bytes, count);
	return (uintptr_t)place;
}

static const uintptr_t nowhere[] = { 0, 0, 1, 4095, 0x7fffffff000, 0xffff800000000000, 0x800000000000000,
	UINTPTR_MAX };

static uintptr_t bad_pointer(struct maker *m)
{
	switch (below(&m->dice, 4)) {
	case 0:
		return arena_end() - below(&m->dice, 40);
	case 1:
		return read_only_page() + below(&m->dice, 64);
	default:
		return PICK(&m->dice, nowhere);
	}
}

static uintptr_t pointer(struct maker *m, uintptr_t good)
{
	if (hostile_once_in(m, 40))
		return bad_pointer(m);
	return hostile_once_in(m, 60) ? good + 1 : good;
}

static const size_t lengths[] = { 0, 1, 2, 7, 100, 300, 511, 512, 1000, 4095, 4096, 4096, 4097, 8192, 10000,
	65536, 70000 };
static const size_t lengths_of_parts[] = { 0, 0, 1, 7, 100, 512, 1000, 4096, 5000 };
static const int64_t offsets[] = { 0, 0, 0, 1, 10, 100, 511, 512, 4096, 4096, 8191, 8192, 9999, 10000, 20000,
	65536,
	300000, 1000000, -1, -2, INT64_MIN, INT64_MAX, FUZZ_FILE - 1, FUZZ_FILE };

static uintptr_t buffer(struct maker *m, size_t count, int filled)
{
	unsigned char *place;
	size_t i;

	place = take(m, count, m->aligned ? 4096 : 1 + 7u * below(&m->dice, 2));
	for (i = 0; filled && i < count; i++)
		place[i] = (unsigned char)(0x80 | (mix(m->dice.state + i / 8) >> i % 8 * 8));
	return (uintptr_t)place;
}

/* ---- Numbers ---- */

/* As an int: the kernel ignores the upper half of the register. */
static uintptr_t dirty(struct maker *m, long value)
{
	uintptr_t upper;

	if (!once_in(&m->dice, 6))
		return (uintptr_t)value;
	upper = (uintptr_t)roll(&m->dice) << 32;
	return upper | (uint32_t)value;
}

static const long odd_numbers[] = { 0, 1, 2, 3, 7, 8, 16, 64, 100, 255, 256, 1000, 4096, 65535, -1, -2, -100,
	INT_MAX,
	INT_MIN, 0x100000000, 0x7fffffffffffffff, 0x4000000000000000 };

static long odd_number(struct maker *m)
{
	long value = PICK(&m->dice, odd_numbers);

	return once_in(&m->dice, 4) ? (long)roll(&m->dice) : value;
}

static uintptr_t bits(struct maker *m, int set)
{
	unsigned count = below(&m->dice, 4);
	long value = 0;

	while (count-- > 0)
		value |= sets[set].values[below(&m->dice, sets[set].count)];
	if (once_in(&m->dice, 40))
		value |= 1L << below(&m->dice, 32);
	/* A transfer that is cut into pieces must not need a certain size. */
	if (m->gentle)
		value &= ~(long)O_DIRECT;
	return dirty(m, value);
}

/* ---- Descriptors ---- */

static const int bad_fds[] = { -1, -1, W_CLOSED, FUZZ_FDS - 1, 1 << 30, AT_FDCWD, INT_MIN, INT_MAX };
static const int files[] = { W_A, W_A, W_B, W_C, W_BIG, W_BIG, W_DIRECT, W_SHM, W_SHM, W_MEMFD, W_DUP };
static const int streams[] = { W_PIPE, W_PIPE_W, W_EMPTY, W_EMPTY_W, W_PIPE2, W_PIPE2_W, W_STREAM, W_STREAM2,
	W_DGRAM, W_DGRAM2, W_SEQ, W_SEQ2, W_TIMED, W_TIMED2, W_EVENT, W_SEM, W_TIMER, W_TIMER2, W_FIFO,
		W_FULL,
	W_FULL_W, W_CLIENT, W_SIGNAL, W_INOTIFY };
static const int sockets[] = { W_STREAM, W_STREAM2, W_DGRAM, W_DGRAM2, W_SEQ, W_SEQ2, W_TIMED, W_TIMED2,
	W_LISTEN,
	W_CLIENT, W_CLIENT2, W_SOCKET, W_UDP };
static const int pipes[] = { W_PIPE, W_PIPE_W, W_PIPE2, W_PIPE2_W, W_EMPTY, W_EMPTY_W, W_FULL, W_FULL_W,
	W_FIFO };
static const int directories[] = { W_ROOT, W_DIR, W_DIR2, AT_FDCWD, AT_FDCWD, W_ROOT, W_A, W_PATH };
static const int others[] = { W_ROOT, W_DIR, W_PATH, W_LISTEN, W_EPOLL, W_INOTIFY, W_LOCK, W_LOCK2 };

/* One of the kind, sometimes another, sometimes one that the program itself has opened. */
static int descriptor(struct maker *m, int kind)
{
	unsigned way = below(&m->dice, 100);

	if (way < 4)
		return PICK(&m->dice, bad_fds);
	if (way < 14)
		return W_END + (int)below(&m->dice, 10);
	if (way < 18)
		return W_CLOSED + (int)below(&m->dice, 3);
	if (way < 24)
		return PICK(&m->dice, others);
	if (way < 32)
		kind = once_in(&m->dice, 2) ? FILE_ : STREAM;
	else if (kind == FD)
		kind = way < 70 ? FILE_ : STREAM;
	switch (kind) {
	case FILE_:
		return PICK(&m->dice, files);
	case SOCK:
		return PICK(&m->dice, sockets);
	case PIPE:
		return PICK(&m->dice, pipes);
	case DIR_:
		return PICK(&m->dice, directories);
	case EPOLL:
		return W_EPOLL;
	default:
		return PICK(&m->dice, streams);
	}
}

/* ---- Names ---- */

static const char *const names[] = { "a", "a", "a", "b", "c", "dir", "dir", "dir/a", "dir/b", "link", "link",
	"dangling",
	"loop", "fifo", "sock", "new", "new", "new2", "dir/new", "sub", "", "", ".", "dir/..", "missing/x",
		"a/b", "dir/",
	"link/", "big", "dir/link" };

static uintptr_t name(struct maker *m)
{
	char text[PATH_MAX + 64];
	const char *chosen = PICK(&m->dice, names);

	snprintf(text, sizeof(text), "%s", chosen);
	if (once_in(&m->dice, 8))
		snprintf(text, sizeof(text), "%s/%s", settings.root, chosen);
	if (once_in(&m->dice, 60)) {
		size_t length = once_in(&m->dice, 2) ? 256 : PATH_MAX;

		memset(text, 'n', length);
		text[length] = 0;
	}
	if (once_in(&m->dice, 100))
		return bad_pointer(m);
	return put(m, text, strlen(text) + 1);
}

static const char *const attributes[] = { "user.a", "user.a", "user.b", "user.b", "user.c", "trusted.x",
	"user.", "odd.x",
	"", "noprefix", "user.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

/* ---- Structs ---- */

static uintptr_t vectors(struct maker *m, int filled)
{
	struct iovec vector[6];
	unsigned i, count = below(&m->dice, TEST_LENGTH(vector) + 1u);

	for (i = 0; i < count; i++) {
		vector[i].iov_len = PICK(&m->dice, lengths_of_parts);
		if (m->aligned)
			vector[i].iov_len = 4096;
		vector[i].iov_base = (void *)pointer(m, buffer(m, vector[i].iov_len, filled));
		if (hostile_once_in(m, 80))
			vector[i].iov_len = (size_t)odd_number(m);
	}
	m->length = count;
	return put(m, vector, count * sizeof(*vector));
}

static const char *const socket_names[] = { "sock", "sock", "dgram", "dgram", "new", "a", "missing/x",
	"dir/s" };

static uintptr_t address(struct maker *m)
{
	struct sockaddr_un un;
	const char *chosen = PICK(&m->dice, socket_names);

	memset(&un, 0, sizeof(un));
	un.sun_family = AF_UNIX;
	if (once_in(&m->dice, 8))
		un.sun_family = once_in(&m->dice, 2) ? 0 : 77;
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", chosen);
	/* Not 2: the kernel would choose a name by chance. */
	m->length = offsetof(struct sockaddr_un, sun_path) + strlen(chosen) + 1;
	return put(m, &un, sizeof(un));
}

static void message(struct maker *m, struct msghdr *header, int sends)
{
	unsigned char control[96];
	struct cmsghdr *part = (struct cmsghdr *)control;
	int fds[2];

	memset(header, 0, sizeof(*header));
	header->msg_iov = (struct iovec *)pointer(m, vectors(m, sends));
	header->msg_iovlen = m->length;
	if (hostile_once_in(m, 60))
		header->msg_iovlen = (size_t)odd_number(m);
	if (once_in(&m->dice, 4)) {
		uintptr_t place = sends ? address(m) : buffer(m, sizeof(struct sockaddr_un), 0);

		header->msg_name = (void *)pointer(m, place);
		header->msg_namelen = sends ? (socklen_t)m->length : sizeof(struct sockaddr_un);
	}
	if (once_in(&m->dice, 3)) {
		memset(control, 0, sizeof(control));
		part->cmsg_level = once_in(&m->dice, 10) ? 77 : SOL_SOCKET;
		part->cmsg_type = once_in(&m->dice, 10) ? 77 : SCM_RIGHTS;
		part->cmsg_len = CMSG_LEN(sizeof(fds));
		fds[0] = once_in(&m->dice, 8) ? W_CLOSED : W_A;
		fds[1] = W_B;
		memcpy(CMSG_DATA(part), fds, sizeof(fds));
		header->msg_control = (void *)pointer(m, put(m, control, sizeof(control)));
		header->msg_controllen = sends ? CMSG_SPACE(sizeof(fds)) : sizeof(control);
		if (once_in(&m->dice, 20))
			header->msg_controllen = below(&m->dice, 40);
	}
	header->msg_flags = (int)roll(&m->dice);
}

static uintptr_t messages(struct maker *m, int sends)
{
	struct mmsghdr array[3];
	unsigned i, count = 1 + below(&m->dice, TEST_LENGTH(array));

	memset(array, 0, sizeof(array));
	for (i = 0; i < count; i++)
		message(m, &array[i].msg_hdr, sends);
	m->length = count;
	return put(m, array, count * sizeof(*array));
}

static uintptr_t time_of(struct maker *m, long nanoseconds)
{
	struct timespec time;

	time.tv_sec = once_in(&m->dice, 20) ? -1 : 0;
	time.tv_nsec = once_in(&m->dice, 20) ? odd_number(m) : nanoseconds;
	if (time.tv_nsec > 1000000 && time.tv_nsec < 1000000000)
		time.tv_nsec = 1000000;
	return put(m, &time, sizeof(time));
}

static uintptr_t seconds(struct maker *m, int64_t count)
{
	int64_t time[2];

	time[0] = count;
	time[1] = hostile_once_in(m, 10) ? odd_number(m) : 0;
	return put(m, time, sizeof(time));
}

static uintptr_t how_to_open(struct maker *m)
{
	uint64_t how[512];

	memset(how, 0, sizeof(how));
	how[0] = (uint32_t)bits(m, S_OPEN);
	if ((how[0] & (O_CREAT | O_TMPFILE)) || once_in(&m->dice, 20))
		how[1] = once_in(&m->dice, 20) ? roll(&m->dice) : 0640;
	if (once_in(&m->dice, 2))
		how[2] = (uint32_t)bits(m, S_RESOLVE);
	if (once_in(&m->dice, 20))
		how[3 + below(&m->dice, 4)] = 1;
	if (once_in(&m->dice, 30))
		how[0] |= 1ull << 40;
	return put(m, how, once_in(&m->dice, 4) ? sizeof(how) : 64);
}

/* The library reads this struct itself, and fails with EFAULT for a bad pointer, unless it is one of these. */
static uintptr_t pointer_to_how(struct maker *m)
{
	uintptr_t good = how_to_open(m);

	if (!once_in(&m->dice, 30))
		return good;
	return once_in(&m->dice, 2) ? 0 : 1;
}

static uintptr_t polls(struct maker *m)
{
	struct pollfd array[4];
	unsigned i, count = below(&m->dice, TEST_LENGTH(array) + 1u);

	for (i = 0; i < count; i++) {
		array[i].fd = descriptor(m, STREAM);
		array[i].events = (short)(1 + below(&m->dice, 7));
		if (once_in(&m->dice, 4))
			array[i].events = (short)roll(&m->dice);
		array[i].revents = (short)roll(&m->dice);
	}
	m->length = count;
	return put(m, array, count * sizeof(*array));
}

static uintptr_t fd_sets(struct maker *m)
{
	uint64_t words[4] = { 0, 0, 0, 0 };
	int i, fd;

	for (i = 0; i < 4; i++) {
		fd = descriptor(m, STREAM);
		if (fd >= 0 && fd < 64)
			words[0] |= 1ull << fd;
	}
	return once_in(&m->dice, 3) ? 0 : put(m, words, sizeof(words));
}

#endif /* FUZZ_ARGS_H */

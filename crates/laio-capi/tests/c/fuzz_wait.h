/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_wait.h - which calls are skipped because they would, or might, never end.
 */
#ifndef FUZZ_WAIT_H
#define FUZZ_WAIT_H

#include "fuzz_mask.h"
#include "fuzz_wild.h"

/* A pipe or socket that is writable accepts this many bytes at once. */
#define TAKEN 4096u

static int is_ready(int fd, short events)
{
	struct pollfd one;

	one.fd = fd;
	one.events = events;
	one.revents = 0;
	return poll(&one, 1, 0) != 0;
}

/* Whether calls on it may wait: in blocking mode, and without a timeout of its own. */
static int may_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat status;

	if (fd == W_TIMED || fd == W_TIMED2)
		return 0;
	if (flags == -1 || (flags & (O_NONBLOCK | O_PATH)) || fstat(fd, &status) == -1)
		return 0;
	return !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

static int waits_to_read(int fd)
{
	return may_wait(fd) && !is_ready(fd, POLLIN);
}

static int waits_to_write(int fd, size_t count)
{
	struct stat status;

	if (!may_wait(fd) || fstat(fd, &status) == -1)
		return 0;
	/* A counter refuses values that overflow it; no value written here does. */
	if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode))
		return 1;
	return count > TAKEN || !is_ready(fd, POLLOUT);
}

static size_t total_of(uintptr_t address, size_t count)
{
	const struct iovec *vector;
	size_t i, total = 0;

	count = (unsigned)count; /* so does the kernel */
	if (count > 1024)
		return 0;
	vector = (const struct iovec *)memory_at(address, count * sizeof(*vector));
	for (i = 0; vector && i < count; i++)
		total = vector[i].iov_len > SIZE_MAX - total ? SIZE_MAX : total + vector[i].iov_len;
	return total;
}

static size_t total_of_message(uintptr_t address)
{
	const struct msghdr *header = (const struct msghdr *)memory_at(address, sizeof(*header));

	return header ? total_of((uintptr_t)header->msg_iov, header->msg_iovlen) : 0;
}

static size_t total_of_messages(uintptr_t address, unsigned count)
{
	size_t total = 0, one;
	unsigned i;

	for (i = 0; i < count && i < 4; i++) {
		one = total_of_message(address + i * sizeof(struct mmsghdr));
		total = one > SIZE_MAX - total ? SIZE_MAX : total + one;
	}
	return count > 4 ? SIZE_MAX : total;
}

/* A receive waits for everything with MSG_WAITALL, and for all messages of an array. */
static int waits_to_receive(int fd, int flags, int all)
{
	if (flags & MSG_DONTWAIT)
		return 0;
	if (may_wait(fd) && ((flags & MSG_WAITALL) || (all && !(flags & MSG_WAITFORONE))))
		return 1;
	return waits_to_read(fd);
}

/* An address is given whose queue may be full; the descriptor's own peer can be queried. */
static int waits_to_send(int fd, int flags, int addressed, size_t count)
{
	if (flags & MSG_DONTWAIT)
		return 0;
	return (addressed && may_wait(fd)) || waits_to_write(fd, count);
}

static int waits_to_move(int in, int out, size_t count)
{
	struct stat status;

	if (count > 100000 && (fstat(in, &status) == -1 || !S_ISREG(status.st_mode)))
		return 1;
	return waits_to_read(in) || waits_to_write(out, count);
}

/* A blocking splice into a pipe waits for free space, and then moves the bytes that fit. */
static int waits_to_splice(int in, int out, size_t count, unsigned flags)
{
	struct stat status;

	if (fstat(out, &status) == 0 && S_ISFIFO(status.st_mode)) {
		if (flags & SPLICE_F_NONBLOCK)
			return waits_to_read(in);
		return waits_to_read(in) || (may_wait(out) && !is_ready(out, POLLOUT));
	}
	return waits_to_move(in, out, count);
}

static int waits_to_open(int directory, uintptr_t path, long flags)
{
	struct stat status, fifo;
	const char *text = (const char *)memory_at(path, 1);

	if (!text || (flags & (O_NONBLOCK | O_PATH)) || (flags & O_ACCMODE) == O_RDWR)
		return 0;
	if (fstatat(directory, text, &status, 0) == -1 || !S_ISFIFO(status.st_mode))
		return 0;
	/* Both ends of this one are open, unless the program has closed one. */
	return fstat(W_FIFO, &fifo) == -1 || fifo.st_ino != status.st_ino;
}

static int waits_to_poll(uintptr_t address, unsigned count)
{
	static struct pollfd copy[FUZZ_FDS];
	const void *given;

	if (count > FUZZ_FDS)
		return 0; /* more than the limit of descriptors */
	given = memory_at(address, count * sizeof(*copy));
	if (!given && count > 0)
		return 0;
	if (count > 0)
		memcpy(copy, given, count * sizeof(*copy));
	return poll(copy, count, 0) == 0;
}

static int is_long(uintptr_t time)
{
	const struct timespec *given = (const struct timespec *)memory_at(time, sizeof(*given));

	return time == 0 || (given && given->tv_sec > 0);
}

/* Whether it passes while messages are received is random. */
static int is_short_time(uintptr_t time)
{
	const struct timespec *given = (const struct timespec *)memory_at(time, sizeof(*given));

	return given && given->tv_sec == 0 && given->tv_nsec > 0 && given->tv_nsec < 1000000000;
}

#ifdef SYS_select
/* select(2) adds both, and accepts a million microseconds or more. aarch64 has pselect6(2) only. */
static int is_long_timeval(uintptr_t time)
{
	const struct timeval *given = (const struct timeval *)memory_at(time, sizeof(*given));

	return time == 0 || (given && given->tv_sec + given->tv_usec / 1000000 > 0);
}
#endif

/* Eventfds and similar files share one inode, so a lock on it conflicts with those of other programs. */
static int shares_inode(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_dev == anonymous;
}

static int waits_to_lock(int fd, int command, uintptr_t given)
{
	struct flock lock;
	void *place = memory_at(given, sizeof(lock));

	if ((command != F_SETLKW && command != F_OFD_SETLKW) || !place)
		return 0;
	memcpy(&lock, place, sizeof(lock));
	if (lock.l_type == F_UNLCK)
		return 0;
	return fcntl(fd, command == F_SETLKW ? F_GETLK : F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Takes the lock and releases it, in both runs. */
static int waits_to_flock(int fd, int operation)
{
	if ((operation & LOCK_NB) || (operation & ~LOCK_NB) == LOCK_UN)
		return 0;
	if (flock(fd, operation | LOCK_NB) == -1)
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return 0;
}

static int is_lock(int command)
{
	return command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
	       command == F_OFD_SETLKW || command == F_OFD_GETLK;
}

static int waits_on_futex(const uintptr_t *words)
{
	int command = (int)words[1] & FUTEX_CMD_MASK;
	const uint32_t *word = (const uint32_t *)memory_at(words[0], sizeof(*word));

	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET)
		return 0;
	return word && *word == (uint32_t)words[2] && is_long(words[3]);
}

static int is_how(uintptr_t address, uint64_t *flags)
{
	const uint64_t *how = (const uint64_t *)memory_at(address, sizeof(*how));

	*flags = how ? *how : 0;
	return how != NULL;
}

/* Queried with plain calls just before the call: both runs get the same answer. */
static int would_wait(const struct call *call)
{
	const uintptr_t *w = call->words;
	int fd = (int)w[0];
	uint64_t flags;

	switch ((int)call->number) {
	case SYS_read:
	case SYS_readv:
	case SYS_preadv2:
		return waits_to_read(fd);
	case SYS_write:
		return waits_to_write(fd, w[2]);
	case SYS_writev:
	case SYS_pwritev2:
		return waits_to_write(fd, total_of(w[1], w[2]));
	case SYS_accept:
	case SYS_accept4:
		return waits_to_read(fd);
	case SYS_recvfrom:
		return waits_to_receive(fd, (int)w[3], 0);
	case SYS_recvmsg:
		return waits_to_receive(fd, (int)w[2], 0);
	case SYS_recvmmsg:
		return is_short_time(w[4]) || waits_to_receive(fd, (int)w[3], (unsigned)w[2] > 1);
	case SYS_sendto:
		return waits_to_send(fd, (int)w[3], w[4] != 0, w[2]);
	case SYS_sendmsg:
		return waits_to_send(fd, (int)w[2], 0, total_of_message(w[1]));
	case SYS_sendmmsg:
		return waits_to_send(fd, (int)w[3], 0, total_of_messages(w[1], (unsigned)w[2]));
	case SYS_sendfile:
		return waits_to_move((int)w[1], fd, w[3]);
	case SYS_splice:
		return waits_to_splice(fd, (int)w[2], w[4], (unsigned)w[5]);
	case SYS_tee:
		return waits_to_splice(fd, (int)w[1], w[2], (unsigned)w[3]);
	case SYS_openat:
		return waits_to_open(fd, w[1], (long)w[2]);
	case SYS_openat2:
		return is_how(w[2], &flags) && waits_to_open(fd, w[1], (long)flags);
	case SYS_ppoll:
		return is_long(w[2]) && waits_to_poll(w[0], (unsigned)w[1]);
	case SYS_pselect6:
		return is_long(w[4]);
	case SYS_epoll_pwait:
		return ((int)w[3] < 0 || (int)w[3] > 10) && !is_ready(fd, POLLIN);
	case SYS_epoll_pwait2:
		return is_long(w[3]) && !is_ready(fd, POLLIN);
	case SYS_fcntl:
		return is_lock((int)w[1]) && (shares_inode(fd) || waits_to_lock(fd, (int)w[1], w[2]));
	case SYS_flock:
		return shares_inode(fd) || waits_to_flock(fd, (int)w[1]);
	case SYS_futex:
		return waits_on_futex(w);
	case SYS_rt_sigtimedwait:
		return is_long(w[2]);
#ifdef SYS_open
	case SYS_select:
		return is_long_timeval(w[4]);
	case SYS_open:
		return waits_to_open(AT_FDCWD, w[0], (long)w[1]);
	case SYS_creat:
		return waits_to_open(AT_FDCWD, w[0], O_WRONLY);
	case SYS_poll:
		return ((int)w[2] < 0 || (int)w[2] > 10) && waits_to_poll(w[0], (unsigned)w[1]);
	case SYS_epoll_wait:
		return ((int)w[3] < 0 || (int)w[3] > 10) && !is_ready(fd, POLLIN);
#endif
	default:
		return 0;
	}
}

#endif /* FUZZ_WAIT_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_calls.h - random system calls: those of a table with arguments of the right kinds, and wild ones.
 */
#ifndef FUZZ_CALLS_H
#define FUZZ_CALLS_H

#include "fuzz_args.h"

/* musl has macros of these names for the functions, which would change the names of the calls. */
#undef pread64
#undef pwrite64

struct shape {
	const char *name;
	long number;
	int feed;
	unsigned short args[6];
};

/* Omitted arguments are junk, which no call may read. */
#define FED(feed, name, ...) { #name, SYS_##name, feed, { __VA_ARGS__ } }
#define CALL(...) FED(FEED_NONE, __VA_ARGS__)

static const struct shape shapes[] = {
	/* Files and streams; the most frequent calls occur twice. */
	CALL(read, FD, OUT, LEN), CALL(read, STREAM, OUT, LEN),
	CALL(write, FD, IN, LEN), CALL(write, STREAM, IN, LEN),
	CALL(readv, FD, OUTV, CNT), CALL(writev, FD, INV, CNT),
	CALL(pread64, FD, OUT, LEN, OFF), CALL(pread64, FILE_, OUT, LEN, OFF),
	CALL(pwrite64, FD, IN, LEN, OFF),
	CALL(preadv, FD, OUTV, CNT, OFF), CALL(pwritev, FD, INV, CNT, OFF),
	CALL(preadv2, FD, OUTV, CNT, OFF, JUNK, BITS(S_RWF)),
	CALL(pwritev2, FD, INV, CNT, OFF, JUNK, BITS(S_RWF)),
	CALL(lseek, FD, OFF, ONE(S_WHENCE)),
	CALL(ftruncate, FD, OFF), CALL(truncate, PATH, OFF),
	CALL(fallocate, FD, BITS(S_FALLOC), OFF, OFF),
	CALL(fadvise64, FD, OFF, OFF, ONE(S_ADVICE)), CALL(readahead, FD, OFF, SHORT),
	CALL(sync_file_range, FD, OFF, OFF, BITS(S_SYNC)),
	CALL(fsync, FD), CALL(fdatasync, FD),
	CALL(copy_file_range, FD, OFFP, FD, OFFP, SHORT, ONE(S_RWF)),
	CALL(copy_file_range, FILE_, OFFP, FILE_, OFFP, SHORT, NOTHING),
	CALL(sendfile, FD, FD, OFFP, SHORT),
	CALL(splice, FD, OFFP, PIPE, OFFP, SHORT, BITS(S_SPLICE)),
	CALL(splice, PIPE, OFFP, FD, OFFP, SHORT, BITS(S_SPLICE)),
	CALL(tee, PIPE, PIPE, SHORT, BITS(S_SPLICE)),
	/* Descriptors. */
	{ "close_range", 436, FEED_NONE, { THIS(W_END), THIS(W_END + 30), NOTHING } },
	{ "close_range", 436, FEED_NONE, { THIS(W_CLOSED), THIS(W_CLOSED3), THIS(4) } },
	CALL(close, FD), CALL(dup, FD), CALL(dup3, FD, FD, BITS(S_DUP)),
	CALL(fcntl, FD, FCNTL, FCNTL_ARG), CALL(fcntl, FILE_, FCNTL, FCNTL_ARG),
	CALL(ioctl, FD, IOCTL, IOCTL_ARG),
	CALL(pipe2, PAIR, BITS(S_DUP)), CALL(eventfd2, INT, BITS(S_DUP)),
	CALL(memfd_create, PATH, BITS(S_MEMFD)), CALL(timerfd_create, ONE(S_CLOCK), BITS(S_DUP)),
	CALL(timerfd_settime, STREAM, NOTHING, ITIMER, STRUCT), CALL(timerfd_gettime, STREAM, STRUCT),
	CALL(signalfd4, STREAM, SIGSET_, EIGHT, BITS(S_DUP)),
	CALL(inotify_init1, BITS(S_DUP)), CALL(inotify_rm_watch, STREAM, ONE(S_SMALL)),
	/* Names. */
	CALL(openat, DIR_, PATH, BITS(S_OPEN), MODE), CALL(openat, DIR_, PATH, BITS(S_OPEN), MODE),
	CALL(openat2, DIR_, PATH, HOW, HOW_SIZE), CALL(openat2, DIR_, PATH, HOW, HOW_SIZE),
	CALL(newfstatat, DIR_, PATH, STRUCT, BITS(S_AT)),
	CALL(statx, DIR_, PATH, BITS(S_AT), ONE(S_STATX), STRUCT),
	CALL(fstat, FD, STRUCT), CALL(statfs, PATH, STRUCT), CALL(fstatfs, FD, STRUCT),
	CALL(faccessat, DIR_, PATH, BITS(S_ACCESS)), CALL(faccessat2, DIR_, PATH, BITS(S_ACCESS), BITS(S_AT)),
	CALL(readlinkat, DIR_, PATH, OUT, LEN), CALL(getcwd, OUT, LEN), CALL(chdir, PATH), CALL(fchdir, DIR_),
	CALL(fchmod, FD, MODE), CALL(fchmodat, DIR_, PATH, MODE),
	{ "fchmodat2", 452, FEED_NONE, { DIR_, PATH, MODE, BITS(S_AT) } },
	CALL(fchown, FD, ID, ID), CALL(fchownat, DIR_, PATH, ID, ID, BITS(S_AT)),
	CALL(utimensat, DIR_, PATH, PAIR, BITS(S_AT)), CALL(umask, MODE),
	CALL(getdents64, DIR_, OUT, LEN), CALL(mkdirat, DIR_, PATH, MODE),
	CALL(mknodat, DIR_, PATH, ONE(S_FILETYPE)),
	CALL(unlinkat, DIR_, PATH, BITS(S_AT)), CALL(renameat, DIR_, PATH, DIR_, PATH),
	CALL(renameat2, DIR_, PATH, DIR_, PATH, BITS(S_RENAME)),
	CALL(linkat, DIR_, PATH, DIR_, PATH, BITS(S_AT)),
	CALL(symlinkat, PATH, DIR_, PATH), CALL(name_to_handle_at, DIR_, PATH, STRUCT, PAIR, BITS(S_AT)),
	CALL(inotify_add_watch, STREAM, PATH, THIS(0)),
	CALL(setxattr, PATH, ATTR, IN, LEN, ONE(S_XATTR)), CALL(lsetxattr, PATH, ATTR, IN, LEN, ONE(S_XATTR)),
	CALL(fsetxattr, FD, ATTR, IN, LEN, ONE(S_XATTR)), CALL(getxattr, PATH, ATTR, OUT, LEN),
	CALL(lgetxattr, PATH, ATTR, OUT, LEN), CALL(fgetxattr, FD, ATTR, OUT, LEN),
	CALL(listxattr, PATH, OUT, LEN),
	CALL(llistxattr, PATH, OUT, LEN), CALL(flistxattr, FD, OUT, LEN), CALL(removexattr, PATH, ATTR),
	CALL(lremovexattr, PATH, ATTR), CALL(fremovexattr, FD, ATTR),
#ifdef SYS_open
	CALL(open, PATH, BITS(S_OPEN), MODE), CALL(creat, PATH, MODE), CALL(stat, PATH, STRUCT),
	CALL(lstat, PATH, STRUCT),
	CALL(access, PATH, BITS(S_ACCESS)), CALL(readlink, PATH, OUT, LEN), CALL(mkdir, PATH, MODE),
	CALL(rmdir, PATH),
	CALL(unlink, PATH), CALL(rename, PATH, PATH), CALL(link, PATH, PATH), CALL(symlink, PATH, PATH),
	CALL(mknod, PATH, ONE(S_FILETYPE)), CALL(chmod, PATH, MODE), CALL(chown, PATH, ID, ID),
	CALL(lchown, PATH, ID, ID),
	CALL(getdents, DIR_, OUT, LEN), CALL(utimes, PATH, PAIR), CALL(dup2, FD, FD), CALL(pipe, PAIR),
	CALL(eventfd, INT), CALL(epoll_create, INT), CALL(epoll_wait, EPOLL, OUT, ONE(S_SMALL), MS),
	CALL(poll, POLLS, CNT, MS), CALL(select, NSETS, FDSETS, FDSETS, FDSETS, TIMEVAL_),
	CALL(signalfd, STREAM, SIGSET_, EIGHT),
	CALL(inotify_init, JUNK),
#endif
	/* Sockets. */
	CALL(socket, ONE(S_DOMAIN), ONE(S_TYPE), ONE(S_SMALL)),
	CALL(socketpair, ONE(S_DOMAIN), ONE(S_TYPE), NOTHING, PAIR),
	CALL(bind, SOCK, ADDR_IN, ADDR_LEN), CALL(listen, SOCK, ONE(S_SMALL)),
	CALL(connect, SOCK, ADDR_IN, ADDR_LEN),
	CALL(accept, SOCK, ADDR_OUT, ADDR_LENP), CALL(accept4, SOCK, ADDR_OUT, ADDR_LENP, BITS(S_SOCK)),
	CALL(accept4, THIS(W_LISTEN), ADDR_OUT, ADDR_LENP, BITS(S_SOCK)),
	CALL(shutdown, SOCK, ONE(S_SHUT)), CALL(getsockname, SOCK, ADDR_OUT, ADDR_LENP),
	CALL(getpeername, SOCK, ADDR_OUT, ADDR_LENP),
	CALL(getsockopt, SOCK, SOCK_LEVEL, SOCK_NAME, SOCK_OUT, SOCK_LENP),
	CALL(setsockopt, SOCK, SOCK_LEVEL, SOCK_NAME, SOCK_IN, SOCK_LEN),
	CALL(recvfrom, SOCK, OUT, LEN, BITS(S_MSG), ADDR_OUT, ADDR_LENP),
	CALL(recvfrom, SOCK, OUT, LEN, BITS(S_MSG), NOTHING, JUNK),
	CALL(sendto, SOCK, IN, LEN, BITS(S_MSG), ADDR_IN, ADDR_LEN),
	CALL(sendto, SOCK, IN, LEN, BITS(S_MSG), NOTHING, NOTHING),
	CALL(recvmsg, SOCK, MSG_OUT, BITS(S_MSG)), CALL(sendmsg, SOCK, MSG_IN, BITS(S_MSG)),
	CALL(recvmmsg, SOCK, MMSG_OUT, CNT, BITS(S_MSG), LAPSE),
	CALL(sendmmsg, SOCK, MMSG_IN, CNT, BITS(S_MSG)),
	/* Waiting. */
	CALL(ppoll, POLLS, CNT, TIME, SIGSET_, EIGHT),
	CALL(pselect6, NSETS, FDSETS, FDSETS, FDSETS, TIME, SIGSET6),
	CALL(epoll_create1, BITS(S_DUP)), CALL(epoll_ctl, EPOLL, ONE(S_EPOLL), STREAM, EVENT),
	CALL(epoll_pwait, EPOLL, OUT, ONE(S_SMALL), MS, SIGSET_, EIGHT),
	CALL(epoll_pwait2, EPOLL, OUT, ONE(S_SMALL), TIME, SIGSET_, EIGHT),
	CALL(flock, FILE_, ONE(S_LOCK)), CALL(flock, THIS(W_LOCK2), ONE(S_LOCK)),
	CALL(flock, THIS(W_LOCK), ONE(S_LOCK)),
	CALL(futex, FUTEX, FUTEX_OP, INT, TIME, FUTEX, INT),
	CALL(nanosleep, TIME, STRUCT), CALL(clock_nanosleep, ONE(S_CLOCK), NOTHING, TIME, STRUCT),
	CALL(clock_nanosleep, ONE(S_CLOCK), THIS(1), PAST, STRUCT),
	CALL(wait4, ONE(S_SMALL), STRUCT, BITS(S_WAIT), STRUCT),
	CALL(waitid, ONE(S_SMALL), ONE(S_SMALL), STRUCT, BITS(S_WAIT), STRUCT),
	CALL(rt_sigtimedwait, SIGSET_, STRUCT, TIME, EIGHT),
	CALL(getrandom, OUT, LEN, ONE(S_GRND)),
	/* Calls that only query. */
	CALL(getpid, JUNK), CALL(gettid, JUNK), CALL(getppid, JUNK), CALL(getuid, JUNK), CALL(uname, STRUCT),
	CALL(getgroups, ONE(S_SMALL), STRUCT), CALL(clock_gettime, ONE(S_CLOCK), STRUCT),
	CALL(clock_getres, ONE(S_CLOCK), STRUCT),
	CALL(sysinfo, STRUCT), CALL(getrlimit, ONE(S_SMALL), STRUCT),
	CALL(getpriority, ONE(S_SMALL), NOTHING), CALL(sched_yield, JUNK),
	/* These certainly wait until the other thread acts. */
	FED(FEED_PIPE, read, THIS(W_FED), OUT, LEN), FED(FEED_PIPE, readv, THIS(W_FED), OUTV, CNT),
	FED(FEED_PIPE, splice, THIS(W_FED), NOTHING, THIS(W_PIPE_W), NOTHING, SHORT, NOTHING),
	FED(FEED_PIPE, ppoll, POLL_FED, THIS(1), NOTHING, NOTHING, EIGHT),
	FED(FEED_SOCKET, recvfrom, THIS(W_FED_SOCKET), OUT, LEN, BITS(S_MSG), NOTHING, NOTHING),
	FED(FEED_SOCKET, recvmsg, THIS(W_FED_SOCKET), MSG_OUT, BITS(S_MSG)),
	FED(FEED_SOCKET, read, THIS(W_FED_SOCKET), OUT, LEN),
	FED(FEED_COUNTER, read, THIS(W_FED_COUNTER), OUT, LEN),
	FED(FEED_CONNECT, accept4, THIS(W_FED_LISTEN), ADDR_OUT, ADDR_LENP, BITS(S_SOCK)),
	FED(FEED_UNLOCK, flock, THIS(W_FED_LOCK2), THIS(LOCK_EX)),
	FED(FEED_FUTEX, futex, FUTEX, THIS(0), THIS(0), NOTHING, JUNK, JUNK),
	FED(FEED_DRAIN, write, THIS(W_DRAINED_W), IN, LEN),
	FED(FEED_DRAIN, writev, THIS(W_DRAINED_W), INV, CNT),
};

static const int fcntl_commands[] = { F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_SETFL,
	F_GETLK, F_SETLK,
	F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_OFD_SETLK, F_GETPIPE_SZ, F_SETPIPE_SZ,
		F_ADD_SEALS, F_GET_SEALS,
	F_GETLEASE, F_GETOWN, F_GETSIG, 1036, 1035, 77 };
static const long status_flags[] = { 0, O_NONBLOCK, O_APPEND, O_NONBLOCK | O_APPEND, O_NOATIME, O_DIRECT };
static const unsigned long ioctl_commands[] = { FIONREAD, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX, FIOQSIZE,
	2 /* FIGETBSZ */, 0x5401 /* TCGETS */,
	0x5411 /* TIOCOUTQ */, 0x80086601 /* FS_IOC_GETFLAGS */, 0 };
static const long seals[] = { 1, 2, 4, 8, 0, 32 };
static const int socket_options[] = { SO_TYPE, SO_ERROR, SO_REUSEADDR, SO_SNDBUF, SO_ACCEPTCONN, SO_DOMAIN,
	SO_PROTOCOL,
	SO_KEEPALIVE, SO_LINGER, SO_RCVTIMEO, SO_PASSCRED, SO_PEEK_OFF, 99, -1 };
static const int futex_commands[] = { FUTEX_WAIT, FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAKE, FUTEX_REQUEUE,
	FUTEX_CMP_REQUEUE,
	FUTEX_WAKE_OP, FUTEX_WAKE_BITSET, FUTEX_FD, 77 };
static const int waits[] = { 0, 0, 0, 1, 2, -1 };
static const long owners[] = { 0, -1, -1, 1000, 65534 };
static const long modes[] = { 0, 0600, 0640, 0644, 0700, 0755, 04755, 01777, 0xffff };

static uintptr_t lock(struct maker *m)
{
	struct flock lock;

	memset(&lock, 0, sizeof(lock));
	lock.l_type = (short)below(&m->dice, once_in(&m->dice, 20) ? 6 : 3);
	lock.l_whence = (short)(once_in(&m->dice, 8) ? below(&m->dice, 5) : 0);
	lock.l_start = PICK(&m->dice, offsets);
	lock.l_len = once_in(&m->dice, 2) ? 0 : PICK(&m->dice, offsets);
	lock.l_pid = once_in(&m->dice, 30) ? 1 : 0;
	return put(m, &lock, sizeof(lock));
}

static uintptr_t fcntl_argument(struct maker *m)
{
	switch ((int)m->last) {
	case F_SETFL:
		return dirty(m, PICK(&m->dice, status_flags) & (m->gentle ? ~(long)O_DIRECT : -1l));
	case F_GETLK:
	case F_SETLK:
	case F_SETLKW:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		return pointer(m, lock(m));
	case F_SETPIPE_SZ:
		return 1u << below(&m->dice, 18);
	case F_ADD_SEALS:
		return (uintptr_t)PICK(&m->dice, seals);
	case 1035: /* a hint of the life time of writes, an address */
	case 1036:
		return pointer(m, put(m, "\0\0\0\0\0\0\0", 8));
	default:
		return dirty(m, (long)below(&m->dice, FUZZ_FDS + 10));
	}
}

static uintptr_t event(struct maker *m)
{
	struct epoll_event event;

	memset(&event, 0, sizeof(event));
	event.events = EPOLLIN | EPOLLOUT;
	if (once_in(&m->dice, 4))
		event.events = (uint32_t)roll(&m->dice) & ~(uint32_t)EPOLLWAKEUP;
	event.data.u64 = roll(&m->dice);
	return put(m, &event, sizeof(event));
}

/* Values of which there are two: utimensat(2) takes two struct timespec. */
static uintptr_t pair(struct maker *m)
{
	static const int64_t zeros[4] = { 0, 0, 0, 0 };
	int64_t words[4];
	int i;

	memcpy(words, zeros, sizeof(words));
	for (i = 0; once_in(&m->dice, 2) && i < 4; i++)
		words[i] = below(&m->dice, 1000);
	if (once_in(&m->dice, 6))
		words[1] = (1 << 30) - 2; /* UTIME_OMIT */
	return put(m, words, sizeof(words));
}

static uintptr_t timer(struct maker *m)
{
	int64_t words[4] = { 0, 0, 0, 0 };

	words[2 + below(&m->dice, 2)] = once_in(&m->dice, 3) ? 0 : 1000000000;
	words[below(&m->dice, 4)] = once_in(&m->dice, 20) ? -1 : 0;
	return put(m, words, sizeof(words));
}

static uintptr_t signals(struct maker *m)
{
	uint64_t set = once_in(&m->dice, 2) ? 0 : 1u << (SIGUSR2 - 1);

	return once_in(&m->dice, 2) ? 0 : pointer(m, put(m, &set, sizeof(set)));
}

static uintptr_t argument(struct maker *m, int code)
{
	int kind = code & 0xff, set = code >> 8;
	struct msghdr header;
	struct pollfd one;
	int32_t small;
	int64_t large;
	uintptr_t words[2];

	switch (kind) {
	case FD: case FILE_: case STREAM: case SOCK: case PIPE: case DIR_: case EPOLL:
		return dirty(m, descriptor(m, kind));
	case THIS_:
		return dirty(m, set);
	case BITS_:
		return bits(m, set);
	case ONE_:
		return dirty(m, sets[set].values[below(&m->dice, sets[set].count)]);
	case NOTHING:
		return 0;
	case PATH:
		return name(m);
	case ATTR:
		small = (int32_t)below(&m->dice, TEST_LENGTH(attributes));
		return pointer(m, put(m, attributes[small], strlen(attributes[small]) + 1));
	case OUT: case IN:
		m->length = m->aligned ? (size_t)4096 << below(&m->dice, 4) : PICK(&m->dice, lengths);
		return pointer(m, buffer(m, m->length, kind == IN));
	case LEN:
		return hostile_once_in(m, 40) ? (uintptr_t)odd_number(m) : m->length;
	case SHORT:
		return hostile_once_in(m, 40) ? (uintptr_t)odd_number(m) : PICK(&m->dice, lengths);
	case OFF:
		large = m->aligned ? 4096 * (int64_t)below(&m->dice, 20) : PICK(&m->dice, offsets);
		return (uintptr_t)large;
	case OFFP:
		large = PICK(&m->dice, offsets);
		return once_in(&m->dice, 2) ? 0 : pointer(m, put(m, &large, sizeof(large)));
	case OUTV: case INV:
		return pointer(m, vectors(m, kind == INV));
	case CNT:
		return hostile_once_in(m, 40) ? (uintptr_t)odd_number(m) : dirty(m, (long)m->length);
	case MSG_OUT: case MSG_IN:
		message(m, &header, kind == MSG_IN);
		return pointer(m, put(m, &header, sizeof(header)));
	case MMSG_OUT: case MMSG_IN:
		return pointer(m, messages(m, kind == MMSG_IN));
	case ADDR_IN:
		return pointer(m, address(m));
	case ADDR_LEN:
		return dirty(m, once_in(&m->dice, 20) ? PICK(&m->dice, odd_numbers) | 1 : (long)m->length);
	case ADDR_OUT:
		return once_in(&m->dice, 3) ? 0 : pointer(m, buffer(m, 120, 0));
	case ADDR_LENP:
		small = once_in(&m->dice, 6) ? (int32_t)odd_number(m) : 120;
		return once_in(&m->dice, 6) ? 0 : pointer(m, put(m, &small, sizeof(small)));
	case SOCK_LEVEL:
		return dirty(m, once_in(&m->dice, 8) ? (long)below(&m->dice, 300) : SOL_SOCKET);
	case SOCK_NAME:
		return dirty(m, PICK(&m->dice, socket_options));
	case SOCK_OUT:
		return pointer(m, buffer(m, 120, 0));
	case SOCK_IN:
		words[0] = below(&m->dice, 3);
		words[1] = 1 + below(&m->dice, 2000);
		return pointer(m, put(m, words, sizeof(words)));
	case SOCK_LENP:
		small = once_in(&m->dice, 4) ? (int32_t)below(&m->dice, 20) : 16;
		return pointer(m, put(m, &small, sizeof(small)));
	case SOCK_LEN:
		return dirty(m, once_in(&m->dice, 4) ? (long)below(&m->dice, 20) : 16);
	case TIME: case TIMEVAL_:
		return pointer(m, time_of(m, (kind == TIME ? 50000l : 50l) * below(&m->dice, 2)));
	case LAPSE:
		/* Either at once or late, but not while messages are received. */
		large = below(&m->dice, 2);
		return once_in(&m->dice, 3) ? 0 : pointer(m, seconds(m, large));
	case PAST:
		return time_of(m, 5);
	case ITIMER:
		return pointer(m, timer(m));
	case MS:
		return dirty(m, PICK(&m->dice, waits));
	case HOW:
		return pointer_to_how(m);
	case HOW_SIZE:
		if (once_in(&m->dice, 40))
			return 4097;
		return once_in(&m->dice, 4) ? 8 * (uintptr_t)below(&m->dice, 9) : 24;
	case MODE:
		/* The kernel reads 16 bits. */
		large = PICK(&m->dice, modes);
		if (once_in(&m->dice, 4))
			large |= (int64_t)(roll(&m->dice) << 16);
		return (uintptr_t)large;
	case ID:
		return dirty(m, PICK(&m->dice, owners));
	case INT:
		return dirty(m, (long)below(&m->dice, 3));
	case STRUCT:
		return once_in(&m->dice, 12) ? 0 : pointer(m, buffer(m, 512, 0));
	case PAIR:
		return pointer(m, pair(m));
	case POLLS:
		return pointer(m, polls(m));
	case POLL_FED:
		one.fd = W_FED;
		one.events = POLLIN;
		one.revents = (short)roll(&m->dice);
		return pointer(m, put(m, &one, sizeof(one)));
	case EVENT:
		return pointer(m, event(m));
	case FDSETS:
		return fd_sets(m);
	case NSETS:
		return dirty(m, once_in(&m->dice, 20) ? odd_number(m) : (long)below(&m->dice, 65));
	case SIGSET_:
		return signals(m);
	case SIGSET6:
		words[0] = signals(m);
		words[1] = 8;
		return once_in(&m->dice, 2) ? 0 : pointer(m, put(m, words, sizeof(words)));
	case EIGHT:
		return once_in(&m->dice, 40) ? (uintptr_t)odd_number(m) : 8;
	case FUTEX:
		small = (int32_t)below(&m->dice, 3);
		return pointer(m, put(m, &small, sizeof(small)));
	case FUTEX_OP:
		small = PICK(&m->dice, futex_commands) | (once_in(&m->dice, 2) ? FUTEX_PRIVATE_FLAG : 0);
		return dirty(m, small);
	case FCNTL:
		return dirty(m, PICK(&m->dice, fcntl_commands));
	case FCNTL_ARG:
		return fcntl_argument(m);
	case IOCTL:
		return dirty(m, (long)PICK(&m->dice, ioctl_commands));
	case IOCTL_ARG:
		return pointer(m, pair(m));
	default:
		return once_in(&m->dice, 2) ? 0 : (uintptr_t)roll(&m->dice);
	}
}

#endif /* FUZZ_CALLS_H */

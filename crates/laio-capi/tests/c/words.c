/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * words.c - calls with garbage in their unused words and in the upper halves of int arguments, as a
 * variadic caller leaves them: the results equal those of syscall(2) with the same words.
 */
#include "same.h"

#include <linux/futex.h>
#include <linux/stat.h>
#include <sys/resource.h>
#include <sys/un.h>

/* Upper halves, and whole words, that a compiler may leave. */
static const uintptr_t garbage[] = {
	0, UINTPTR_MAX, (uintptr_t)0xdeadbeefcafef00dULL, (uintptr_t)0x7fffffff00000001ULL,
	(uintptr_t)0x8000000080000000ULL,
};

/*
 * One letter for each argument: w a whole word, i an int, s a short (umode_t). The rest is garbage.
 */
static void try_words(const char *name, enum same_kind kind, long number, const char *letters,
		      const uintptr_t *given)
{
	uintptr_t words[6], low = 0xffffffffu;
	int i, j;

	for (j = 0; j < TEST_LENGTH(garbage); j++) {
		for (i = 0; i < 6; i++) {
			if (i >= (int)strlen(letters))
				words[i] = garbage[j];
			else if (letters[i] == 'w')
				words[i] = given[i];
			else if (letters[i] == 'i')
				words[i] = (given[i] & low) | (garbage[j] & ~low);
			else
				words[i] = (given[i] & 0xffff) | (garbage[j] & ~(uintptr_t)0xffff);
		}
		snprintf(same_what, sizeof(same_what), "garbage %d", j);
		same_words(name, kind, number, words);
	}
}

#define P(pointer) ((uintptr_t)(pointer))
#define TRY(name, kind, letters, ...)                                           \
	do {                                                                    \
		uintptr_t given_words[] = { __VA_ARGS__, 0, 0, 0, 0, 0, 0 };    \
		TEST_FROM(try_words(#name, kind, SYS_##name, letters, given_words)); \
	} while (0)

static void bytes(void)
{
	uintptr_t out = P(world_out.bytes), file = (uintptr_t)world_file, from = (uintptr_t)world_pipe[0],
		  to = (uintptr_t)world_pipe[1], socket = (uintptr_t)world_sockets[0];
	uintptr_t iovecs = P(world_iovecs), huge = (uintptr_t)1 << (sizeof(long) * 8 - 31);

	TRY(read, SAME_VALUE, "iww", file, out, 20);
	TRY(read, SAME_VALUE, "iww", file, out, 0);
	TRY(read, SAME_VALUE, "iww", from, out, 20);
	TRY(read, SAME_VALUE, "iww", socket, out, 5);
	TRY(read, SAME_VALUE, "iww", (uintptr_t)-1, out, 5);
	TRY(read, SAME_VALUE, "iww", (uintptr_t)world_root, out, 5);
	TRY(read, SAME_VALUE, "iww", from, out, UINTPTR_MAX);
	TRY(write, SAME_VALUE, "iww", file, out, 20);
	TRY(write, SAME_VALUE, "iww", to, out, 20);
	TRY(write, SAME_VALUE, "iww", socket, out, 0);
	TRY(write, SAME_VALUE, "iww", from, out, 20);
	TRY(pread64, SAME_VALUE, "iwww", file, out, 20, 90);
	TRY(pread64, SAME_VALUE, "iwww", file, out, 20, UINTPTR_MAX);
	TRY(pread64, SAME_VALUE, "iwww", file, out, 20, huge);
	TRY(pread64, SAME_VALUE, "iwww", from, out, 20, 0);
	TRY(pwrite64, SAME_VALUE, "iwww", file, out, 20, 90);
	TRY(pwrite64, SAME_VALUE, "iwww", file, out, 20, UINTPTR_MAX);
	TRY(readv, SAME_VALUE, "iww", file, iovecs, 2);
	TRY(readv, SAME_VALUE, "iww", from, iovecs, 2);
	TRY(readv, SAME_VALUE, "iww", file, iovecs, 0);
	TRY(readv, SAME_VALUE, "iww", file, iovecs, 1025);
	TRY(writev, SAME_VALUE, "iww", file, iovecs, 2);
	TRY(writev, SAME_VALUE, "iww", to, iovecs, 1);
	/* With a position in two words, the kernel ignores the upper one if the lower one has 64 bits. */
	if (sizeof(long) == 8) {
		TRY(preadv, SAME_VALUE, "iwww", file, iovecs, 2, 95);
		TRY(pwritev, SAME_VALUE, "iwww", file, iovecs, 2, 95);
	}
	TRY(preadv2, SAME_VALUE, "iwwwwi", file, iovecs, 2, 95, 0, 0);
	TRY(preadv2, SAME_VALUE, "iwwwwi", file, iovecs, 2, UINTPTR_MAX, UINTPTR_MAX, 0);
	TRY(preadv2, SAME_VALUE, "iwwwwi", file, iovecs, 2, 95, 0, 0x40000000);
	TRY(pwritev2, SAME_VALUE, "iwwwwi", file, iovecs, 2, 95, 0, 0);
	TRY(sendfile, SAME_VALUE, "iiww", to, file, P(&world_offset), 30);
	TRY(sendfile, SAME_VALUE, "iiww", to, file, 0, 30);
	TRY(splice, SAME_VALUE, "iwiwwi", from, 0, file, P(&world_offset), 10, 0);
	TRY(tee, SAME_VALUE, "iiwi", from, from, 10, 0);
	TRY(copy_file_range, SAME_VALUE, "iwiwwi", file, 0, file, P(&world_offset), 5, 0);
	TRY(copy_file_range, SAME_VALUE, "iwiwwi", file, 0, from, 0, 5, 0);
}

static void sockets(void)
{
	uintptr_t out = P(world_out.bytes), socket = (uintptr_t)world_sockets[0], length = P(&world_length);
	uintptr_t from = (uintptr_t)world_pipe[0];
	static struct sockaddr_un name;
	int on = 1;

	memset(&name, 0, sizeof(name));
	name.sun_family = AF_UNIX;
	strcpy(name.sun_path, "no such socket");
	TRY(sendto, SAME_VALUE, "iwwiwi", socket, out, 20, 0, 0, 0);
	TRY(sendto, SAME_VALUE, "iwwiwi", socket, out, 20, 0x70000000, 0, 0);
	TRY(sendto, SAME_VALUE, "iwwiwi", from, out, 20, 0, 0, 0);
	TRY(sendto, SAME_VALUE, "iwwiwi", socket, out, 20, 0, P(&name), sizeof(name));
	TRY(recvfrom, SAME_VALUE, "iwwiww", socket, out, 20, 0, 0, 0);
	TRY(recvfrom, SAME_VALUE, "iwwiww", socket, out, 20, MSG_PEEK, 0, 0);
	TRY(recvfrom, SAME_VALUE, "iwwiww", socket, out, 20, 0, out + 500, length);
	TRY(recvfrom, SAME_VALUE, "iwwiww", socket, out, 20, MSG_OOB, 0, 0);
	TRY(sendmsg, SAME_VALUE, "iwi", socket, P(&world_message), 0);
	TRY(recvmsg, SAME_VALUE, "iwi", socket, P(&world_message), MSG_DONTWAIT);
	TRY(recvmsg, SAME_VALUE, "iwi", socket, P(&world_message), 0);
	TRY(sendmmsg, SAME_VALUE, "iwii", socket, P(world_messages), 2, 0);
	TRY(recvmmsg, SAME_VALUE, "iwiiw", socket, P(world_messages), 2, MSG_DONTWAIT, 0);
	TRY(recvmmsg, SAME_VALUE, "iwiiw", socket, P(world_messages), 1, 0, P(&world_time));
	TRY(socket, SAME_DESCRIPTOR, "iii", AF_UNIX, SOCK_STREAM, 0);
	TRY(socket, SAME_DESCRIPTOR, "iii", 4711, SOCK_STREAM, 0);
	TRY(bind, SAME_VALUE, "iwi", socket, P(&name), 1);
	TRY(listen, SAME_VALUE, "ii", socket, 5);
	TRY(connect, SAME_VALUE, "iwi", socket, P(&name), sizeof(name));
	TRY(connect, SAME_VALUE, "iwi", from, P(&name), sizeof(name));
	TRY(accept4, SAME_VALUE, "iwwi", socket, 0, 0, 0);
	TRY(accept4, SAME_VALUE, "iwwi", socket, 0, 0, 1);
	TRY(accept, SAME_VALUE, "iww", from, 0, 0);
	TRY(getsockname, SAME_VALUE, "iww", socket, out, length);
	TRY(getpeername, SAME_VALUE, "iww", from, out, length);
	TRY(getsockopt, SAME_VALUE, "iiiww", socket, SOL_SOCKET, SO_TYPE, out, length);
	TRY(setsockopt, SAME_VALUE, "iiiwi", socket, SOL_SOCKET, SO_PASSCRED, P(&on), sizeof(on));
	on = 0;
	TRY(setsockopt, SAME_VALUE, "iiiwi", socket, SOL_SOCKET, SO_PASSCRED, P(&on), sizeof(on));
	TRY(setsockopt, SAME_VALUE, "iiiwi", socket, SOL_SOCKET, SO_TYPE, P(&on), sizeof(on));
	TRY(shutdown, SAME_VALUE, "ii", from, SHUT_RD);
}

static void names(void)
{
	uintptr_t out = P(world_out.bytes), root = (uintptr_t)world_root, cwd = (uintptr_t)AT_FDCWD;
	uintptr_t file = (uintptr_t)world_file;

	TRY(openat, SAME_DESCRIPTOR, "iwis", root, P("file"), O_RDONLY, 0);
	TRY(openat, SAME_DESCRIPTOR, "iwi", root, P("file"), O_RDONLY);
	TRY(openat, SAME_DESCRIPTOR, "iwi", cwd, P("file"), O_RDWR | O_TRUNC);
	TRY(openat, SAME_DESCRIPTOR, "iwis", cwd, P("new"), O_RDWR | O_CREAT, 0604);
	TRY(openat, SAME_DESCRIPTOR, "iwis", cwd, P("file"), O_RDWR | O_CREAT | O_EXCL, 0604);
	TRY(openat, SAME_DESCRIPTOR, "iwi", cwd, P("nothing"), O_RDONLY);
	TRY(openat, SAME_DESCRIPTOR, "iwi", file, P("nothing"), O_RDONLY);
	TRY(openat, SAME_DESCRIPTOR, "iwi", (uintptr_t)-1, P("file"), O_RDONLY);
	TRY(openat, SAME_DESCRIPTOR, "iwi", (uintptr_t)-1, P(world_directory), O_RDONLY);
	TRY(openat2, SAME_DESCRIPTOR, "iwww", root, P("file"), P(world_how), 24);
	TRY(openat2, SAME_DESCRIPTOR, "iwww", root, P("file"), P(world_how), 32);
	TRY(openat2, SAME_DESCRIPTOR, "iwww", root, P("file"), P(world_how), 8);
	TRY(openat2, SAME_DESCRIPTOR, "iwww", root, P("file"), P(world_how), UINTPTR_MAX);
	TRY(newfstatat, SAME_ERROR, "iwwi", root, P("link"), out, AT_SYMLINK_NOFOLLOW);
	TRY(newfstatat, SAME_ERROR, "iwwi", file, P(""), out, AT_EMPTY_PATH);
	TRY(newfstatat, SAME_ERROR, "iwwi", file, P(""), out, 0);
	TRY(newfstatat, SAME_ERROR, "iwwi", root, P("link"), out, 0x40000000);
	TRY(statx, SAME_ERROR, "iwiiw", root, P("file"), 0, STATX_BASIC_STATS, out);
	TRY(statx, SAME_ERROR, "iwiiw", root, P("file"), 0, 0x80000000u, out);
	TRY(fstat, SAME_ERROR, "iw", file, out);
	TRY(faccessat, SAME_VALUE, "iwi", root, P("file"), R_OK);
	TRY(faccessat, SAME_VALUE, "iwi", root, P("file"), 8);
	TRY(faccessat2, SAME_VALUE, "iwii", root, P("link"), F_OK, AT_SYMLINK_NOFOLLOW);
	TRY(faccessat2, SAME_VALUE, "iwii", root, P("nothing"), F_OK, 0);
	TRY(readlinkat, SAME_VALUE, "iwwi", root, P("link"), out, 3);
	TRY(readlinkat, SAME_VALUE, "iwwi", root, P("link"), out, 0);
	TRY(readlinkat, SAME_VALUE, "iwwi", root, P("file"), out, 10);
	TRY(mkdirat, SAME_VALUE, "iws", root, P("new"), 0751);
	TRY(mkdirat, SAME_VALUE, "iws", root, P("dir"), 0751);
	TRY(mknodat, SAME_VALUE, "iwsi", root, P("new"), S_IFIFO | 0604, 0);
	TRY(symlinkat, SAME_VALUE, "wiw", P("file"), root, P("new"));
	TRY(linkat, SAME_VALUE, "iwiwi", root, P("file"), root, P("new"), 0);
	TRY(linkat, SAME_VALUE, "iwiwi", root, P("link"), root, P("new"), AT_SYMLINK_FOLLOW);
	TRY(unlinkat, SAME_VALUE, "iwi", root, P("nothing"), 0);
	TRY(unlinkat, SAME_VALUE, "iwi", root, P("file"), AT_REMOVEDIR);
	TRY(unlinkat, SAME_VALUE, "iwi", root, P("dir"), 0);
	TRY(renameat2, SAME_VALUE, "iwiwi", root, P("nothing"), root, P("new"), 0);
	TRY(renameat2, SAME_VALUE, "iwiwi", root, P("file"), root, P("dir"), 1);
	TRY(fchmodat, SAME_VALUE, "iws", root, P("file"), 0600);
	TRY(fchmod, SAME_VALUE, "is", file, 0604);
	TRY(fchown, SAME_VALUE, "iii", file, (uintptr_t)-1, (uintptr_t)-1);
	TRY(fchownat, SAME_VALUE, "iwiii", root, P("file"), (uintptr_t)-1, (uintptr_t)-1, 0);
	TRY(utimensat, SAME_VALUE, "iwwi", root, P("file"), 0, 0);
	TRY(getdents64, SAME_ERROR, "iwi", file, out, 4096);
	TRY(statfs, SAME_ERROR, "ww", P("."), out);
	TRY(fstatfs, SAME_ERROR, "iw", file, out);
	TRY(getcwd, SAME_VALUE, "ww", out, 4096);
	TRY(getcwd, SAME_VALUE, "ww", out, 1);
#ifdef SYS_open
	TRY(open, SAME_DESCRIPTOR, "wi", P("file"), O_RDONLY);
	TRY(open, SAME_DESCRIPTOR, "wis", P("new"), O_WRONLY | O_CREAT, 0604);
	TRY(creat, SAME_DESCRIPTOR, "ws", P("new"), 0604);
	TRY(stat, SAME_ERROR, "ww", P("link"), out);
	TRY(lstat, SAME_ERROR, "ww", P("nothing"), out);
	TRY(access, SAME_VALUE, "wi", P("file"), W_OK);
	TRY(readlink, SAME_VALUE, "wwi", P("link"), out, 100);
	TRY(mkdir, SAME_VALUE, "ws", P("new"), 0751);
	TRY(rmdir, SAME_VALUE, "w", P("file"));
	TRY(unlink, SAME_VALUE, "w", P("nothing"));
	TRY(rename, SAME_VALUE, "ww", P("nothing"), P("new"));
	TRY(link, SAME_VALUE, "ww", P("file"), P("new"));
	TRY(symlink, SAME_VALUE, "ww", P("file"), P("new"));
	TRY(chmod, SAME_VALUE, "ws", P("file"), 0604);
	TRY(chown, SAME_VALUE, "wii", P("file"), (uintptr_t)-1, (uintptr_t)-1);
#endif
}

static void files(void)
{
	uintptr_t file = (uintptr_t)world_file, from = (uintptr_t)world_pipe[0], out = P(world_out.bytes);

	TRY(lseek, SAME_VALUE, "iwi", file, (uintptr_t)-5, SEEK_END);
	TRY(lseek, SAME_VALUE, "iwi", file, 5, 77);
	TRY(lseek, SAME_VALUE, "iwi", from, 5, SEEK_SET);
	TRY(truncate, SAME_VALUE, "ww", P("file"), 33);
	TRY(ftruncate, SAME_VALUE, "iw", file, 77);
	TRY(ftruncate, SAME_VALUE, "iw", file, UINTPTR_MAX);
	TRY(fallocate, SAME_VALUE, "iiww", file, 0, 0, 300);
	TRY(fallocate, SAME_VALUE, "iiww", file, 0x4000, 0, 300);
	TRY(fsync, SAME_VALUE, "i", file);
	TRY(fsync, SAME_VALUE, "i", from);
	TRY(fdatasync, SAME_VALUE, "i", file);
	TRY(sync_file_range, SAME_VALUE, "iwwi", file, 0, 0, 2);
	TRY(sync_file_range, SAME_VALUE, "iwwi", file, 0, 0, 64);
	TRY(fadvise64, SAME_VALUE, "iwwi", file, 0, 100, 3);
	TRY(fadvise64, SAME_VALUE, "iwwi", file, 0, 100, 99);
	TRY(flock, SAME_VALUE, "ii", file, 2);
	TRY(flock, SAME_VALUE, "ii", file, 8);
	TRY(flock, SAME_VALUE, "ii", file, 77);
	TRY(dup, SAME_DESCRIPTOR, "i", file);
	TRY(dup3, SAME_VALUE, "iii", file, file, 0);
	TRY(close, SAME_VALUE, "i", (uintptr_t)-1);
	TRY(close, SAME_VALUE, "i", 1000000);
	TRY(fcntl, SAME_VALUE, "ii", file, F_GETFL);
	TRY(fcntl, SAME_VALUE, "iiw", file, F_SETFD, FD_CLOEXEC);
	TRY(fcntl, SAME_DESCRIPTOR, "iiw", file, F_DUPFD_CLOEXEC, 100);
	TRY(fcntl, SAME_VALUE, "iiw", file, 4711, 0);
	TRY(ioctl, SAME_VALUE, "iiw", from, FIONREAD, out);
	TRY(ioctl, SAME_VALUE, "iiw", file, 0xfffffffeu, out);
	TRY(memfd_create, SAME_DESCRIPTOR, "wi", P("name"), 1);
	TRY(memfd_create, SAME_DESCRIPTOR, "wi", P("name"), 0x70000000);
	TRY(eventfd2, SAME_DESCRIPTOR, "ii", 3, 0);
	TRY(timerfd_create, SAME_DESCRIPTOR, "ii", CLOCK_MONOTONIC, 0);
	TRY(epoll_create1, SAME_DESCRIPTOR, "i", 0);
	TRY(pipe2, SAME_ERROR, "wi", 0, 0x70000000);
}

static void waits_and_other_calls(void)
{
	uintptr_t out = P(world_out.bytes), poll_one = P(&world_pollfd), time = P(&world_time);
	uintptr_t set = (uintptr_t)world_set, fds = P(&world_fds), word = P(&world_out.words[100]);

	TRY(ppoll, SAME_VALUE, "wiwww", poll_one, 1, time, 0, 0);
	TRY(ppoll, SAME_VALUE, "wiww", poll_one, 1, 0, 0);
	TRY(ppoll, SAME_VALUE, "wiww", poll_one, 0, time, 0);
	TRY(pselect6, SAME_VALUE, "iwwwww", (uintptr_t)world_pipe[0] + 1, fds, 0, 0, time, 0);
	TRY(pselect6, SAME_VALUE, "iwwwww", (uintptr_t)-1, fds, 0, 0, time, 0);
	TRY(epoll_pwait, SAME_VALUE, "iwiiww", set, out, 4, 0, 0, 8);
	TRY(epoll_pwait, SAME_VALUE, "iwiiww", set, out, 4, (uintptr_t)-1, 0, 8);
	TRY(epoll_pwait, SAME_VALUE, "iwiiww", set, out, 0, 0, 0, 8);
	TRY(epoll_ctl, SAME_VALUE, "iiiw", set, EPOLL_CTL_ADD, (uintptr_t)world_pipe[0], P(&world_event));
	TRY(epoll_ctl, SAME_VALUE, "iii", set, EPOLL_CTL_DEL, (uintptr_t)world_pipe[1]);
	TRY(nanosleep, SAME_VALUE, "ww", time, 0);
	TRY(clock_nanosleep, SAME_VALUE, "iiww", CLOCK_MONOTONIC, 0, time, 0);
	TRY(clock_nanosleep, SAME_VALUE, "iiww", 4711, 0, time, 0);
	TRY(clock_gettime, SAME_ERROR, "iw", CLOCK_REALTIME, out);
	TRY(clock_gettime, SAME_ERROR, "iw", 4711, out);
	TRY(futex, SAME_VALUE, "wii", word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
	TRY(futex, SAME_VALUE, "wiiw", word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, 0);
	TRY(wait4, SAME_VALUE, "iwiw", (uintptr_t)-1, 0, 0, 0);
	TRY(waitid, SAME_VALUE, "iiwiw", P_ALL, 0, 0, WEXITED, 0);
	TRY(waitid, SAME_VALUE, "iiwiw", P_ALL, 0, 0, 0, 0);
	TRY(kill, SAME_VALUE, "ii", (uintptr_t)getpid(), 0);
	TRY(kill, SAME_VALUE, "ii", (uintptr_t)getpid(), 4711);
	TRY(getrandom, SAME_ERROR, "wwi", out, 10, 0);
	TRY(getrandom, SAME_ERROR, "wwi", out, 10, 0x40000000);
	TRY(getpid, SAME_VALUE, "", 0);
	TRY(getppid, SAME_VALUE, "", 0);
	TRY(getpgid, SAME_VALUE, "i", 0);
	TRY(getuid, SAME_VALUE, "", 0);
	TRY(uname, SAME_VALUE, "w", out);
	TRY(prlimit64, SAME_VALUE, "iiww", 0, RLIMIT_NOFILE, 0, out);
	TRY(prlimit64, SAME_VALUE, "iiww", 0, 4711, 0, out);
	TRY(madvise, SAME_VALUE, "wwi", 0, 0, 4711);
	TRY(mprotect, SAME_VALUE, "www", 1, 4096, 0);
	TRY(sched_yield, SAME_VALUE, "", 0);
#ifdef SYS_poll
	TRY(poll, SAME_VALUE, "wii", poll_one, 1, 0);
	TRY(poll, SAME_VALUE, "wii", poll_one, 1, (uintptr_t)-1);
	TRY(epoll_wait, SAME_VALUE, "iwii", set, out, 4, 0);
	TRY(select, SAME_VALUE, "iwwww", (uintptr_t)world_pipe[0] + 1, fds, 0, 0, 0);
	TRY(dup2, SAME_VALUE, "ii", (uintptr_t)world_file, (uintptr_t)world_file);
#endif
}

static void all(void)
{
	bytes();
	sockets();
	names();
	files();
	waits_and_other_calls();
}

int main(void)
{
	test_start();
	test_need_pipes();
	if (test_under_valgrind())
		test_skip("memcheck reports words that the kernel ignores");
	signal(SIGPIPE, SIG_IGN);
	world_begin();
	same_in_every_way(all);
	world_remove();
	return 0;
}

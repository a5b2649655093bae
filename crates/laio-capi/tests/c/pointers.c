/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pointers.c - invalid pointers and structs in the arguments of system calls: never a crash, and the same
 * results as from syscall(2).
 */
#include "same.h"

#include <linux/futex.h>
#include <sys/un.h>
#include <sys/xattr.h>

static struct {
	const char *name;
	uintptr_t value;
} wrong[12];
static int wrong_count;

static char *edge; /* the end of memory: writable before it, unmapped after it */

static void add(const char *name, uintptr_t value)
{
	wrong[wrong_count].name = name;
	wrong[wrong_count].value = value;
	wrong_count++;
}

static void make_invalid_pointers(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int private_memory = MAP_PRIVATE | MAP_ANONYMOUS;
	char *pages = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, private_memory, -1, 0);
	char *read_only = (char *)mmap(NULL, page, PROT_READ, private_memory, -1, 0);

	CHECK(pages != (char *)MAP_FAILED && read_only != (char *)MAP_FAILED);
	CHECK_IS(mprotect(pages + page, page, PROT_NONE), 0);
	edge = pages + page;
	add("NULL", 0);
	add("1", 1);
	add("4095", 4095);
	add("PROT_NONE", (uintptr_t)(pages + page));
	/* Below all addresses that the kernel chooses itself. */
	add("unmapped", 0x20000);
	add("read only", (uintptr_t)read_only);
	add("the last byte", (uintptr_t)(pages + page - 1));
	add("-1", UINTPTR_MAX);
	add("-4096", UINTPTR_MAX - 4095);
	if (sizeof(long) == 8) {
		add("no address", (uintptr_t)1 << 62);
		add("the kernel", (uintptr_t)0xffff888000000000ULL);
		add("the top of the program", (uintptr_t)0x00007ffffffff000ULL);
	}
}

/* Replaces each word that has a p by each invalid pointer. */
static void try_pointers(const char *name, enum same_kind kind, long number, const char *letters,
			 const uintptr_t *given)
{
	uintptr_t words[6];
	int i, j;

	for (i = 0; i < (int)strlen(letters); i++) {
		if (letters[i] != 'p')
			continue;
		for (j = 0; j < wrong_count; j++) {
			memcpy(words, given, sizeof(words));
			words[i] = wrong[j].value;
			snprintf(same_what, sizeof(same_what), "%s, argument %d, %s", name, i, wrong[j].name);
			same_words(name, kind, number, words);
		}
	}
}

#define P(pointer) ((uintptr_t)(pointer))
#define TRY(name, kind, letters, ...)                                           \
	do {                                                                    \
		uintptr_t given_words[] = { __VA_ARGS__, 0, 0, 0, 0, 0, 0 };    \
		TEST_FROM(try_pointers(#name, kind, SYS_##name, letters, given_words)); \
	} while (0)

/* Like TRY, with an invalid value in one word of the world instead. */
static void try_within(const char *name, enum same_kind kind, long number, const uintptr_t *given,
		       void *place, uintptr_t value, const char *what)
{
	snprintf(same_what, sizeof(same_what), "%s, %s", name, what);
	world_wrong_place = (uintptr_t *)place;
	world_wrong_value = value;
	same_words(name, kind, number, given);
	world_wrong_place = NULL;
}

#define TRY_WITHIN(name, kind, place, value, ...)                                                    \
	do {                                                                                         \
		uintptr_t given_words[] = { __VA_ARGS__, 0, 0, 0, 0, 0, 0 };                         \
		TEST_FROM(try_within(#name, kind, SYS_##name, given_words, place, (uintptr_t)(value), \
				      #place " is " #value));                                        \
	} while (0)

static void bytes(void)
{
	uintptr_t out = P(world_out.bytes), file = (uintptr_t)world_file, from = (uintptr_t)world_pipe[0],
		  to = (uintptr_t)world_pipe[1], socket = (uintptr_t)world_sockets[0];
	uintptr_t iovecs = P(world_iovecs);
	int i;

	TRY(read, SAME_VALUE, "wp", file, out, 20);
	TRY(read, SAME_VALUE, "wp", file, out, 0);
	TRY(read, SAME_VALUE, "wp", from, out, 1);
	TRY(read, SAME_VALUE, "wp", socket, out, 1);
	TRY(read, SAME_VALUE, "wp", (uintptr_t)world_root, out, 20);
	TRY(write, SAME_VALUE, "wp", file, out, 1);
	TRY(write, SAME_VALUE, "wp", to, out, 1);
	TRY(write, SAME_VALUE, "wp", socket, out, 1);
	TRY(pread64, SAME_VALUE, "wp", file, out, 20, 50);
	TRY(pread64, SAME_VALUE, "wp", file, out, 20, 5000);
	TRY(pwrite64, SAME_VALUE, "wp", file, out, 1, 50);
	TRY(readv, SAME_VALUE, "wp", file, iovecs, 2);
	TRY(readv, SAME_VALUE, "wp", from, iovecs, 2);
	TRY(readv, SAME_VALUE, "wp", file, iovecs, 0);
	TRY(writev, SAME_VALUE, "wp", to, iovecs, 2);
	TRY(preadv, SAME_VALUE, "wp", file, iovecs, 2, 5);
	TRY(pwritev, SAME_VALUE, "wp", file, iovecs, 2, 5);
	TRY(preadv2, SAME_VALUE, "wp", file, iovecs, 2, 5, 0, 0);
	TRY(sendfile, SAME_VALUE, "wwp", to, file, 0, 5);
	TRY(splice, SAME_VALUE, "wpwp", from, 0, file, P(&world_offset), 5, 0);
	TRY(copy_file_range, SAME_VALUE, "wpwp", file, 0, file, P(&world_offset), 5, 0);
	/* Readable vectors with invalid pointers and lengths. */
	for (i = 0; i < wrong_count; i++) {
		uintptr_t bad = wrong[i].value;

		TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[0].iov_base, bad, file, iovecs, 2);
		TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[0].iov_base, bad, from, iovecs, 1);
		TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[0].iov_base, bad, socket, iovecs, 1);
		TRY_WITHIN(preadv, SAME_VALUE, &world_iovecs[0].iov_base, bad, file, iovecs, 2, 0);
	}
	TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[1].iov_len, UINTPTR_MAX, file, iovecs, 2);
	TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[0].iov_len, UINTPTR_MAX / 2, from, iovecs, 2);
	TRY_WITHIN(writev, SAME_VALUE, &world_iovecs[1].iov_len, UINTPTR_MAX, to, iovecs, 2);
	TRY_WITHIN(pwritev, SAME_VALUE, &world_iovecs[0].iov_len, 0, file, iovecs, 2, 0);
	TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[0].iov_len, 0, file, iovecs, UINTPTR_MAX);
	TRY_WITHIN(readv, SAME_VALUE, &world_iovecs[0].iov_len, 0, file, iovecs, (uintptr_t)-2147483647);
}

static void sockets(void)
{
	uintptr_t out = P(world_out.bytes), socket = (uintptr_t)world_sockets[0], length = P(&world_length),
		  message = P(&world_message), messages = P(world_messages);
	int i;

	TRY(sendto, SAME_VALUE, "wpwwp", socket, out, 1, 0, 0, 16);
	TRY(recvfrom, SAME_VALUE, "wpwwpp", socket, out, 1, 0, out + 1000, length);
	TRY(sendmsg, SAME_VALUE, "wp", socket, message, 0);
	TRY(recvmsg, SAME_VALUE, "wp", socket, message, 0);
	TRY(recvmsg, SAME_VALUE, "wp", (uintptr_t)world_pipe[0], message, 0);
	TRY(sendmmsg, SAME_VALUE, "wp", socket, messages, 2, 0);
	TRY(recvmmsg, SAME_VALUE, "wpwwp", socket, messages, 1, 0, P(&world_time));
	TRY(connect, SAME_VALUE, "wp", socket, out, 110);
	TRY(bind, SAME_VALUE, "wp", socket, out, 110);
	TRY(accept4, SAME_VALUE, "wpp", socket, out, length, 0);
	TRY(getsockname, SAME_VALUE, "wpp", socket, out, length);
	TRY(getsockopt, SAME_VALUE, "wwwpp", socket, SOL_SOCKET, SO_TYPE, out, length);
	TRY(setsockopt, SAME_VALUE, "wwwp", socket, SOL_SOCKET, SO_PASSCRED, out, 4);
	for (i = 0; i < wrong_count; i++) {
		uintptr_t bad = wrong[i].value;

		TRY_WITHIN(recvmsg, SAME_VALUE, &world_message.msg_iov, bad, socket, message, 0);
		TRY_WITHIN(sendmsg, SAME_VALUE, &world_message.msg_iov, bad, socket, message, 0);
		TRY_WITHIN(recvmsg, SAME_VALUE, &world_message.msg_name, bad, socket, message, 0);
		TRY_WITHIN(sendmsg, SAME_VALUE, &world_message.msg_control, bad, socket, message, 0);
		TRY_WITHIN(recvmsg, SAME_VALUE, &world_iovecs[0].iov_base, bad, socket, message, 0);
		TRY_WITHIN(sendmmsg, SAME_VALUE, &world_messages[1].msg_hdr.msg_iov, bad, socket, messages,
			   2, 0);
		TRY_WITHIN(recvmmsg, SAME_VALUE, &world_messages[0].msg_hdr.msg_iov, bad, socket, messages,
			   1, 0, 0);
	}
	TRY_WITHIN(recvmsg, SAME_VALUE, &world_message.msg_iovlen, 1025, socket, message, 0);
	TRY_WITHIN(sendmsg, SAME_VALUE, &world_message.msg_iovlen, UINTPTR_MAX, socket, message, 0);
	TRY_WITHIN(sendmsg, SAME_VALUE, &world_message.msg_iovlen, 0, socket, message, 0);
	TRY_WITHIN(sendmsg, SAME_VALUE, &world_message.msg_controllen, UINTPTR_MAX, socket, message, 0);
	TRY_WITHIN(sendmsg, SAME_VALUE, &world_message.msg_controllen, 3, socket, message, 0);
	TRY_WITHIN(recvmsg, SAME_VALUE, &world_iovecs[1].iov_len, UINTPTR_MAX, socket, message, 0);
}

static void names(void)
{
	uintptr_t out = P(world_out.bytes), root = (uintptr_t)world_root, how = P(world_how);
	uintptr_t file = (uintptr_t)world_file;

	TRY(openat, SAME_DESCRIPTOR, "wp", root, 0, O_RDONLY);
	TRY(openat, SAME_DESCRIPTOR, "wp", root, 0, O_RDWR | O_CREAT, 0600);
	TRY(openat2, SAME_DESCRIPTOR, "wpp", root, P("file"), how, 24);
	TRY(newfstatat, SAME_ERROR, "wpp", root, P("file"), out, 0);
	TRY(newfstatat, SAME_ERROR, "wpp", root, P(""), out, AT_EMPTY_PATH);
	TRY(statx, SAME_ERROR, "wpwwp", root, P("file"), 0, 0x7ff, out);
	TRY(statx, SAME_ERROR, "wpwwp", root, P(""), AT_EMPTY_PATH, 0x7ff, out);
	TRY(fstat, SAME_ERROR, "wp", file, out);
	TRY(faccessat, SAME_VALUE, "wp", root, 0, F_OK);
	TRY(faccessat2, SAME_VALUE, "wp", root, 0, F_OK, AT_EMPTY_PATH);
	TRY(readlinkat, SAME_VALUE, "wpp", root, P("link"), out, 10);
	TRY(mkdirat, SAME_VALUE, "wp", root, 0, 0700);
	TRY(unlinkat, SAME_VALUE, "wp", root, 0, 0);
	TRY(renameat2, SAME_VALUE, "wpwp", root, P("nothing"), root, P("new"), 0);
	TRY(linkat, SAME_VALUE, "wpwp", root, P("file"), root, P("new"), 0);
	TRY(symlinkat, SAME_VALUE, "pwp", P("file"), root, P("new"));
	TRY(mknodat, SAME_VALUE, "wp", root, 0, S_IFIFO | 0600, 0);
	TRY(fchmodat, SAME_VALUE, "wp", root, 0, 0600);
	TRY(truncate, SAME_VALUE, "p", 0, 10);
	TRY(utimensat, SAME_VALUE, "ww", root, 0, 0, 0);
	TRY(utimensat, SAME_VALUE, "wpp", root, P("file"), 0, 0);
	TRY(statfs, SAME_ERROR, "pp", P("."), out);
	TRY(getdents64, SAME_ERROR, "wp", file, out, 100);
	TRY(getcwd, SAME_VALUE, "p", out, 100);
	TRY(getxattr, SAME_VALUE, "ppp", P("file"), P("user.none"), out, 10);
	TRY(setxattr, SAME_VALUE, "pp", P("nothing"), P("user.none"), out, 4, 0);
	TRY(inotify_add_watch, SAME_VALUE, "wp", root, P("file"), 1);
#ifdef SYS_open
	TRY(open, SAME_DESCRIPTOR, "p", 0, O_RDONLY);
	TRY(stat, SAME_ERROR, "pp", P("file"), out);
	TRY(access, SAME_VALUE, "p", 0, F_OK);
	TRY(rename, SAME_VALUE, "pp", P("nothing"), P("new"));
	TRY(unlink, SAME_VALUE, "p", 0);
	TRY(pipe, SAME_ERROR, "w", P(edge));
#endif
}

/* A struct that is longer or shorter than this kernel's, or has unknown values. */
static void open_how(void)
{
	static const uintptr_t sizes[] = {
		0, 1, 7, 8, 16, 23, 24, 25, 31, 32, 4096, 4097, 1 << 20, (uintptr_t)1 << 31, UINTPTR_MAX,
	};
	uintptr_t root = (uintptr_t)world_root, how = P(world_how), words[6];
	int i, j;

	memset(words, 0, sizeof(words));
	words[0] = root;
	words[1] = P("file");
	for (i = 0; i < TEST_LENGTH(sizes); i++) {
		for (j = 1; j <= 48; j++) {
			words[2] = P(edge - j);
			words[3] = sizes[i];
			memset(edge - 64, 0, 64);
			snprintf(same_what, sizeof(same_what), "size %ld, %d bytes before the end of memory",
				 (long)sizes[i], j);
			same_words("openat2", SAME_DESCRIPTOR, SYS_openat2, words);
		}
	}
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[0], UINTPTR_MAX, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[0], 0x100000000ULL, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[0], O_CREAT, root, P("new"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[1], 0600, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[2], 0x100, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[2], 0x18, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[2], 0x20, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[2], 0x08, root, P("/etc"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[2], UINTPTR_MAX, root, P("file"), how, 24);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[3], 0, root, P("file"), how, 32);
	TRY_WITHIN(openat2, SAME_DESCRIPTOR, &world_how[3], 1, root, P("file"), how, 32);
}

static void waits(void)
{
	uintptr_t out = P(world_out.bytes), one = P(&world_pollfd), time = P(&world_time),
		  set = (uintptr_t)world_set, fds = P(&world_fds), word = P(&world_out.words[100]),
		  below = (uintptr_t)world_pipe[0] + 1;

	TRY(nanosleep, SAME_VALUE, "pp", time, 0);
	TRY(clock_nanosleep, SAME_VALUE, "wwpp", CLOCK_MONOTONIC, 0, time, 0);
	TRY(ppoll, SAME_VALUE, "pwpp", one, 1, time, 0, 8);
	TRY(pselect6, SAME_VALUE, "wpppp", below, fds, 0, 0, time, 0);
	TRY(epoll_pwait, SAME_VALUE, "wpwwp", set, out, 4, 0, 0, 8);
	TRY(epoll_ctl, SAME_VALUE, "wwwp", set, EPOLL_CTL_MOD, (uintptr_t)world_sockets[0], 0);
	TRY(futex, SAME_VALUE, "pwwp", word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, time);
	TRY(wait4, SAME_VALUE, "wpwp", (uintptr_t)-1, 0, 0, 0);
	TRY(waitid, SAME_VALUE, "wwpwp", P_ALL, 0, 0, WEXITED, 0);
	/* Signals 1 and 2, which do not arrive. */
	TRY(rt_sigtimedwait, SAME_VALUE, "ppw", P(&world_offset), 0, time, 8);
	TRY(getrandom, SAME_ERROR, "p", out, 10, 0);
	TRY(uname, SAME_VALUE, "p", out);
	TRY(clock_gettime, SAME_ERROR, "wp", CLOCK_REALTIME, out);
	TRY(prlimit64, SAME_VALUE, "wwwp", 0, 7, 0, out);
	TRY(mincore, SAME_VALUE, "wwp", P(edge - 4096), 4096, out);
#ifdef SYS_epoll_pwait2
	TRY(epoll_pwait2, SAME_VALUE, "wpwpp", set, out, 4, time, 0, 8);
#endif
#ifdef SYS_poll
	TRY(poll, SAME_VALUE, "p", one, 1, 0);
	TRY(epoll_wait, SAME_VALUE, "wp", set, out, 4, 0);
	TRY(select, SAME_VALUE, "wpppp", below, fds, 0, 0, out);
#endif
}

/* Invalid times, which must fail before any wait. */
static void times(void)
{
	static const struct { long sec, nsec; } no_times[] = {
		{ 0, 1000000000 }, { 0, -1 }, { 0, LONG_MAX }, { 0, LONG_MIN }, { -1, 0 }, { LONG_MIN, 0 },
		{ 0, 0 }, { -1, 999999999 }, { -1, -1 },
	};
	static struct timespec time;
	uintptr_t one = P(&world_pollfd), set = (uintptr_t)world_set, out = P(world_out.bytes);
	uintptr_t word = P(&world_out.words[100]), socket = (uintptr_t)world_sockets[0];
	uintptr_t below = (uintptr_t)world_pipe[0] + 1, fds = P(&world_fds), given = P(&time);
	int i;

#define TRY_TIME(name, ...)                                                                   \
	do {                                                                                  \
		uintptr_t given_words[] = { __VA_ARGS__, 0, 0, 0, 0, 0, 0 };                  \
		snprintf(same_what, sizeof(same_what), "%s, time {%ld, %ld}", #name,          \
			 no_times[i].sec, no_times[i].nsec);                                  \
		TEST_FROM(same_words(#name, SAME_VALUE, SYS_##name, given_words));            \
	} while (0)

	for (i = 0; i < TEST_LENGTH(no_times); i++) {
		time.tv_sec = no_times[i].sec;
		time.tv_nsec = no_times[i].nsec;
		TRY_TIME(nanosleep, given, 0);
		TRY_TIME(clock_nanosleep, CLOCK_MONOTONIC, 0, given, 0);
		TRY_TIME(clock_nanosleep, CLOCK_REALTIME, 1, given, 0);
		TRY_TIME(clock_nanosleep, 4711, 0, given, 0);
		TRY_TIME(ppoll, one, 1, given, 0, 8);
		TRY_TIME(pselect6, below, fds, 0, 0, given, 0);
		TRY_TIME(futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 1, given);
		TRY_TIME(recvmmsg, socket, P(world_messages), 1, 0, given);
		TRY_TIME(rt_sigtimedwait, P(&world_offset), 0, given, 8);
		TRY_TIME(rt_sigtimedwait, P(&world_offset), 0, given, 7);
#ifdef SYS_epoll_pwait2
		TRY_TIME(epoll_pwait2, set, out, 4, given, 0, 8);
#endif
	}
#undef TRY_TIME
}

static void all(void)
{
	bytes();
	sockets();
	names();
	open_how();
	waits();
	times();
}

int main(void)
{
	test_start();
	test_need_pipes();
	if (test_under_valgrind())
		test_skip("memcheck reports bad pointers before the kernel sees them");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGSEGV, same_crashes);
	signal(SIGBUS, same_crashes);
	make_invalid_pointers();
	world_begin();
	same_in_every_way(all);
	world_remove();
	return 0;
}

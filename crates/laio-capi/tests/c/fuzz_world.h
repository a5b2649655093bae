/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_world.h - the files that a program begins with and leaves, and the thread that ends its waits.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "fuzz_mask.h"
#include "fuzz_wait.h"

/* Some C libraries have no function for it. */
#define CLOSE_RANGE 436L

/* ---- Descriptors ---- */

static void place(int from, int to)
{
	if (from < 0 || dup2(from, to) != to) {
		fprintf(stderr, "no descriptor %d: %s\n", to, strerror(errno));
		_exit(3);
	}
	close(from);
}

static void place_pair(const int of[2], int to)
{
	place(of[0], to);
	place(of[1], to + 1);
}

static void fill_file(int fd, size_t count)
{
	static unsigned char bytes[4096];
	size_t i, at, length;

	for (at = 0; at < count; at += length) {
		length = count - at < sizeof(bytes) ? count - at : sizeof(bytes);
		for (i = 0; i < length; i++)
			bytes[i] = (unsigned char)(0x80 | ((at / 256 + i * 7) & 0x7f));
		if (write(fd, bytes, length) != (ssize_t)length)
			_exit(3);
	}
}

static void place_file(const char *path, int flags, size_t count, int to)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);

	fill_file(fd, count);
	close(fd);
	fd = open(path, flags);
	if (fd == -1 && errno == EINVAL) /* a file system without O_DIRECT */
		fd = open(path, flags & ~O_DIRECT);
	place(fd, to);
}

static void place_pipe(int flags, size_t count, int to)
{
	int of[2];

	CHECK_IS(pipe2(of, flags), 0);
	fill_file(of[1], count);
	place_pair(of, to);
}

static void place_sockets(int type, int to)
{
	int of[2];

	CHECK_IS(socketpair(AF_UNIX, type, 0, of), 0);
	CHECK_IS(send(of[1], "0123456789abcdef", 16, 0), 16);
	CHECK_IS(send(of[0], "0123456789", 10, 0), 10);
	place_pair(of, to);
}

/* Writes until it is full. */
static void fill_up(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, "xxxxxxxxxxxxxxxx", 16) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static struct sockaddr_un fed_address;
static socklen_t fed_address_length = sizeof(fed_address);

static void place_listeners(void)
{
	struct sockaddr_un un;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), i;

	memset(&un, 0, sizeof(un));
	un.sun_family = AF_UNIX;
	memcpy(un.sun_path, "sock", 5);
	CHECK_IS(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	CHECK_IS(listen(fd, 60), 0);
	place(fd, W_LISTEN);
	for (i = 0; i < 2; i++) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		CHECK_IS(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
		place(fd, W_CLIENT + i);
	}
	place(socket(AF_UNIX, SOCK_STREAM, 0), W_SOCKET);
	place(socket(AF_INET, SOCK_DGRAM, 0), W_UDP);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK_IS(bind(fd, (struct sockaddr *)&un, sizeof(sa_family_t)), 0);
	CHECK_IS(getsockname(fd, (struct sockaddr *)&fed_address, &fed_address_length), 0);
	CHECK_IS(listen(fd, 5), 0);
	place(fd, W_FED_LISTEN);
	place(socket(AF_UNIX, SOCK_STREAM, 0), W_FED_CLIENT);
}

static void place_events(void)
{
	struct itimerspec soon;
	struct epoll_event event;
	struct timeval limit = { 0, 2000 };
	sigset_t set;
	int i;

	place(eventfd(5, 0), W_EVENT);
	place(eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK), W_SEM);
	memset(&soon, 0, sizeof(soon));
	soon.it_value.tv_nsec = 1;
	place(timerfd_create(CLOCK_MONOTONIC, 0), W_TIMER);
	timerfd_settime(W_TIMER, 0, &soon, NULL);
	place(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), W_TIMER2);
	place(epoll_create1(0), W_EPOLL);
	for (i = 0; i < 3; i++) {
		memset(&event, 0, sizeof(event));
		event.events = EPOLLIN;
		event.data.fd = i == 0 ? W_PIPE : i == 1 ? W_STREAM : W_EVENT;
		epoll_ctl(W_EPOLL, EPOLL_CTL_ADD, event.data.fd, &event);
	}
	place(inotify_init1(0), W_INOTIFY);
	inotify_add_watch(W_INOTIFY, "dir", IN_CREATE | IN_DELETE);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	place(signalfd(-1, &set, SFD_NONBLOCK), W_SIGNAL);
	place(eventfd(0, 0), W_FED_COUNTER);
	for (i = W_TIMED; i <= W_TIMED2; i++) {
		setsockopt(i, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
		setsockopt(i, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	}
}

static void place_files(int direct)
{
	int fd;

	CHECK_IS(mkdir("dir", 0755), 0);
	CHECK_IS(mkdir("sub", 0755), 0);
	CHECK_IS(symlink("a", "link"), 0);
	CHECK_IS(symlink("../b", "dir/link"), 0);
	CHECK_IS(symlink("nothing", "dangling"), 0);
	CHECK_IS(symlink("loop", "loop"), 0);
	CHECK_IS(mkfifo("fifo", 0644), 0);
	place_file("a", O_RDWR, 10000, W_A);
	place_file("b", O_RDONLY, 100, W_B);
	place_file("c", O_WRONLY | O_APPEND, 5000, W_C);
	place_file("big", O_RDWR, 300000, W_BIG);
	place_file("direct", O_RDWR | direct, 65536, W_DIRECT);
	place_file("dir/a", O_PATH, 300, W_PATH);
	setxattr("a", "user.a", "value", 5, 0);
	fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	if (fd == -1)
		fd = memfd_create("instead", 0);
	fill_file(fd, 20000);
	place(fd, W_SHM);
	fd = memfd_create("sealed", MFD_ALLOW_SEALING);
	fill_file(fd, 8192);
	place(fd, W_MEMFD);
	place(open(".", O_RDONLY | O_DIRECTORY), W_ROOT);
	place(open("dir", O_RDONLY | O_DIRECTORY), W_DIR);
	place(open(".", O_RDONLY | O_DIRECTORY), W_DIR2);
	place(dup(W_A), W_DUP);
	place(open("fifo", O_RDWR), W_FIFO);
	place_file("lock", O_RDWR, 0, W_LOCK);
	place_file("lock", O_RDWR, 0, W_LOCK2);
	flock(W_LOCK, LOCK_EX);
	place_file("lock2", O_RDWR, 0, W_FED_LOCK);
	place_file("lock2", O_RDWR, 0, W_FED_LOCK2);
}

/* Uses all low numbers while it makes the descriptors, so that these and the library's are above them. */
static void take_all(void)
{
	int fd;

	syscall(CLOSE_RANGE, 3, ~0u, 0);
	do
		fd = dup(0);
	while (fd >= 0 && fd < FUZZ_FDS - 1);
	CHECK_IS(fd, FUZZ_FDS - 1);
	/* select(2) checks as many descriptors as the table has, which grows for the carriers' ones. */
	CHECK_IS(dup2(0, FUZZ_TABLE - 1), FUZZ_TABLE - 1);
	close(FUZZ_TABLE - 1);
}

/* Without O_NOFOLLOW, which is not reported while a file system with a server is mounted. */
static int mode_of(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags == -1 ? -1 : flags & ~O_NOFOLLOW;
}

static void release_rest(void)
{
	struct rlimit limit;

	syscall(CLOSE_RANGE, W_CLOSED, W_CLOSED3, 0);
	syscall(CLOSE_RANGE, W_END, FUZZ_FDS - 1, 0);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = FUZZ_FDS;
	CHECK_IS(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void make_world(int direct)
{
	take_all();
	umask(022);
	place_files(direct);
	place_pipe(0, 300, W_PIPE);
	place_pipe(O_NONBLOCK, 0, W_EMPTY);
	place_pipe(0, 5000, W_PIPE2);
	place_pipe(0, 0, W_FULL);
	place_pipe(0, 0, W_FED);
	place_pipe(0, 0, W_DRAINED);
	fcntl(W_FULL_W, F_SETPIPE_SZ, 4096);
	fcntl(W_DRAINED_W, F_SETPIPE_SZ, 4096);
	fcntl(W_FULL_W, F_SETFL, O_NONBLOCK);
	fcntl(W_DRAINED, F_SETFL, O_NONBLOCK);
	fill_up(W_FULL_W);
	place_sockets(SOCK_STREAM, W_STREAM);
	place_sockets(SOCK_DGRAM, W_DGRAM);
	place_sockets(SOCK_SEQPACKET, W_SEQ);
	place_sockets(SOCK_STREAM, W_TIMED);
	place_sockets(SOCK_STREAM, W_FED_SOCKET);
	place_listeners();
	place_events();
}

/* ---- The descriptors after the calls ---- */

static uint64_t hash_descriptors(void)
{
	uint64_t hash = 1;
	long state[3];
	int fd;

	for (fd = 3; fd < W_END + 40; fd++) {
		state[0] = fcntl(fd, F_GETFD);
		if (state[0] == -1)
			continue;
		state[1] = mode_of(fd);
		state[2] = lseek(fd, 0, SEEK_CUR);
		hash = hash_bytes(hash ^ (uint64_t)fd, state, sizeof(state));
	}
	return hash;
}

/* Includes the data in them, for people to compare. Called after the end of the context, or for a dump. */
static void describe_descriptors(char *text, size_t size, int last)
{
	struct stat status;
	int fd, waiting;

	for (fd = 3; fd <= last; fd++) {
		if (fcntl(fd, F_GETFD) == -1 || fstat(fd, &status) == -1)
			continue;
		waiting = -1;
		if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
			ioctl(fd, FIONREAD, &waiting);
		append(text, size, "descriptor %d: type and mode %o, %d, flags %o, position %ld, size %ld, "
		       "waiting %d\n", fd, status.st_mode, fcntl(fd, F_GETFD), mode_of(fd),
		       (long)lseek(fd, 0, SEEK_CUR), S_ISREG(status.st_mode) ? (long)status.st_size : -1,
		       waiting);
	}
}

/* ---- The thread that ends waits ---- */

static struct {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	const struct call *call;   /* to feed; NULL: nothing to do */
	int done;                  /* the call has ended */
	long result;
} feeder;

static long drain(void)
{
	unsigned char bytes[4096];
	uint64_t hash = 1, total = 0;
	ssize_t count;
	size_t i;

	for (;;) {
		int last = __atomic_load_n(&feeder.done, __ATOMIC_ACQUIRE);

		while ((count = read(W_DRAINED, bytes, sizeof(bytes))) > 0) {
			for (i = 0; i < (size_t)count; i++)
				hash = mix(hash ^ bytes[i]);
			total += (uint64_t)count;
		}
		if (last)
			return (long)(hash >> 20 << 10 ^ total);
		usleep(50);
	}
}

static long feed(const struct call *call)
{
	uint64_t seven = 7;
	long woken = 0;

	usleep(100);
	switch (call->feed) {
	case FEED_PIPE:
		return write(W_FED_W, "for the pipe", 12);
	case FEED_SOCKET:
		return send(W_FED_SOCKET2, "for the socket", 14, MSG_DONTWAIT);
	case FEED_COUNTER:
		return write(W_FED_COUNTER, &seven, sizeof(seven));
	case FEED_CONNECT:
		return connect(W_FED_CLIENT, (struct sockaddr *)&fed_address, fed_address_length);
	case FEED_UNLOCK:
		return flock(W_FED_LOCK, LOCK_UN);
	case FEED_FUTEX:
		while (woken == 0 && !__atomic_load_n(&feeder.done, __ATOMIC_ACQUIRE))
			woken = syscall(SYS_futex, call->words[0], FUTEX_WAKE, 1, NULL, NULL, 0);
		return woken > 0;
	default:
		return drain();
	}
}

static void *feeder_main(void *unused)
{
	const struct call *call;

	(void)unused;
	pthread_mutex_lock(&feeder.mutex);
	for (;;) {
		while (!feeder.call)
			pthread_cond_wait(&feeder.changed, &feeder.mutex);
		call = feeder.call;
		pthread_mutex_unlock(&feeder.mutex);
		feeder.result = feed(call);
		pthread_mutex_lock(&feeder.mutex);
		feeder.call = NULL;
		pthread_cond_broadcast(&feeder.changed);
	}
	return NULL;
}

/* Whether the call waits now, and the event that ends the wait is prepared. */
static int can_feed(const struct call *call)
{
	const struct pollfd *one = (const struct pollfd *)memory_at(call->words[0], sizeof(*one));
	int fd = (int)call->words[0];
	struct sockaddr_un peer;
	socklen_t length = sizeof(peer);

	if (fd >= W_FED && fd < W_END && !may_wait(fd) && call->feed != FEED_UNLOCK)
		return 0;
	switch (call->feed) {
	case FEED_PIPE:
		/* A bad pointer makes ppoll wait for another descriptor than the one that is fed. */
		if (call->number == SYS_ppoll && one && one->fd != W_FED)
			return 0;
		return !is_ready(W_FED, POLLIN) && is_ready(W_FED_W, POLLOUT) && is_ready(W_PIPE_W, POLLOUT);
	case FEED_SOCKET:
		if (call->words[call->number == SYS_recvmsg ? 2 : 3] & MSG_DONTWAIT)
			return 0;
		return !is_ready(W_FED_SOCKET, POLLIN);
	case FEED_COUNTER:
		return !is_ready(W_FED_COUNTER, POLLIN);
	case FEED_CONNECT:
		return !is_ready(W_FED_LISTEN, POLLIN) &&
		       getpeername(W_FED_CLIENT, (struct sockaddr *)&peer, &length) == -1;
	case FEED_UNLOCK:
		return flock(W_FED_LOCK2, LOCK_UN) == 0 && flock(W_FED_LOCK, LOCK_EX | LOCK_NB) == 0;
	case FEED_DRAIN:
		fill_up(W_DRAINED_W);
		return 1;
	default:
		return 1;
	}
}

static void begin_feeding(const struct call *call)
{
	static int started;

	if (!started) {
		pthread_mutex_init(&feeder.mutex, NULL);
		pthread_cond_init(&feeder.changed, NULL);
		CHECK_IS(pthread_create(&feeder.thread, NULL, feeder_main, NULL), 0);
		started = 1;
	}
	pthread_mutex_lock(&feeder.mutex);
	feeder.done = 0;
	feeder.call = call;
	pthread_cond_broadcast(&feeder.changed);
	pthread_mutex_unlock(&feeder.mutex);
}

static long end_feeding(void)
{
	__atomic_store_n(&feeder.done, 1, __ATOMIC_RELEASE);
	pthread_mutex_lock(&feeder.mutex);
	while (feeder.call)
		pthread_cond_wait(&feeder.changed, &feeder.mutex);
	pthread_mutex_unlock(&feeder.mutex);
	return feeder.result;
}

#endif /* FUZZ_WORLD_H */

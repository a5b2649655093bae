/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * transfers.c - transfers that would block are complete, not cut short; broken pipes, and cancellation.
 */
#include "test.h"

enum { SIZE = 1 << 20 };

static unsigned char *sent, *received;

static void fill(void)
{
	uint32_t random = 1;
	int i;

	for (i = 0; i < SIZE; i++) {
		random = random * 1664525 + 1013904223;
		sent[i] = (unsigned char)(random >> 24);
	}
	memset(received, 0, SIZE);
}

/* One end of a stream: it moves pieces of odd lengths, up to `limit`. */
struct end {
	int fd;
	long limit;
	long seen;
	int close_then;
};

static void *read_slowly(void *argument)
{
	struct end *end = (struct end *)argument;
	long piece = 1, result;

	while (end->seen < end->limit) {
		piece = piece % 9973 + 211;
		if (piece > end->limit - end->seen)
			piece = end->limit - end->seen;
		result = read(end->fd, received + end->seen, (size_t)piece);
		CHECK(result >= 0);
		if (result == 0)
			break;
		end->seen += result;
	}
	if (end->close_then)
		close(end->fd);
	return NULL;
}

static void new_streams(int sockets, int fds[2])
{
	int size = 1;

	if (!sockets) {
		test_pipe(fds);
		CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) >= 4096);
		return;
	}
	/* The kernel uses its smallest buffer instead. */
	CHECK_IS(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK_IS(setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	CHECK_IS(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
}

static void write_all(int sockets, long number, int vectors)
{
	struct iovec iovecs[7];
	struct msghdr message;
	struct laio_call call;
	struct end reader;
	pthread_t thread;
	int fds[2], i;

	new_streams(sockets, fds);
	fill();
	memset(&reader, 0, sizeof(reader));
	reader.fd = fds[0];
	reader.limit = SIZE;
	thread = test_thread(read_slowly, &reader);
	call = test_call(number, (uintptr_t)fds[1], (uintptr_t)sent, SIZE);
	for (i = 0; i < 7; i++) {
		iovecs[i].iov_base = sent + i * 1000;
		iovecs[i].iov_len = i == 3 ? 0 : 1000;
	}
	/* An empty one in the middle, and the last takes the rest. */
	iovecs[4].iov_base = sent + 3000;
	iovecs[4].iov_len = 2000;
	iovecs[6].iov_len = SIZE - 6000;
	memset(&message, 0, sizeof(message));
	message.msg_iov = iovecs;
	message.msg_iovlen = 7;
	if (vectors) {
		call.args[1] = number == SYS_writev ? (uintptr_t)iovecs : (uintptr_t)&message;
		call.args[2] = number == SYS_writev ? 7 : 0;
	}
	CHECK_IS(test_finish(NULL, &call), SIZE);
	test_join(thread);
	CHECK_IS(reader.seen, SIZE);
	CHECK(memcmp(sent, received, SIZE) == 0);
	/* The program's vectors are unchanged. */
	CHECK(iovecs[0].iov_base == sent && iovecs[0].iov_len == 1000);
	CHECK(iovecs[6].iov_base == sent + 6000 && iovecs[6].iov_len == SIZE - 6000);
	close(fds[0]);
	close(fds[1]);
}

static void *write_slowly(void *argument)
{
	struct end *end = (struct end *)argument;
	long piece = 1;

	while (end->seen < end->limit) {
		piece = piece % 9973 + 211;
		if (piece > end->limit - end->seen)
			piece = end->limit - end->seen;
		CHECK_IS(write(end->fd, sent + end->seen, (size_t)piece), piece);
		end->seen += piece;
	}
	return NULL;
}

/* MSG_WAITALL requests all bytes; a plain read takes the available ones, like read(2). */
static void read_some_or_all(void)
{
	struct laio_call call;
	struct end writer;
	pthread_t thread;
	int fds[2];

	new_streams(1, fds);
	fill();
	memset(&writer, 0, sizeof(writer));
	writer.fd = fds[1];
	writer.limit = SIZE;
	thread = test_thread(write_slowly, &writer);
	call = test_call(SYS_recvfrom, (uintptr_t)fds[0], (uintptr_t)received, SIZE);
	call.args[3] = MSG_WAITALL;
	CHECK_IS(test_finish(NULL, &call), SIZE);
	test_join(thread);
	CHECK(memcmp(sent, received, SIZE) == 0);

	CHECK_IS(write(fds[1], "few", 3), 3);
	call = test_call(SYS_read, (uintptr_t)fds[0], (uintptr_t)received, SIZE);
	CHECK_IS(test_finish(NULL, &call), 3);
	close(fds[1]);
	CHECK_IS(test_finish(NULL, &call), 0);
	close(fds[0]);
}

static void broken(void)
{
	struct laio_call call;
	struct end reader;
	pthread_t thread;
	int fds[2];
	long result;

	/* Broken from the start. */
	test_pipe(fds);
	close(fds[0]);
	call = test_call(SYS_write, (uintptr_t)fds[1], (uintptr_t)"x", 1);
	CHECK_IS(test_finish(NULL, &call), -1);
	CHECK_IS(errno, EPIPE);
	close(fds[1]);

	/* Broken in the middle: the call returns the bytes moved, like write(2); the next one fails. */
	new_streams(0, fds);
	fill();
	memset(&reader, 0, sizeof(reader));
	reader.fd = fds[0];
	reader.limit = 100000;
	reader.close_then = 1;
	thread = test_thread(read_slowly, &reader);
	call = test_call(SYS_write, (uintptr_t)fds[1], (uintptr_t)sent, SIZE);
	result = test_finish(NULL, &call);
	test_join(thread);
	CHECK(result >= reader.limit && result < SIZE);
	CHECK(memcmp(sent, received, (size_t)reader.limit) == 0);
	CHECK_IS(test_finish(NULL, &call), -1);
	CHECK_IS(errno, EPIPE);
	close(fds[1]);
}

/* Cancelled in the middle: the completion counts the bytes moved, and they are in the pipe. */
static void cancelled(void)
{
	struct laio_completion completion;
	struct laio_call call;
	int fds[2];
	void *handle;
	long result, seen = 0;

	new_streams(0, fds);
	fill();
	call = test_call(SYS_write, (uintptr_t)fds[1], (uintptr_t)sent, SIZE);
	handle = test_begin(NULL, &call);
	CHECK_IS(laio_flush(NULL), 0);
	CHECK_IS(read(fds[0], received, 1), 1);
	CHECK_IS(laio_cancel(NULL, handle), 0);
	completion = test_await(NULL, handle);
	CHECK(completion.laio_return_value >= 1 && completion.laio_return_value < SIZE);
	CHECK_IS(completion.laio_errno, 0);
	close(fds[1]);
	memset(received, 0, SIZE);
	received[0] = sent[0];
	for (seen = 1; (result = read(fds[0], received + seen, (size_t)(SIZE - seen))) > 0; seen += result)
		;
	CHECK_IS(result, 0);
	CHECK_IS(seen, completion.laio_return_value);
	CHECK(memcmp(sent, received, (size_t)seen) == 0);
	close(fds[0]);
}

/* Files: read beyond the end, written and read back; the position moves as with plain calls. */
static void files(void)
{
	struct laio_call call;
	int fd = test_file("", 0);

	/* The number may have belonged to a pipe, which a plain call closed. */
	CHECK_IS(laio_forget(NULL, fd), 0);
	fill();
	call = test_call(SYS_write, (uintptr_t)fd, (uintptr_t)sent, SIZE);
	CHECK_IS(test_finish(NULL, &call), SIZE);
	CHECK_IS(lseek(fd, 0, SEEK_CUR), SIZE);
	CHECK_IS(lseek(fd, 0, SEEK_SET), 0);
	call = test_call(SYS_read, (uintptr_t)fd, (uintptr_t)received, SIZE);
	CHECK_IS(test_finish(NULL, &call), SIZE);
	CHECK(memcmp(sent, received, SIZE) == 0);
	CHECK_IS(test_finish(NULL, &call), 0);
	call = test_call(SYS_pread64, (uintptr_t)fd, (uintptr_t)received, SIZE);
	call.args[3] = SIZE - 100;
	CHECK_IS(test_finish(NULL, &call), 100);
	CHECK(memcmp(sent + SIZE - 100, received, 100) == 0);
	call.args[3] = SIZE;
	CHECK_IS(test_finish(NULL, &call), 0);
	close(fd);
}

int main(void)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	int i;

	test_start();
	if (test_ring_stops_threads())
		test_skip("valgrind and a ring: the thread at the other end cannot run");
	signal(SIGPIPE, SIG_IGN);
	sent = (unsigned char *)malloc(SIZE);
	received = (unsigned char *)malloc(SIZE);
	CHECK(sent && received);
	for (i = 0; i < 2; i++) {
		/* The second time in steps of a few bytes, as after many interruptions. */
		options.short_transfer = i ? 1021 : 0;
		CHECK_IS(laio_init(&options), 0);
		write_all(0, SYS_write, 0);
		write_all(1, SYS_write, 0);
		write_all(1, SYS_sendto, 0);
		write_all(0, SYS_writev, 1);
		write_all(1, SYS_writev, 1);
		write_all(1, SYS_sendmsg, 1);
		read_some_or_all();
		broken();
		files();
		if (test_pends())
			cancelled();
		CHECK_IS(laio_finish(), 0);
	}
	free(sent);
	free(received);
	return 0;
}

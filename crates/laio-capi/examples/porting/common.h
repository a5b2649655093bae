/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * common.h - the common code of the servers: arguments, the listening socket, and the protocol.
 *
 * A client sends lines. The response to `GET path' is the length of the file, a newline, and the file, or
 * `ERR reason' and a newline. Any other line is echoed.
 */
#ifndef _GNU_SOURCE /* a C++ compiler defines it */
#define _GNU_SOURCE
#endif
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 64, LINE_SIZE = 4096, CHUNK_SIZE = 256 * 1024 };

static int listener, root;

/* The server can refuse a FIFO only after opening it; with O_NONBLOCK the open does not block. */
static struct open_how how = { O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, RESOLVE_BENEATH };

/* The lines of a client. */
struct lines {
	size_t read, used; /* bytes in text[], perhaps of several lines, and in the line being answered */
	char text[LINE_SIZE];
};

enum line { LINE_MISSING, LINE_TOO_LONG, LINE_ECHO, LINE_GET };

/* Removes the answered line, and finds the next one. path_of() returns the path of a GET. */
static inline enum line next_of(struct lines *lines)
{
	char *end;

	lines->read -= lines->used;
	memmove(lines->text, lines->text + lines->used, lines->read);
	lines->used = 0;
	end = (char *)memchr(lines->text, '\n', lines->read);
	if (!end)
		return lines->read == LINE_SIZE ? LINE_TOO_LONG : LINE_MISSING;
	lines->used = (size_t)(end + 1 - lines->text);
	if (lines->used < 5 || memcmp(lines->text, "GET ", 4) != 0)
		return LINE_ECHO;
	*end = '\0';
	return LINE_GET;
}

static inline const char *path_of(const struct lines *lines)
{
	return lines->text + 4;
}

/* Both write the first line of a response, and return its length. */
static inline size_t write_error(char *chunk, int error)
{
	return (size_t)sprintf(chunk, "ERR %s\n", strerror(error == EXDEV ? EACCES : error));
}

static inline size_t write_length(char *chunk, off_t size)
{
	return (size_t)sprintf(chunk, "%lld\n", (long long)size);
}

/* Prints why accept failed. The server then waits for a second to avoid spinning. */
static inline void complain_of_accept(int error)
{
	static time_t last;

	if (last != time(NULL))
		fprintf(stderr, "accept: %s\n", strerror(error));
	last = time(NULL);
}

/* Opens the listening socket and the directory to serve, or ends the program. */
static inline void begin(int argc, char **argv, int socket_flags, void (*stop)(int))
{
	static struct sockaddr_in address;
	static struct sigaction action;
	socklen_t length = sizeof(address);
	const int on = 1;

	if (argc != 3)
		errx(2, "usage: %s PORT DIRECTORY\nServes the files below DIRECTORY at 127.0.0.1:PORT, or at "
		     "any port for 0, until SIGINT or SIGTERM.", argv[0]);
	action.sa_handler = stop;
	action.sa_flags = (int)SA_RESETHAND;
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)atoi(argv[1]));
	root = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root == -1)
		err(1, "%s", argv[2]);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | socket_flags, 0);
	if (listener == -1 ||
	    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
	    bind(listener, (struct sockaddr *)&address, length) == -1 || listen(listener, SOMAXCONN) == -1 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) == -1)
		err(1, "port %s", argv[1]);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	printf("listening at 127.0.0.1:%d\n", ntohs(address.sin_port));
	fflush(stdout);
}

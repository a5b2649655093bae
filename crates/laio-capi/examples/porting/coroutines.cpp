/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * coroutines.cpp - the file server with laio.hpp: a coroutine for each client.
 *
 *     c++ -std=c++20 coroutines.cpp -o coroutines $(pkg-config --cflags --libs laio)
 */
#include "common.h"
#include <laio.hpp>

/* [connections] */
using laio::task;

static laio::context *context;
static volatile sig_atomic_t stopping;

struct client {
	laio::file_descriptor socket, file;
	struct lines lines;
	char chunk[CHUNK_SIZE];
};

/* [requests] */
/* A short send means a broken connection; the next send returns the error. */
static auto reply(client &client, const char *data, size_t length)
{
	return laio::send(client.socket, {data, length}).or_throw();
}

/* [file read] */
/* Reads into the rest of chunk[], and sends all of chunk[]. */
static task<> send_file(client &client, off_t size)
{
	size_t length = write_length(client.chunk, size);
	off_t offset = 0;

	if (size == 0)
		co_await reply(client, client.chunk, length);
	while (offset < size) {
		size_t space = std::min(CHUNK_SIZE - length, static_cast<size_t>(size - offset));
		size_t count = co_await laio::pread(client.file, {client.chunk + length, space}, offset).or_throw();
		if (count == 0)
			throw std::runtime_error("the file has shrunk");
		offset += static_cast<off_t>(count);
		co_await reply(client, client.chunk, length + count);
		length = 0;
	}
}

/* [name conversion] */
/* Opens the file; returns its size, or -errno. */
static task<off_t> open_file(client &client, const char *path)
{
	auto fd = co_await laio::call(SYS_openat2, root, path, &how, sizeof(how));
	if (!fd)
		co_return -fd.error().value();
	client.file = laio::file_descriptor(*fd);
	auto status = co_await laio::fstat(client.file).or_throw();
	co_return S_ISREG(status.st_mode) ? status.st_size : -EACCES;
}

/* [requests] */
static task<> get(client &client, const char *path)
{
	off_t size = co_await open_file(client, path);
	if (size < 0)
		co_await reply(client, client.chunk, write_error(client.chunk, static_cast<int>(-size)));
	else
		co_await send_file(client, size);
	client.file.reset();
}

static task<> serve_lines(client &client)
{
	struct lines *lines = &client.lines;

	for (;;) {
		switch (next_of(lines)) {
		case LINE_GET:
			co_await get(client, path_of(lines));
			break;
		case LINE_ECHO:
			co_await reply(client, lines->text, lines->used);
			break;
		case LINE_TOO_LONG:
			co_return;
		default:
			size_t count = co_await laio::read(client.socket, {lines->text + lines->read,
					LINE_SIZE - lines->read}).or_throw();
			if (count == 0)
				co_return;
			lines->read += count;
		}
	}
}

/* [connections] */
static task<> serve_clients()
{
	auto own = std::make_unique<client>();

	while (!stopping) {
		auto socket = co_await laio::accept(listener);
		if (socket) {
			own->socket = std::move(*socket);
			own->lines.read = own->lines.used = 0;
			try {
				co_await serve_lines(*own);
			} catch (const std::exception &) {
			}
			own->file.reset();
			own->socket.reset();
		} else if (socket.error() != std::errc::connection_aborted) {
			complain_of_accept(socket.error().value());
			co_await laio::sleep_for(std::chrono::seconds(1)).or_throw();
		}
	}
}

/* [event loop] */
static void stop(int number)
{
	stopping = number;
	context->wake();
}

int main(int argc, char **argv)
{
	laio::context loop;
	context = &loop;
	begin(argc, argv, 0, stop);
	for (int i = 0; i < CLIENTS; i++)
		loop.spawn(serve_clients());
	while (!stopping)
		loop.poll();
}

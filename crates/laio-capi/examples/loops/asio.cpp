/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * asio.cpp - laio in an Asio loop: copies files under a lock, for which Asio has no function.
 *
 *     c++ -std=c++20 asio.cpp -o asio $(pkg-config --cflags --libs laio) -pthread
 *
 * Each copy is a task of laio, which a coroutine of Asio awaits. A timer and Ctrl-C show that the loop keeps running
 * meanwhile; Ctrl-C cancels the copies.
 */
#include <laio/asio.hpp>

#include <chrono>
#include <cstdio>
#include <system_error>
#include <sys/file.h>

static int copies, failures; /* to be made or under way; without success */

static laio::task<unsigned long long> copy(const char *from, const char *to)
{
	auto source = co_await laio::open(from, O_RDONLY).or_throw();
	co_await laio::flock(source, LOCK_SH).or_throw();
	auto target = co_await laio::open(to, O_WRONLY | O_CREAT | O_TRUNC).or_throw();
	unsigned long long bytes = 0;
	while (auto count = co_await laio::sendfile(target, source, 8 << 20).or_throw())
		bytes += count;
	co_await laio::close(std::move(target)).or_throw(); // some file systems report ENOSPC only here
	co_return bytes;
}

static asio::awaitable<void> run(laio::asio_loop &loop, const char *from, const char *to, asio::steady_timer &timer,
				 asio::signal_set &interrupt)
{
	try {
		auto bytes = co_await laio::async_run(loop, copy(from, to), asio::use_awaitable);
		std::printf("%llu %s\n", bytes, to);
	} catch (const std::system_error &error) {
		std::fprintf(stderr, "%s to %s: %s\n", from, to, error.code().message().c_str());
		failures++;
	}
	if (--copies == 0) {
		timer.cancel();
		interrupt.cancel();
	}
}

static void tick(asio::steady_timer &timer)
{
	timer.expires_after(std::chrono::seconds(1));
	timer.async_wait([&timer](auto error) {
		if (error)
			return;
		std::fprintf(stderr, "asio: %d to go\n", copies);
		tick(timer);
	});
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc % 2 == 0) {
		std::fprintf(stderr, "usage: asio SOURCE TARGET [SOURCE TARGET]...\n");
		return 2;
	}
	asio::io_context io(1);
	laio::context context;
	laio::asio_loop loop(io, context);
	asio::steady_timer timer(io);
	asio::signal_set interrupt(io, SIGINT);
	asio::cancellation_signal stop[64];

	copies = argc / 2;
	tick(timer);
	interrupt.async_wait([&](auto error, int) {
		for (auto &each : stop)
			error ? void() : each.emit(asio::cancellation_type::terminal);
	});
	for (int i = 0; i < argc / 2; i++)
		asio::co_spawn(io, run(loop, argv[1 + 2 * i], argv[2 + 2 * i], timer, interrupt),
			       asio::bind_cancellation_slot(stop[i % 64].slot(), asio::detached));
	io.run();
	return failures ? 1 : 0;
}

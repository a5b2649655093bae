/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * echo.cpp - an echo server with coroutines: one task for each client, which loses it after a minute of silence.
 *
 *     c++ -std=c++20 echo.cpp -o echo $(pkg-config --cflags --libs laio)
 */
#include <laio.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <sys/signalfd.h>

using namespace std::chrono_literals;

static laio::task<> serve(laio::file_descriptor client)
{
	char buffer[4096];
	for (;;) {
		auto count = co_await laio::recv(client, buffer).timeout(60s);
		if (!count || *count == 0)
			co_return;
		if (!co_await laio::send(client, {buffer, *count}))
			co_return;
	}
}

static laio::task<> accept_all(int listener)
{
	laio::task_group clients(co_await laio::current_stop_token());
	while (auto client = co_await laio::accept(listener))
		clients.spawn(serve(std::move(*client)));
	clients.request_stop();
	co_await clients.join();
}

/* A handler must not touch a stop source; a task that reads signals may. */
static laio::task<> stop_at_signal(std::stop_source stop)
{
	sigset_t signals;
	signalfd_siginfo signal;
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, nullptr);
	laio::file_descriptor from(::signalfd(-1, &signals, SFD_CLOEXEC));
	co_await laio::read(from, {&signal, sizeof(signal)}).or_throw();
	stop.request_stop();
}

int main(int argc, char **argv)
{
	sockaddr_in address = {};
	socklen_t length = sizeof(address);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons(static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 0));
	laio::file_descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (::bind(listener.get(), reinterpret_cast<sockaddr *>(&address), length) == -1 ||
	    ::listen(listener.get(), SOMAXCONN) == -1 ||
	    ::getsockname(listener.get(), reinterpret_cast<sockaddr *>(&address), &length) == -1) {
		std::perror("echo");
		return 1;
	}
	laio::context context;
	std::stop_source stop;
	context.spawn(stop_at_signal(stop));
	std::printf("listening at 127.0.0.1:%d\n", ntohs(address.sin_port));
	std::fflush(stdout);
	context.run(accept_all(listener.get()), stop.get_token());
}

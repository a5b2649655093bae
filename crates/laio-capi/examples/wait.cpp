/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * wait.cpp - reads from standard input, and gives up after five seconds; another task counts them.
 *
 *     c++ -std=c++20 wait.cpp -o wait $(pkg-config --cflags --libs laio)
 */
#include <laio.hpp>

#include <iostream>

using namespace std::chrono_literals;

static laio::task<std::size_t> read_input()
{
	char text[256];
	co_return co_await laio::read(0, text).timeout(5s).or_throw();
}

static laio::task<> count_seconds()
{
	for (int seconds = 1;; seconds++) {
		co_await laio::sleep_for(1s).or_throw();
		std::cout << "waiting, " << seconds << " s" << std::endl;
	}
}

int main()
try {
	laio::context context;
	auto first = context.run(laio::when_any(read_input(), count_seconds()));
	std::cout << "read " << std::get<0>(first) << " bytes" << std::endl;
} catch (const std::system_error &error) {
	std::cerr << "cannot read: " << error.code().message() << std::endl;
	return 1;
}

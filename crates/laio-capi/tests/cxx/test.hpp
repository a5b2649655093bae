/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * test.hpp - helpers of the tests of laio.hpp, over those of the C API.
 */
#ifndef LAIO_TEST_HPP
#define LAIO_TEST_HPP

#include <laio.hpp>

#include "../c/test.h"

#include <array>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using laio::task;

/* Far longer than any wait of these tests lasts; none waits until it has passed. */
constexpr auto long_time = 1h;

/* A pipe; its reading end blocks until something is written. */
struct test_pipe_ends {
	laio::file_descriptor from, to;

	test_pipe_ends()
	{
		int ends[2];
		test_pipe(ends);
		from = laio::file_descriptor(ends[0]);
		to = laio::file_descriptor(ends[1]);
	}

	void put(std::string_view text) { CHECK_IS(::write(to.get(), text.data(), text.size()), text.size()); }
};

inline task<laio::result<std::size_t>> read_one(int fd)
{
	char byte;
	co_return co_await laio::read(fd, {&byte, 1});
}

template <class R>
void check_error(const R &result, int error)
{
	CHECK(!result.has_value());
	CHECK_IS(result.error().value(), error);
}

#endif

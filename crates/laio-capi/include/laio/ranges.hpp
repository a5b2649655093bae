/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * ranges.hpp - ranges of a file, read by one operation, past the page cache if wanted.
 */
#ifndef LAIO_RANGES_HPP
#define LAIO_RANGES_HPP

#include <cstdint>
#include <span>

#include "buffer.hpp"
#include "operation.hpp"

LAIO_BEGIN

/* A range of a file, the memory for its bytes, and its result. */
struct range : laio_range {
	range(std::uint64_t offset, laio::buffer to) noexcept : laio_range{offset, to.data(), to.size(), 0, 0, 0} {}

	/* The number of bytes that were read. It is for a range whose operation is over. */
	result<std::size_t> read() const noexcept
	{
		if (laio_return_value == -1)
			return failure(laio_errno);
		return static_cast<std::size_t>(laio_return_value);
	}
};

static_assert(sizeof(range) == sizeof(laio_range), "an array of ranges is one of laio_range");

/* Whether reads bypass the page cache: see laio.h. */
enum class direct : std::uint32_t {
	never = 0,
	automatic = LAIO_DIRECT_AUTO,
	always = LAIO_DIRECT_ALWAYS,
};

struct range_options {
	laio_range_stats *stats = nullptr; /* where the statistics go */
	std::uint32_t depth = 0;           /* the number of reads in flight at a time; 0: 64 */
};

namespace detail {

struct ranges_form {
	using value_type = std::size_t;

	int file;
	std::span<range> ranges;
	direct how;
	range_options options;

	void prepare(laio_ranges &request) const noexcept
	{
		request.flags = static_cast<std::uint32_t>(how);
		request.fd = file;
		request.depth = options.depth;
		request.ranges = ranges.data();
		request.count = ranges.size();
		request.stats = options.stats;
		if (options.stats)
			*options.stats = LAIO_RANGE_STATS_INIT;
	}

	std::size_t finish(long value) const noexcept { return static_cast<std::size_t>(value); }
};

}

/* Reads ranges of a file, in any order, each as pread() would, and returns the number of bytes of all. If a range has
   an error, the first one is the result, and the other ranges are read all the same. The ranges, their memory and the
   statistics must live until the co_await is over. */
inline auto read_ranges(descriptor file, std::span<range> ranges, direct how = direct::never,
			range_options options = {}) noexcept
{
	return operation(detail::ranges_form{file.get(), ranges, how, options});
}

LAIO_END

#endif

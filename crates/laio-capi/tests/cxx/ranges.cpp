/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * laio::read_ranges(): bytes, results and errors are those of pread(), and a request in flight is one operation.
 */
#include "test.hpp"

static constexpr std::size_t file_size = 700'001;
static constexpr std::size_t pieces = 24, piece = 3000;

static char byte_at(std::size_t offset)
{
	return static_cast<char>(offset * 7 + offset / 251 + offset / 65536);
}

static laio::file_descriptor make_file()
{
	std::string bytes(file_size, 0);
	for (std::size_t i = 0; i < file_size; i++)
		bytes[i] = byte_at(i);
	return laio::file_descriptor(test_file(bytes.data(), bytes.size()));
}

/* The whole range was read, as far as the file goes. */
static void check_range(const laio::range &range)
{
	std::size_t there = range.offset < file_size ? file_size - range.offset : 0;
	std::size_t expected = range.length < there ? range.length : there;
	CHECK_IS(range.read().value(), expected);
	for (std::size_t i = 0; i < expected; i++)
		CHECK_IS(static_cast<const char *>(range.buffer)[i], byte_at(range.offset + i));
}

/* Ranges far from each other, with their memory. */
struct far_ranges {
	std::vector<char> memory = std::vector<char>(pieces * piece);
	std::vector<laio::range> ranges;

	far_ranges()
	{
		for (std::size_t i = 0; i < pieces; i++)
			ranges.emplace_back(i * 29'000, laio::buffer(&memory[i * piece], piece));
	}
};

static task<> bytes_and_statistics(int fd, laio::direct how)
{
	std::array<char, 5> footer;
	std::vector<char> column(200'000);
	std::vector<std::uint32_t> numbers(100);
	laio::range ranges[] = {
		{file_size - 3, footer}, {1, column}, {4096, numbers}, {file_size + 10, footer}, {7, {nullptr, 0}},
	};
	laio_range_stats stats;
	for (std::uint32_t depth : {0u, 1u, 200u}) {
		auto count = co_await laio::read_ranges(fd, ranges, how, {.stats = &stats, .depth = depth}).or_throw();
		CHECK_IS(count, 3 + 200'000 + 400);
		for (const auto &range : ranges)
			if (range.offset != file_size + 10)
				check_range(range);
		CHECK_IS(ranges[3].read().value(), 0);
		CHECK(std::string_view(stats.reason).find("direct") != std::string_view::npos);
		CHECK(stats.reads > 0 && stats.direct_reads + stats.cached_reads >= stats.reads);
		CHECK(how == laio::direct::always || stats.direct_reads == 0);
	}
	CHECK_IS(co_await laio::read_ranges(fd, {}, how).or_throw(), 0);
}

static task<> errors(int fd)
{
	std::array<char, 10> one, two;
	/* The second one is beyond the largest offset of a file. */
	std::array<laio::range, 2> ranges = {laio::range(5, one), laio::range(std::uint64_t(1) << 63, two)};
	check_error(co_await laio::read_ranges(fd, ranges), EINVAL);
	check_range(ranges[0]);
	check_error(ranges[1].read(), EINVAL);

	check_error(co_await laio::read_ranges(-1, ranges), EBADF);
	laio::range unknown(UINT64_MAX, one);
	check_error(co_await laio::read_ranges(fd, {&unknown, 1}), EINVAL);
	try {
		co_await laio::read_ranges(9999, ranges).or_throw();
		CHECK(false);
	} catch (const std::system_error &error) {
		CHECK_IS(error.code().value(), EBADF);
	}
}

/* ---- In flight ---- */

static task<laio::result<std::size_t>> read_far(int fd, far_ranges &far)
{
	co_return co_await laio::read_ranges(fd, far.ranges, laio::direct::always, {.depth = 4});
}

/* All bytes, or the error; then each range has its bytes, or the error. */
static void all_or_error(const laio::result<std::size_t> &result, const far_ranges &far, int error)
{
	if (result)
		CHECK_IS(*result, pieces * piece);
	else
		check_error(result, error);
	for (const auto &range : far.ranges) {
		if (range.read())
			check_range(range);
		else
			check_error(range.read(), error);
	}
}

static void stopped(laio::context &context, int fd)
{
	far_ranges far;
	std::stop_source source;
	context.spawn([](std::stop_source source) -> task<> {
		co_await laio::sleep_for(1us).or_throw();
		source.request_stop();
	}(source));
	all_or_error(context.run(read_far(fd, far), source.get_token()), far, ECANCELED);

	std::stop_source before;
	before.request_stop();
	all_or_error(context.run(read_far(fd, far), before.get_token()), far, ECANCELED);

	using time = std::chrono::nanoseconds;
	auto with_timeout = [](int fd, far_ranges &far, time limit) -> task<laio::result<std::size_t>> {
		co_return co_await laio::read_ranges(fd, far.ranges, laio::direct::always).timeout(limit);
	};
	all_or_error(context.run(with_timeout(fd, far, 0ns)), far, ETIME);
	CHECK_IS(context.run(with_timeout(fd, far, long_time)).value(), pieces * piece);
	while (!context.is_idle()) /* the task that stops the first read */
		context.poll();
}

static void beside_others(laio::context &context, int fd)
{
	test_pipe_ends ends;
	far_ranges one, two;
	auto [first, read, second, put] = context.run(
		laio::when_all(read_far(fd, one), read_one(ends.from.get()), read_far(fd, two),
			       laio::write(ends.to, std::string_view("x"))));
	CHECK_IS(first.value(), pieces * piece);
	CHECK_IS(second.value(), pieces * piece);
	CHECK_IS(read.value(), 1);
	CHECK_IS(put.value(), 1);
	for (std::size_t i = 0; i < pieces; i++) {
		check_range(one.ranges[i]);
		check_range(two.ranges[i]);
	}
}

/* The memory is in the coroutine. Its end, and that of the context, wait until nothing writes to it. */
static void destroyed(int fd)
{
	auto body = [](int fd) -> task<> {
		far_ranges far;
		co_await laio::read_ranges(fd, far.ranges, laio::direct::always);
	};
	laio_options options = laio::context::default_options();
	options.flags |= LAIO_INJECT_BACKGROUND;
	for (int i = 0; i < 20; i++) {
		laio::context context(options);
		{
			laio::task_group group;
			group.spawn(body(fd));
			CHECK(!context.is_idle());
		}
		CHECK(context.is_idle());
		context.spawn(body(fd));
		context.poll(0ns);
	}
}

int main()
{
	test_start();
	auto file = make_file();
	{
		laio::context context;
		for (auto how : {laio::direct::never, laio::direct::automatic, laio::direct::always})
			context.run(bytes_and_statistics(file.get(), how));
		context.run(errors(file.get()));
		CHECK(context.is_idle());
	}
	if (!test_pends())
		return 0;
	laio_options options = laio::context::default_options();
	options.flags |= LAIO_INJECT_BACKGROUND;
	{
		laio::context context(options);
		for (int i = 0; i < 20; i++) {
			stopped(context, file.get());
			beside_others(context, file.get());
		}
	}
	destroyed(file.get());
	return 0;
}

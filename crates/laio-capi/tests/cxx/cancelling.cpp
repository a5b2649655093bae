/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Stop tokens, time-outs, when_all, when_any and task groups: what is cancelled, and what wins a race.
 */
#include "test.hpp"

/* ---- Stop tokens ---- */

static void stop_before_and_during(laio::context &context)
{
	test_pipe_ends ends;
	std::stop_source source;

	source.request_stop();
	check_error(context.run(read_one(ends.from.get()), source.get_token()), ECANCELED);
	/* A call that does not block is not affected, where such calls end inline. */
	ends.put("xy");
	bool ends_inline = !test_backend_is("threads") && !test_backend_is("uring");
	CHECK_IS(context.run(read_one(ends.from.get()), ends_inline ? source.get_token() : std::stop_token()).value(), 1);

	/* By another task of the thread. */
	std::stop_source second;
	context.spawn([](std::stop_source source) -> task<> {
		co_await laio::sleep_for(1ms).or_throw();
		source.request_stop();
	}(second));
	CHECK_IS(context.run(read_one(ends.from.get())).value(), 1);
	check_error(context.run(read_one(ends.from.get()), second.get_token()), ECANCELED);

	/* A shielded call goes on. */
	std::stop_source third;
	third.request_stop();
	CHECK(context.run([]() -> task<bool> {
		auto slept = co_await laio::sleep_for(5ms).shielded();
		co_return slept.has_value() && (co_await laio::shield(laio::sleep_for(1ms))).has_value();
	}(), third.get_token()));
}

static void stop_from_another_thread(laio::context &context)
{
	for (int i = 0; i < 200; i++) {
		test_pipe_ends ends;
		std::stop_source source;
		std::thread other([&] {
			if (i % 3 == 0)
				std::this_thread::sleep_for(std::chrono::microseconds(i));
			source.request_stop();
		});
		check_error(context.run(read_one(ends.from.get()), source.get_token()), ECANCELED);
		other.join();
	}
}

static void stop_that_races_with_the_result(laio::context &context)
{
	int values = 0, cancelled = 0;
	for (int i = 0; i < 500; i++) {
		test_pipe_ends ends;
		std::stop_source source;
		std::thread writer([&] { ends.put("x"); });
		std::thread stopper([&] { source.request_stop(); });
		auto result = context.run(read_one(ends.from.get()), source.get_token());
		writer.join();
		stopper.join();
		/* Either it has read the byte, or the byte is still there. */
		pollfd ready = {ends.from.get(), POLLIN, 0};
		CHECK_IS(::poll(&ready, 1, 0), result ? 0 : 1);
		result ? values++ : cancelled++;
		if (!result)
			CHECK_IS(result.error().value(), ECANCELED);
	}
	CHECK_IS(values + cancelled, 500);
}

/* ---- Time-outs ---- */

static void timeouts(laio::context &context)
{
	test_pipe_ends ends;
	int fd = ends.from.get();
	auto of_call = [](int fd, std::chrono::nanoseconds time) -> task<laio::result<std::size_t>> {
		char byte;
		co_return co_await laio::read(fd, {&byte, 1}).timeout(time);
	};
	auto of_exception = [](int fd) -> task<int> {
		try {
			char byte;
			co_await laio::with_timeout(5ms, laio::read(fd, {&byte, 1}).or_throw());
		} catch (const std::system_error &error) {
			co_return error.code().value();
		}
		co_return 0;
	};
	check_error(context.run(of_call(fd, 5ms)), ETIME);
	check_error(context.run(laio::with_timeout(5ms, read_one(fd))), ETIME);
	CHECK_IS(context.run(of_exception(fd)), ETIME);
	/* Stopped from outside, it is a stop and not a time-out. */
	std::stop_source source;
	source.request_stop();
	check_error(context.run(laio::with_timeout(long_time, read_one(fd)), source.get_token()), ECANCELED);
	ends.put("xy");
	CHECK_IS(context.run(laio::with_timeout(long_time, read_one(fd))).value(), 1);
	CHECK_IS(context.run(of_call(fd, long_time)).value(), 1);
	CHECK(context.is_idle());
}

static void timeout_that_races_with_the_result(laio::context &context)
{
	for (int i = 0; i < 300; i++) {
		test_pipe_ends ends;
		std::thread writer([&] {
			std::this_thread::sleep_for(std::chrono::microseconds(i));
			ends.put("x");
		});
		auto result = context.run(laio::with_timeout(std::chrono::microseconds(100), read_one(ends.from.get())));
		writer.join();
		pollfd ready = {ends.from.get(), POLLIN, 0};
		CHECK_IS(::poll(&ready, 1, 0), result ? 0 : 1);
		if (!result)
			CHECK_IS(result.error().value(), ETIME);
		CHECK(context.is_idle());
	}
}

/* ---- Several at once ---- */

static task<int> fail_after(int fd, int value)
{
	co_await laio::read(fd, *std::make_unique<std::array<char, 8>>()).or_throw();
	if (value < 0)
		throw std::runtime_error("failed");
	co_return value;
}

static void all(laio::context &context)
{
	test_pipe_ends one, two;
	one.put("12345678");
	two.put("12345678");
	auto [a, b, slept] = context.run(laio::when_all(fail_after(one.from.get(), 1), fail_after(two.from.get(), 2),
							laio::sleep_for(1ms)));
	CHECK_IS(a, 1);
	CHECK_IS(b, 2);
	CHECK(slept.has_value());

	/* An exception cancels the others, and all have ended when it arrives. */
	for (int order = 0; order < 2; order++) {
		one.put("12345678");
		int failing = order == 0 ? -1 : 1;
		try {
			context.run(laio::when_all(fail_after((order == 0 ? one : two).from.get(), failing),
						   fail_after((order == 0 ? two : one).from.get(), -failing)));
			CHECK(false);
		} catch (const std::runtime_error &error) {
			CHECK(std::string_view(error.what()) == "failed");
		}
		CHECK(context.is_idle());
	}

	/* A stop reaches all of them. */
	std::stop_source source;
	context.spawn([](std::stop_source source) -> task<> {
		co_await laio::sleep_for(1ms).or_throw();
		source.request_stop();
	}(source));
	auto [c, d] = context.run(laio::when_all(read_one(one.from.get()), read_one(two.from.get())),
				  source.get_token());
	check_error(c, ECANCELED);
	check_error(d, ECANCELED);

	std::vector<task<int>> many;
	for (int i = 0; i < 100; i++)
		many.push_back([](int i) -> task<int> {
			co_await laio::sleep_for(std::chrono::milliseconds(i % 7)).or_throw();
			co_return i;
		}(i));
	auto values = context.run(laio::when_all(std::move(many)));
	for (int i = 0; i < 100; i++)
		CHECK_IS(values[static_cast<std::size_t>(i)], i);
	CHECK_IS(context.run(laio::when_all(std::vector<task<int>>())).size(), 0);
}

/* A task that is destroyed while when_all is under way. */
static void all_destroyed(laio::context &context)
{
	test_pipe_ends one, two;
	{
		laio::task_group group;
		group.spawn([](int one, int two) -> task<> {
			co_await laio::when_all(read_one(one), laio::with_timeout(long_time, read_one(two)));
		}(one.from.get(), two.from.get()));
		CHECK(!context.is_idle());
	}
	CHECK(context.is_idle());
}

static void any(laio::context &context)
{
	test_pipe_ends ends;
	auto first = context.run(laio::when_any(read_one(ends.from.get()), laio::sleep_for(1ms)));
	CHECK_IS(first.index(), 1);
	ends.put("x");
	auto second = context.run(laio::when_any(laio::sleep_for(long_time), read_one(ends.from.get())));
	CHECK_IS(second.index(), 1);
	CHECK_IS(std::get<1>(second).value(), 1);
	ends.put("12345678");
	try {
		context.run(laio::when_any(laio::sleep_for(long_time), fail_after(ends.from.get(), -1)));
		CHECK(false);
	} catch (const std::runtime_error &) {
	}
	CHECK(context.is_idle());
}

static task<laio::result<std::size_t>> read_byte(int fd, char *byte)
{
	co_return co_await laio::read(fd, {byte, 1});
}

static task<laio::result<std::size_t>> read_byte_within(int fd, char *byte, std::chrono::milliseconds time)
{
	co_return co_await laio::read(fd, {byte, 1}).timeout(time);
}

/* Stops, time-outs and races while bytes arrive: each byte is read once, in order. */
static void races_lose_nothing(laio::context &context)
{
	test_pipe_ends ends;
	char next = 0, byte = 0;
	auto put = [](test_pipe_ends &ends, char byte) -> task<> {
		ends.put({&byte, 1});
		co_return;
	};
	auto put_later = [](test_pipe_ends &ends, char byte) -> task<> {
		co_await laio::sleep_for(1ms).or_throw();
		ends.put({&byte, 1});
	};
	for (int round = 0; round < 150; round++, next++) {
		bool read = false;
		std::stop_source source;
		switch (round % 5) {
		case 0: /* The byte arrives, and the read is asked to stop at once. */
			read = std::get<0>(context.run(laio::when_first(read_byte(ends.from.get(), &byte), put(ends, next))))
				       .has_value();
			break;
		case 1: /* The byte is there first. */
			read = std::get<1>(context.run(laio::when_first(put(ends, next), read_byte(ends.from.get(), &byte))))
				       .has_value();
			break;
		case 2: /* The completion may wait in the context when the stop comes. */
			context.spawn([](test_pipe_ends &ends, char byte, std::stop_source source) -> task<> {
				co_await laio::sleep_for(1ms).or_throw();
				ends.put({&byte, 1});
				source.request_stop();
			}(ends, next, source));
			read = context.run(read_byte(ends.from.get(), &byte), source.get_token()).has_value();
			break;
		case 3:
			/* Not beside the read: a task that is stopped would write no byte. */
			context.spawn(put_later(ends, next));
			read = context.run(laio::with_timeout(1ms, read_byte(ends.from.get(), &byte))).has_value();
			break;
		default:
			context.spawn(put_later(ends, next));
			read = context.run(read_byte_within(ends.from.get(), &byte, 1ms)).has_value();
		}
		if (!read)
			CHECK_IS(context.run(read_byte(ends.from.get(), &byte)).value(), 1);
		CHECK_IS(byte, next);
	}
}

static void groups(laio::context &context)
{
	int ended = 0;
	context.run([](int &ended) -> task<> {
		laio::task_group group(co_await laio::current_stop_token());
		for (int i = 0; i < 50; i++)
			group.spawn([](int i, int &ended) -> task<> {
				co_await laio::sleep_for(std::chrono::milliseconds(i % 5)).or_throw();
				ended++;
			}(i, ended));
		co_await group.join();
	}(ended));
	CHECK_IS(ended, 50);

	test_pipe_ends ends;
	ends.put("12345678");
	try {
		context.run([](int fd) -> task<> {
			laio::task_group group;
			group.spawn([]() -> task<> { co_await laio::sleep_for(long_time).or_throw(); }());
			group.spawn([](int fd) -> task<> { co_await fail_after(fd, -1); }(fd));
			co_await group.join();
		}(ends.from.get()));
		CHECK(false);
	} catch (const std::runtime_error &error) {
		CHECK(std::string_view(error.what()) == "failed");
	}

	std::stop_source source;
	source.request_stop();
	try {
		context.run([]() -> task<> {
			laio::task_group group(co_await laio::current_stop_token());
			group.spawn([]() -> task<> { co_await laio::sleep_for(long_time).or_throw(); }());
			co_await group.join();
		}(), source.get_token());
		CHECK(false);
	} catch (const std::system_error &error) {
		CHECK_IS(error.code().value(), ECANCELED);
	}
	CHECK(context.is_idle());
}

int main()
{
	test_start_pending();
	laio::context context;
	stop_before_and_during(context);
	stop_from_another_thread(context);
	stop_that_races_with_the_result(context);
	timeouts(context);
	timeout_that_races_with_the_result(context);
	all(context);
	all_destroyed(context);
	any(context);
	races_lose_nothing(context);
	groups(context);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tasks in an io_context: values, exceptions and cancellations reach the completion token, and the loop ends by itself.
 */
#include <laio/asio.hpp>

#include "test.hpp"

#include <memory>
#include <string>

static task<int> value_after(int fd)
{
	CHECK_IS((co_await read_one(fd)).value(), 1);
	co_return 7;
}

static task<> fail_after(int fd)
{
	CHECK_IS((co_await read_one(fd)).value(), 1);
	throw std::runtime_error("thrown");
}

static task<std::string> never(int fd)
{
	(void)(co_await laio::read(fd, *std::make_unique<std::array<char, 1>>()).or_throw());
	co_return "";
}

static int code_of(std::exception_ptr failure)
{
	try {
		std::rethrow_exception(failure);
	} catch (const std::system_error &error) {
		return error.code().value();
	}
}

static void values_and_exceptions(asio::io_context &io, laio::asio_loop &loop)
{
	test_pipe_ends one, two;
	int value = 0;
	std::string thrown;
	laio::async_run(loop, value_after(one.from.get()), [&](std::exception_ptr failure, int got) {
		CHECK(!failure);
		value = got;
		two.put("x"); /* the other goes on because of this one */
	});
	laio::async_run(loop, fail_after(two.from.get()), [&](std::exception_ptr failure) {
		try {
			std::rethrow_exception(failure);
		} catch (const std::runtime_error &error) {
			thrown = error.what();
		}
	});
	asio::steady_timer timer(io, 1ms);
	timer.async_wait([&](auto) { one.put("x"); });
	io.run(); /* returns, because nothing is in flight any more */
	io.restart();
	CHECK_IS(value, 7);
	CHECK(thrown == "thrown");
	CHECK(loop.context().is_idle());

	/* Done before it waits: the handler runs in the loop, not in async_run(). */
	bool called = false;
	one.put("x");
	laio::async_run(loop, value_after(one.from.get()), [&](std::exception_ptr, int) { called = true; });
	CHECK(!called);
	io.run();
	io.restart();
	CHECK(called);
}

static void cancellations(asio::io_context &io, laio::asio_loop &loop)
{
	test_pipe_ends ends;
	asio::cancellation_signal signal;
	int code = 0;
	laio::async_run(loop, never(ends.from.get()),
			asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr failure, std::string) {
				code = code_of(failure);
			}));
	asio::post(io, [&] { signal.emit(asio::cancellation_type::terminal); });
	io.run();
	io.restart();
	CHECK_IS(code, ECANCELED);

	/* By a stop token of another thread, while the loop sleeps. */
	std::stop_source source;
	code = 0;
	laio::async_run(loop, laio::with_stop_token(never(ends.from.get()), source.get_token()),
			[&](std::exception_ptr failure, std::string) { code = code_of(failure); });
	std::thread other([&] { source.request_stop(); });
	io.run();
	io.restart();
	other.join();
	CHECK_IS(code, ECANCELED);
}

#if defined(ASIO_HAS_CO_AWAIT)
static void coroutines_of_asio(asio::io_context &io, laio::asio_loop &loop)
{
	test_pipe_ends ends;
	int rounds = 0;
	asio::co_spawn(
		io,
		[&]() -> asio::awaitable<void> {
			asio::steady_timer timer(io);
			for (int i = 0; i < 50; i++) {
				timer.expires_after(std::chrono::microseconds(100));
				co_await timer.async_wait(asio::use_awaitable);
				ends.put("x");
				auto run = laio::async_run(loop, value_after(ends.from.get()), asio::use_awaitable);
				CHECK_IS(co_await std::move(run), 7);
				rounds++;
			}
		},
		asio::detached);
	io.run();
	io.restart();
	CHECK_IS(rounds, 50);
}
#endif

/* The loop ends while a task is in flight; then the context destroys the task. */
static void early_end()
{
	test_pipe_ends ends;
	asio::io_context io(1);
	laio::context context;
	{
		laio::asio_loop loop(io, context);
		laio::async_run(loop, never(ends.from.get()), [](std::exception_ptr, std::string) { CHECK(false); });
		io.poll();
	}
	io.poll();
}

int main()
{
	test_start_pending();
	{
		asio::io_context io(1);
		laio::context context;
		laio::asio_loop loop(io, context);
		values_and_exceptions(io, loop);
		cancellations(io, loop);
#if defined(ASIO_HAS_CO_AWAIT)
		coroutines_of_asio(io, loop);
#endif
	}
	early_end();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Contexts in several threads, several in one thread, after fork(2), in a loop of its own, and in other coroutines.
 */
#include "test.hpp"

#include <atomic>

/* A stranger's coroutine, which knows nothing of laio and starts at once. */
struct stranger {
	struct promise_type {
		stranger get_return_object() noexcept { return {}; }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() noexcept {}
		void unhandled_exception() noexcept { std::terminate(); }
	};
};

static stranger read_as_stranger(int fd, long &got)
{
	char byte;
	auto result = co_await laio::read(fd, {&byte, 1});
	got = result ? static_cast<long>(*result) : -1;
}

static void other_coroutines()
{
	laio::context context;
	test_pipe_ends ends;
	long got = 0;
	read_as_stranger(ends.from.get(), got);
	CHECK_IS(got, 0);
	ends.put("x");
	while (!context.is_idle())
		context.poll();
	CHECK_IS(got, 1);
}

static void threads()
{
	std::atomic<int> done = 0;
	std::vector<std::thread> all;
	for (int i = 0; i < 4; i++)
		all.emplace_back([&done] {
			laio::context context;
			for (int n = 0; n < 50; n++) {
				test_pipe_ends ends;
				auto [read, written] = context.run(laio::when_all(
					read_one(ends.from.get()), laio::write(ends.to, std::string_view("x"))));
				CHECK_IS(read.value(), 1);
				CHECK_IS(written.value(), 1);
			}
			done++;
		});
	for (auto &each : all)
		each.join();
	CHECK_IS(done, 4);
}

static void several_in_one_thread()
{
	laio::context first, second;
	test_pipe_ends ends;
	CHECK(&laio::context::current() == &first);
	long got = 0;
	read_as_stranger(ends.from.get(), got);
	CHECK(second.is_idle() && !first.is_idle());
	CHECK(second.run([](laio::context &expected) -> task<bool> {
		co_await laio::sleep_for(1ms).or_throw();
		co_return &laio::context::current() == &expected;
	}(second)));
	CHECK(&laio::context::current() == &first);
	CHECK_IS(got, 0);
	ends.put("x");
	while (!first.is_idle())
		first.poll();
	CHECK_IS(got, 1);
}

/* The descriptor is readable when there is something to deliver, and on_busy says when to watch it. */
static void loop_of_its_own()
{
	laio::context context;
	test_pipe_ends ends;
	int busy = 0;
	long got = 0;
	int fd = context.fd();
	context.on_busy([](void *busy) { ++*static_cast<int *>(busy); }, &busy);
	read_as_stranger(ends.from.get(), got);
	CHECK_IS(busy, 1);
	CHECK(!context.poll(0ns));
	ends.put("x");
	while (!context.is_idle()) {
		pollfd ready = {fd, POLLIN, 0};
		::poll(&ready, 1, -1);
		context.poll(0ns);
	}
	CHECK_IS(got, 1);
	CHECK_IS(busy, 1);
}

/* The operations are the parent's: a child can destroy the tasks, and make operations of its own. */
static void forks()
{
	laio::context context;
	test_pipe_ends ends;
	bool in_child = false;
	auto group = std::make_unique<laio::task_group>();
	group->spawn([](int fd) -> task<> { (void)(co_await read_one(fd)); }(ends.from.get()));
	struct state {
		laio::context &context;
		std::unique_ptr<laio::task_group> &group;
		bool &in_child;
	} now{context, group, in_child};
	pid_t child = test_fork(
		[](void *argument) {
			auto &now = *static_cast<state *>(argument);
			now.in_child = true;
			test_pipe_ends own;
			own.put("x");
			CHECK_IS(now.context.run(read_one(own.from.get())).value(), 1);
			now.context.run([]() -> task<> { co_await laio::sleep_for(1ms).or_throw(); }());
			/* What waits for the parent's operation would wait for ever. */
			try {
				now.context.run([](auto &group) -> task<> { co_await group->join(); }(now.group));
				CHECK(false);
			} catch (const std::system_error &error) {
				CHECK_IS(error.code().value(), EDEADLK);
			}
			now.group.reset();
			_exit(0);
		},
		&now);
	test_reap(child);
	CHECK(!in_child);
	ends.put("x");
	while (!context.is_idle())
		context.poll();
	CHECK(group->is_empty());
}

static void wakes()
{
	laio::context context;
	std::thread other([&] { context.wake(); });
	CHECK(!context.poll(long_time));
	other.join();
}

int main()
{
	test_start_pending();
	other_coroutines();
	threads();
	several_in_one_thread();
	loop_of_its_own();
	forks();
	wakes();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tasks: values, exceptions, destruction at any point, long loops and deep recursion on a small stack.
 */
#include "test.hpp"

#include <sys/resource.h>

static task<int> number(int value)
{
	co_return value;
}

static task<std::unique_ptr<int>> movable()
{
	co_return std::make_unique<int>(5);
}

static task<int> thrower(int fd)
{
	if (fd >= 0)
		co_await laio::poll(fd, POLLIN).or_throw();
	throw std::runtime_error("thrown");
	co_return 0;
}

static task<> values(laio::context &context)
{
	CHECK_IS(co_await number(3), 3);
	CHECK_IS(*co_await movable(), 5);
	task<int> later = number(4);
	task<int> moved = std::move(later);
	moved = number(5);
	CHECK_IS(co_await std::move(moved), 5);

	test_pipe_ends ends;
	ends.put("x");
	for (int fd : {-1, ends.from.get()}) {
		try {
			co_await thrower(fd);
			CHECK(false);
		} catch (const std::runtime_error &error) {
			CHECK(std::string_view(error.what()) == "thrown");
		}
	}
	CHECK(&laio::context::current() == &context);
	CHECK(!(co_await laio::current_stop_token()).stop_possible());
}

/* ---- The stack ---- */

static task<std::size_t> read_at(int fd, off_t offset)
{
	char byte;
	co_return co_await laio::pread(fd, {&byte, 1}, offset).or_throw();
}

static task<> loop(int fd, long count)
{
	char byte;
	for (long i = 0; i < count; i++) {
		CHECK_IS(co_await read_at(fd, i % 10), 1);
		CHECK_IS(co_await laio::pread(fd, {&byte, 1}, 0).or_throw(), 1);
	}
}

static task<> exchange(int from, int to, long count)
{
	for (long i = 0; i < count; i++) {
		char byte = 'x';
		co_await laio::write(to, {&byte, 1}).or_throw();
		CHECK_IS((co_await read_one(from)).value(), 1);
	}
}

static task<long> deep(int fd, long depth)
{
	if (depth > 0)
		co_return 1 + co_await deep(fd, depth - 1);
	if (fd >= 0)
		co_await laio::poll(fd, POLLIN).or_throw();
	co_return 0;
}

static void stack(laio::context &context)
{
	constexpr long many = 100000;
	int file = test_file("0123456789", 10);
	context.run(loop(file, many));
	close(file);

	test_pipe_ends ends;
	CHECK_IS(context.run(deep(-1, many)), many);
	ends.put("x");
	CHECK_IS(context.run(deep(ends.from.get(), many)), many);
	if (test_is_sync())
		return;

	/* Two tasks that resume each other through pipes. */
	test_pipe_ends one, other;
	context.run([](auto &one, auto &other) -> task<> {
		co_await laio::when_all(exchange(one.from.get(), other.to.get(), 3000),
					exchange(other.from.get(), one.to.get(), 3000));
	}(one, other));
}

/* ---- Destruction ---- */

struct counted {
	int *count;
	explicit counted(int &now) : count(&now) { ++*count; }
	counted(const counted &) = delete;
	~counted() { --*count; }
};

static task<> holder(int fd, int &count, bool &went_on)
{
	counted here(count);
	std::vector<char> buffer(1000, 'b');
	co_await laio::read(fd, buffer).or_throw();
	went_on = true;
}

static task<> outer(int fd, int &count, bool &went_on)
{
	counted here(count);
	co_await holder(fd, count, went_on);
}

/* A task that is destroyed in flight lets go of its buffer first, and takes nothing from the pipe. */
static void destruction()
{
	int count = 0;
	bool went_on = false;
	test_pipe_ends ends, others;
	{
		laio::context context;
		context.spawn(outer(ends.from.get(), count, went_on));
		CHECK_IS(count, 2);
		CHECK(!context.is_idle());
		context.spawn([](int fd, laio::context &) -> task<> {
			/* Ends inside the destructor of the other. */
			char byte;
			co_await laio::read(fd, {&byte, 1}).or_throw();
		}(others.from.get(), context));
		others.put("x");
	}
	CHECK_IS(count, 0);
	CHECK(!went_on);
	ends.put("kept");
	char text[10];
	CHECK_IS(::read(ends.from.get(), text, sizeof(text)), 4);

	/* Never started, and ended. */
	int still = 0;
	{
		laio::context context;
		auto never = outer(ends.from.get(), still, went_on);
		ends.put("x");
		context.run(outer(ends.from.get(), still, went_on));
		CHECK(went_on);
	}
	CHECK_IS(still, 0);
}

/* One task destroys another whose operation has finished already, and which must not be resumed. */
static void destruction_when_finished(laio::context &context)
{
	int count = 0;
	bool went_on = false;
	test_pipe_ends ends, signal;
	auto group = std::make_unique<laio::task_group>();
	context.run([](auto &ends, auto &signal, auto &group, int &count, bool &went_on) -> task<> {
		group->spawn(holder(ends.from.get(), count, went_on));
		ends.put("x");
		signal.put("x");
		/* Finishes after the read above was reaped, or before: both must work. */
		co_await laio::poll(signal.from, POLLIN).or_throw();
		group.reset();
		CHECK_IS(count, 0);
	}(ends, signal, group, count, went_on));
	CHECK(context.is_idle());
}

/* The context ends first: its tasks can be destroyed. */
static void context_before_task()
{
	int count = 0;
	bool went_on = false;
	test_pipe_ends ends;
	auto context = std::make_unique<laio::context>();
	auto group = std::make_unique<laio::task_group>();
	group->spawn(holder(ends.from.get(), count, went_on));
	CHECK_IS(count, 1);
	context.reset();
	group.reset();
	CHECK_IS(count, 0);
	CHECK(!went_on);
}

/* ---- Misuse that has a defined result ---- */

struct never {
	bool await_ready() const noexcept { return false; }
	void await_suspend(std::coroutine_handle<>) const noexcept {}
	void await_resume() const noexcept {}
};

static void misuse()
{
	{
		laio::context context;
		try {
			context.run([]() -> task<> { co_await never(); }());
			CHECK(false);
		} catch (const std::system_error &error) {
			CHECK_IS(error.code().value(), EDEADLK);
		}
	}
	try {
		auto call = laio::call(SYS_getpid);
		call.await_ready();
		CHECK(false);
	} catch (const std::logic_error &) {
	}
	laio_options options = LAIO_OPTIONS_INIT;
	options.backend = "nonsense";
	try {
		laio::context context(options);
		CHECK(false);
	} catch (const std::system_error &error) {
		CHECK_IS(error.code().value(), EINVAL);
	}
}

int main()
{
	rlimit small = {1 << 20, 1 << 20};
	test_start();
	/* The limit holds for the main thread's stack from now on. */
	CHECK_IS(setrlimit(RLIMIT_STACK, &small), 0);
	{
		laio::context context;
		context.run(values(context));
		stack(context);
	}
	if (test_pends()) {
		destruction();
		laio::context context;
		destruction_when_finished(context);
	}
	if (test_pends())
		context_before_task();
	misuse();
	return 0;
}

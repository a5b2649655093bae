/*
 * Measures what co_await costs: calls that do not block, through laio.hpp, laio_syscall() and the C library,
 * interleaved, in one run; and a coroutine that waits.
 */
#include <laio.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

constexpr int rounds = 101, calls = 10000;

static int file;
static char page[4096];

static void check(bool is_right)
{
	if (!is_right) {
		std::fprintf(stderr, "a call has failed\n");
		std::exit(1);
	}
}

static void plainly(long count)
{
	for (long i = 0; i < count; i++)
		check(::pread(file, page, sizeof(page), 0) == sizeof(page));
}

static void by_laio_syscall(long count)
{
	for (long i = 0; i < count; i++)
		check(laio_syscall(SYS_pread64, file, page, sizeof(page), off_t(0)) == sizeof(page));
}

static laio::task<> awaiting(long count)
{
	for (long i = 0; i < count; i++) {
		auto read = co_await laio::pread(file, page, 0);
		check(read && *read == sizeof(page));
	}
}

static laio::task<std::size_t> one()
{
	co_return co_await laio::pread(file, page, 0).or_throw();
}

static laio::task<> awaiting_tasks(long count)
{
	for (long i = 0; i < count; i++)
		check(co_await one() == sizeof(page));
}

static laio::task<> awaiting_empty_calls(long count)
{
	for (long i = 0; i < count; i++)
		check((co_await laio::call(SYS_getppid)).has_value());
}

template <class Act>
static double ns_of(Act act)
{
	auto start = std::chrono::steady_clock::now();
	act(calls);
	return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

static double median(std::array<double, rounds> values)
{
	std::sort(values.begin(), values.end());
	return values[rounds / 2];
}

template <class Base, class Act>
static void compare(const char *name, Base base, Act act)
{
	std::array<double, rounds> base_ns, ns, ratio;
	for (std::size_t i = 0; i < rounds; i++) {
		base_ns[i] = ns_of(base);
		ns[i] = ns_of(act);
		ratio[i] = ns[i] / base_ns[i];
	}
	std::printf("%-34s %8.1f ns, plainly %8.1f ns, ratio %.2f\n", name, median(ns), median(base_ns), median(ratio));
}

/* A byte goes round through two pipes. Both wait for the other each time. */
static laio::task<> hand_over(int from, int to, long count)
{
	char byte = 'x';
	for (long i = 0; i < count; i++) {
		check(co_await laio::write(to, {&byte, 1}).or_throw() == 1);
		check(co_await laio::read(from, {&byte, 1}).or_throw() == 1);
	}
}

int main()
{
	laio::context context;
	struct laio_info info = LAIO_INFO_INIT;
	char name[] = "/tmp/laio-bench-XXXXXX";
	file = mkstemp(name);
	check(file >= 0 && unlink(name) == 0 && ::write(file, page, sizeof(page)) == sizeof(page));
	laio_info(context.get(), &info);
	std::printf("back end %s%s\n", info.backend, info.flags & LAIO_INFO_RING ? " with io_uring" : "");

	compare("laio_syscall(pread), 4 KiB", plainly, by_laio_syscall);
	compare("co_await laio::pread, 4 KiB", plainly, [&](long n) { context.run(awaiting(n)); });
	compare("co_await a task with one pread", plainly, [&](long n) { context.run(awaiting_tasks(n)); });
	compare("co_await laio::call(getppid)", [](long n) { while (n--) ::syscall(SYS_getppid); },
		[&](long n) { context.run(awaiting_empty_calls(n)); });

	int one[2], two[2];
	check(pipe(one) == 0 && pipe(two) == 0);
	double ns = ns_of([&](long n) {
		context.run([](int *one, int *two, long n) -> laio::task<> {
			co_await laio::when_all(hand_over(one[0], two[1], n), hand_over(two[0], one[1], n));
		}(one, two, n));
	});
	std::printf("%-34s %8.1f ns\n", "two tasks and two pipes, a round", ns);
}

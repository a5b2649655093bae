/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * when.hpp - several awaitables at the same time: when_all(), when_any(), when_first(), with_timeout(),
 * shield().
 *
 * All of them are structured: they end when the last of what they have started has ended, also after a stop or an
 * exception, so what they were given may refer to variables of the caller.
 */
#ifndef LAIO_WHEN_HPP
#define LAIO_WHEN_HPP

#include <array>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <stop_token>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "calls.hpp"
#include "context.hpp"
#include "task.hpp"

LAIO_BEGIN

namespace detail {

template <class A>
decltype(auto) get_awaiter(A &&awaitable)
{
	if constexpr (requires { std::forward<A>(awaitable).operator co_await(); })
		return std::forward<A>(awaitable).operator co_await();
	else if constexpr (requires { operator co_await(std::forward<A>(awaitable)); })
		return operator co_await(std::forward<A>(awaitable));
	else
		return std::forward<A>(awaitable);
}

/* What co_await gives. */
template <class A>
using await_result = std::remove_cvref_t<decltype(get_awaiter(std::declval<A>()).await_resume())>;

/* What several branches share with the coroutine that waits for them. */
class latch {
public:
	static constexpr std::size_t none = static_cast<std::size_t>(-1);

	explicit latch(const std::stop_token &outer) : forward_(outer, stop_forwarder{&source_}) {}
	latch(const latch &) = delete;
	latch &operator=(const latch &) = delete;

	const std::stop_token &token() const noexcept { return token_; }
	void request_stop() noexcept { source_.request_stop(); }

	/* The number of the branch that ended first. */
	std::size_t first() const noexcept { return first_; }
	/* Makes the branch the first, if none has ended before. */
	bool claim(std::size_t number) noexcept
	{
		if (first_ == none)
			first_ = number;
		return first_ == number;
	}

	void failed(std::exception_ptr failure) noexcept
	{
		if (!failure_)
			failure_ = std::move(failure);
		source_.request_stop();
	}

	void rethrow()
	{
		if (failure_)
			std::rethrow_exception(std::move(failure_));
	}

private:
	friend class branch;
	template <class Branches>
	friend class start_all;

	std::stop_source source_;
	std::stop_token token_ = source_.get_token();
	std::stop_callback<stop_forwarder> forward_;
	std::size_t left_ = 0, first_ = none;
	std::coroutine_handle<> parent_;
	std::exception_ptr failure_;
};

/* A coroutine that awaits one of several awaitables, and reports to the latch. */
class branch {
public:
	struct promise_type {
		latch *shared = nullptr;

		branch get_return_object() noexcept
		{
			return branch(std::coroutine_handle<promise_type>::from_promise(*this));
		}
		std::suspend_always initial_suspend() const noexcept { return {}; }
		struct final_awaiter {
			bool await_ready() const noexcept { return false; }
			std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) const noexcept
			{
				latch &shared = *ended.promise().shared;
				return --shared.left_ == 0 ? shared.parent_ : std::noop_coroutine();
			}
			void await_resume() const noexcept {}
		};
		final_awaiter final_suspend() const noexcept { return {}; }
		void return_void() const noexcept {}
		void unhandled_exception() noexcept { shared->failed(std::current_exception()); }
		const std::stop_token *laio_stop_token() const noexcept { return &shared->token(); }
	};

	branch() noexcept = default;
	branch(branch &&other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
	branch &operator=(branch &&other) noexcept
	{
		std::swap(body_, other.body_);
		return *this;
	}
	~branch()
	{
		if (body_)
			body_.destroy();
	}

	bool is_done() const noexcept { return body_.done(); }

private:
	template <class Branches>
	friend class start_all;

	explicit branch(std::coroutine_handle<promise_type> body) noexcept : body_(body) {}

	void start(latch &shared)
	{
		body_.promise().shared = &shared;
		body_.resume();
	}

	std::coroutine_handle<branch::promise_type> body_;
};

/* Starts the branches one after the other, and waits until all have ended. */
template <class Branches>
class start_all {
public:
	start_all(latch &shared, Branches &branches) noexcept : shared_(shared), branches_(branches) {}

	bool await_ready() const noexcept { return false; }
	bool await_suspend(std::coroutine_handle<> parent)
	{
		shared_.parent_ = parent;
		shared_.left_ = std::size(branches_) + 1;
		for (branch &each : branches_)
			each.start(shared_);
		return --shared_.left_ != 0;
	}
	void await_resume() const { shared_.rethrow(); }

private:
	latch &shared_;
	Branches &branches_;
};

template <class T>
using slot = std::optional<nonvoid<T>>;

template <class A, class T>
branch store(A awaitable, slot<T> &value)
{
	if constexpr (std::is_void_v<T>) {
		co_await std::move(awaitable);
		value.emplace();
	} else {
		value.emplace(co_await std::move(awaitable));
	}
}

template <class A, class T>
branch store_first(latch &shared, A awaitable, slot<T> &value)
{
	if constexpr (std::is_void_v<T>) {
		co_await std::move(awaitable);
		value.emplace();
	} else {
		value.emplace(co_await std::move(awaitable));
	}
	shared.request_stop();
}

template <class A, class T>
branch race(latch &shared, std::size_t number, A awaitable, slot<T> &value)
{
	try {
		if constexpr (std::is_void_v<T>) {
			co_await std::move(awaitable);
			if (shared.claim(number))
				value.emplace();
		} else {
			T result = co_await std::move(awaitable);
			if (shared.claim(number))
				value.emplace(std::move(result));
		}
	} catch (...) {
		if (shared.claim(number))
			throw;
	}
	shared.request_stop();
}

}

/* Awaits all, and returns a tuple of their values (std::monostate for void). After an exception the others are asked to
   stop; when all have ended, the first exception is thrown. An error in a result is no exception. */
template <class... As>
task<std::tuple<detail::nonvoid<detail::await_result<As>>...>> when_all(As... awaitables)
{
	detail::latch shared(co_await current_stop_token());
	std::tuple<detail::slot<detail::await_result<As>>...> values;
	{
		auto branches = std::apply(
			[&](auto &...slots) {
				return std::array<detail::branch, sizeof...(As)>{
					detail::store<As, detail::await_result<As>>(std::move(awaitables), slots)...};
			},
			values);
		co_await detail::start_all(shared, branches);
	}
	co_return std::apply(
		[](auto &...slots) {
			return std::tuple<detail::nonvoid<detail::await_result<As>>...>(std::move(*slots)...);
		},
		values);
}

/* The same for any number of them; the values are a vector, or nothing for void. */
template <class A, class T = detail::await_result<A>>
task<std::conditional_t<std::is_void_v<T>, void, std::vector<detail::nonvoid<T>>>> when_all(std::vector<A> awaitables)
{
	detail::latch shared(co_await current_stop_token());
	std::vector<detail::slot<T>> slots(awaitables.size());
	{
		std::vector<detail::branch> branches;
		branches.reserve(awaitables.size());
		for (std::size_t i = 0; i < awaitables.size(); i++)
			branches.push_back(detail::store<A, T>(std::move(awaitables[i]), slots[i]));
		awaitables.clear();
		co_await detail::start_all(shared, branches);
	}
	if constexpr (!std::is_void_v<T>) {
		std::vector<T> values;
		values.reserve(slots.size());
		for (auto &slot : slots)
			values.push_back(std::move(*slot));
		co_return values;
	}
}

/* Awaits all, asks the others to stop when the first has ended, and returns its value: index() says which it was. The
   values of the others are dropped, and with them what they have read meanwhile: when_first() keeps them. */
template <class... As>
task<std::variant<detail::nonvoid<detail::await_result<As>>...>> when_any(As... awaitables)
{
	using value = std::variant<detail::nonvoid<detail::await_result<As>>...>;
	detail::latch shared(co_await current_stop_token());
	std::tuple<detail::slot<detail::await_result<As>>...> slots;
	{
		auto branches = [&]<std::size_t... i>(std::index_sequence<i...>) {
			return std::array<detail::branch, sizeof...(As)>{
				detail::race<As, detail::await_result<As>>(shared, i, std::move(awaitables),
									   std::get<i>(slots))...};
		}(std::index_sequence_for<As...>());
		co_await detail::start_all(shared, branches);
	}
	std::optional<value> first;
	[&]<std::size_t... i>(std::index_sequence<i...>) {
		auto take = [&](auto number, auto &slot) {
			if (shared.first() == number)
				first.emplace(std::in_place_index<number>, std::move(*slot));
		};
		(take(std::integral_constant<std::size_t, i>(), std::get<i>(slots)), ...);
	}(std::index_sequence_for<As...>());
	co_return std::move(*first);
}

/* Awaits all, asks the others to stop when the first has ended, and returns a tuple of the values of all, as when_all()
   does: a call that was stopped is ECANCELED, and one that had read or accepted something before that has its value. So
   a race loses nothing. For awaitables whose errors are results: an exception, also of a stop, is thrown. */
template <class... As>
task<std::tuple<detail::nonvoid<detail::await_result<As>>...>> when_first(As... awaitables)
{
	detail::latch shared(co_await current_stop_token());
	std::tuple<detail::slot<detail::await_result<As>>...> values;
	{
		auto branches = std::apply(
			[&](auto &...slots) {
				return std::array<detail::branch, sizeof...(As)>{
					detail::store_first<As, detail::await_result<As>>(shared, std::move(awaitables),
											  slots)...};
			},
			values);
		co_await detail::start_all(shared, branches);
	}
	co_return std::apply(
		[](auto &...slots) {
			return std::tuple<detail::nonvoid<detail::await_result<As>>...>(std::move(*slots)...);
		},
		values);
}

namespace detail {

/* Ends the other branch when the time has passed. */
template <class Duration>
branch expire(latch &shared, Duration duration, bool &expired)
{
	if (shared.first() != latch::none)
		co_return;
	result<void> slept = co_await sleep_for(duration);
	expired = slept.has_value() && shared.first() == latch::none;
	if (expired)
		shared.request_stop();
}

template <class T>
void make_timeout(T &value)
{
	if constexpr (is_result<T>) {
		if (!value.has_value() && is_cancelled(value.error()))
			value = failure(ETIME);
	} else {
		(void)value;
	}
}

}

/* Asks the awaitable to stop when the time has passed, and awaits its end. ECANCELED, as a result or as
   std::system_error, is then ETIME; if it ends with a value all the same, that is the value. */
template <class Rep, class Period, class A>
task<detail::await_result<A>> with_timeout(std::chrono::duration<Rep, Period> duration, A awaitable)
{
	using T = detail::await_result<A>;
	detail::latch shared(co_await current_stop_token());
	detail::slot<T> value;
	bool expired = false;
	try {
		std::array<detail::branch, 2> branches{
			detail::race<A, T>(shared, 0, std::move(awaitable), value),
			detail::expire(shared, duration, expired)};
		co_await detail::start_all(shared, branches);
	} catch (const std::system_error &error) {
		if (expired && is_cancelled(error.code()))
			throw std::system_error(ETIME, std::system_category());
		throw;
	}
	if (expired)
		detail::make_timeout(*value);
	if constexpr (!std::is_void_v<T>)
		co_return std::move(*value);
}

/* The awaitable with another stop token: a request to stop the caller does not reach it. */
template <class A>
task<detail::await_result<A>> with_stop_token(A awaitable, std::stop_token token)
{
	using T = detail::await_result<A>;
	detail::latch shared(token);
	detail::slot<T> value;
	{
		std::array<detail::branch, 1> branches{detail::store<A, T>(std::move(awaitable), value)};
		co_await detail::start_all(shared, branches);
	}
	if constexpr (!std::is_void_v<T>)
		co_return std::move(*value);
}

/* The awaitable without a stop token: for clean-up that must not be cancelled. */
template <class A>
task<detail::await_result<A>> shield(A awaitable)
{
	return with_stop_token(std::move(awaitable), std::stop_token());
}

LAIO_END

#endif

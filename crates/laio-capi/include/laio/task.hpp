/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * task.hpp - a coroutine that starts when it is awaited.
 */
#ifndef LAIO_TASK_HPP
#define LAIO_TASK_HPP

#include <coroutine>
#include <exception>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "context.hpp"

/* Whether a coroutine always resumes another without stack of its own (a tail call). GCC may do so with -O2 and more;
   a task that ends without waiting therefore returns to its awaiter, and a chain of tasks that is too long for the stack
   goes on from the loop. */
#if defined(__clang__)
#define LAIO_TAIL_CALLS true
#else
#define LAIO_TAIL_CALLS false
#endif

LAIO_BEGIN

template <class T = void>
class task;

namespace detail {

template <class T>
using nonvoid = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

class task_promise_base : resumable {
public:
	std::suspend_always initial_suspend() const noexcept { return {}; }

	struct final_awaiter {
		bool await_ready() const noexcept { return false; }
		template <class Promise>
		std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept
		{
			task_promise_base &promise = ended.promise();
			if (std::exchange(promise.is_starting_, false) || !promise.awaiter_)
				return std::noop_coroutine();
			if constexpr (!LAIO_TAIL_CALLS) {
				context *now = context::current_or_null();
				if (now && ++now->returned_ > context::nested_most) {
					now->resume_later(promise, promise.awaiter_);
					return std::noop_coroutine();
				}
			}
			return promise.awaiter_;
		}
		void await_resume() const noexcept {}
	};

	final_awaiter final_suspend() const noexcept { return {}; }

	/* What operations ask of the promise of the coroutine that awaits them. */
	const std::stop_token *laio_stop_token() const noexcept { return token_; }

protected:
	~task_promise_base() { unlink(); }

private:
	template <class T>
	friend class laio::task;
	friend class laio::context;
	template <class T, bool has_tail_calls>
	friend class task_awaiter;

	std::coroutine_handle<> awaiter_;
	const std::stop_token *token_ = nullptr;
	bool is_starting_ = false; /* its awaiter's await_suspend has resumed it, and goes on when it returns */
};

template <class T>
class task_promise : public task_promise_base {
public:
	task<T> get_return_object() noexcept;
	void unhandled_exception() noexcept { result_.template emplace<2>(std::current_exception()); }

	template <class U>
	requires std::is_constructible_v<T, U>
	void return_value(U &&value)
	{
		result_.template emplace<1>(std::forward<U>(value));
	}

	T take()
	{
		if (result_.index() == 2)
			std::rethrow_exception(std::get<2>(std::move(result_)));
		return std::get<1>(std::move(result_));
	}

private:
	std::variant<std::monostate, T, std::exception_ptr> result_;
};

template <>
class task_promise<void> : public task_promise_base {
public:
	inline task<void> get_return_object() noexcept;
	void unhandled_exception() noexcept { failure_ = std::current_exception(); }
	void return_void() const noexcept {}

	void take()
	{
		if (failure_)
			std::rethrow_exception(std::move(failure_));
	}

private:
	std::exception_ptr failure_;
};

template <class T, bool has_tail_calls>
class task_awaiter {
public:
	explicit task_awaiter(std::coroutine_handle<task_promise<T>> body) noexcept : body_(body) {}

	bool await_ready() const noexcept { return false; }

	template <class Promise>
	auto await_suspend(std::coroutine_handle<Promise> awaiter) const noexcept
	{
		task_promise_base &promise = body_.promise();
		promise.awaiter_ = awaiter;
		if constexpr (requires { awaiter.promise().laio_stop_token(); }) {
			if (!promise.token_)
				promise.token_ = awaiter.promise().laio_stop_token();
		}
		if constexpr (has_tail_calls) {
			return std::coroutine_handle<>(body_);
		} else {
			context *now = context::current_or_null();
			if (now && now->started_ >= context::nested_most) {
				now->resume_later(promise, body_);
				return true;
			}
			promise.is_starting_ = true;
			now ? void(++now->started_) : void();
			body_.resume();
			now ? void(--now->started_) : void();
			return std::exchange(promise.is_starting_, false);
		}
	}

	T await_resume() const { return body_.promise().take(); }

private:
	std::coroutine_handle<task_promise<T>> body_;
};

}

/* Owns a coroutine. It starts when it is awaited or run, and is destroyed with the task: what it has in flight is then
   cancelled first (see laio.hpp). */
template <class T>
class [[nodiscard("a task does nothing until it is awaited")]] task {
	static_assert(!std::is_reference_v<T>, "a task returns a value");

public:
	using promise_type = detail::task_promise<T>;
	using value_type = T;

	task(task &&other) noexcept : body_(std::exchange(other.body_, nullptr)) {}
	task &operator=(task &&other) noexcept
	{
		task(std::move(other)).swap(*this);
		return *this;
	}
	~task()
	{
		if (body_)
			body_.destroy();
	}

	void swap(task &other) noexcept { std::swap(body_, other.body_); }

	/* Inlined, because files that were compiled differently choose differently. */
	[[gnu::always_inline]] auto operator co_await() && noexcept
	{
		return detail::task_awaiter<T, LAIO_TAIL_CALLS>(body_);
	}

private:
	friend class detail::task_promise<T>;
	friend class context;

	explicit task(std::coroutine_handle<promise_type> body) noexcept : body_(body) {}

	std::coroutine_handle<promise_type> body_;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() noexcept
{
	return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}

inline task<void> task_promise<void>::get_return_object() noexcept
{
	return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

struct stop_token_awaiter {
	std::stop_token token;

	bool await_ready() const noexcept { return false; }
	template <class Promise>
	bool await_suspend(std::coroutine_handle<Promise> coroutine)
	{
		if constexpr (requires { coroutine.promise().laio_stop_token(); }) {
			if (auto *now = coroutine.promise().laio_stop_token())
				token = *now;
		}
		return false;
	}
	std::stop_token await_resume() noexcept { return std::move(token); }
};

}

/* `co_await laio::current_stop_token()` is the stop token of this task: for long computations, and for loops whose
   calls never block. */
inline detail::stop_token_awaiter current_stop_token() noexcept
{
	return {};
}

template <class T>
T context::run(task<T> root, std::stop_token token)
{
	use scope(*this);
	root.body_.promise().token_ = &token;
	root.body_.resume();
	while (!root.body_.done()) {
		if (resume_ready())
			continue;
		if (laio_pending(raw_) == 0) /* also in a child after fork(2), for operations of the parent */
			throw std::system_error(EDEADLK, std::system_category(), "laio: the task waits for no operation");
		reap(nullptr);
	}
	return root.body_.promise().take();
}

LAIO_END

#endif

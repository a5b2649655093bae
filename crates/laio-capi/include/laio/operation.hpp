/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * operation.hpp - a system call, or a request for ranges, that a coroutine awaits.
 */
#ifndef LAIO_OPERATION_HPP
#define LAIO_OPERATION_HPP

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "context.hpp"
#include "result.hpp"

LAIO_BEGIN

/*
 * A call that has not been made: co_await makes it. `Form` says what it consists of:
 *
 *     using value_type = ...;                    the type of its value
 *     void prepare(laio_call &call) noexcept;    writes its number and arguments, which may point into the form;
 *                                                or with `laio_ranges &`, if it reads ranges
 *     value_type finish(long value);             from the result of the system call to the value
 */
template <class Form>
class [[nodiscard("an operation does nothing until it is awaited")]] operation : detail::waiter {
public:
	using value_type = typename Form::value_type;

	explicit operation(Form form) noexcept(std::is_nothrow_move_constructible_v<Form>) : form_(std::move(form)) {}

	/* Only before co_await. */
	operation(operation &&) = default;

	/* Cancels the call when the time has passed; its error is then ETIME. */
	template <class Rep, class Period>
	operation &&timeout(std::chrono::duration<Rep, Period> duration) &&
	{
		if (auto time = detail::to_timespec(duration)) {
			time_ = *time;
			has_timeout_ = true;
		}
		return std::move(*this);
	}

	/* A request to stop does not cancel the call: for clean-up. */
	operation &&shielded() &&
	{
		is_shielded_ = true;
		return std::move(*this);
	}

	/* The same call, whose co_await is the value, or throws std::system_error. */
	auto or_throw() &&;

	bool await_ready()
	{
		if constexpr (requires(laio_ranges &request) { form_.prepare(request); }) {
			laio_ranges request = LAIO_RANGES_INIT(-1, nullptr, 0);
			return prepare_and_begin(request);
		} else {
			laio_call call = LAIO_CALL_INIT(0);
			return prepare_and_begin(call);
		}
	}

	template <class Promise>
	void await_suspend(std::coroutine_handle<Promise> coroutine)
	{
		const std::stop_token *token = nullptr;
		if constexpr (requires { coroutine.promise().laio_stop_token(); })
			token = is_shielded_ ? nullptr : coroutine.promise().laio_stop_token();
		wait(coroutine, token);
	}

	result<value_type> await_resume()
	{
		if (value_ == -1 && error_ != 0) [[unlikely]]
			return failure(error_);
		if constexpr (std::is_void_v<value_type>)
			return result<value_type>();
		else
			return form_.finish(value_);
	}

private:
	template <class Request>
	bool prepare_and_begin(Request &request)
	{
		form_.prepare(request);
		if (has_timeout_)
			request.timeout = &time_;
		return begin(request);
	}

	Form form_;
	timespec time_ = {};
	bool has_timeout_ = false, is_shielded_ = false;
};

/* What operation::or_throw() returns. */
template <class Form>
class [[nodiscard("an operation does nothing until it is awaited")]] throwing_operation {
public:
	explicit throwing_operation(operation<Form> &&call) : call_(std::move(call)) {}

	bool await_ready() { return call_.await_ready(); }

	template <class Promise>
	void await_suspend(std::coroutine_handle<Promise> coroutine)
	{
		call_.await_suspend(coroutine);
	}

	typename Form::value_type await_resume() { return laio::or_throw(call_.await_resume()); }

private:
	operation<Form> call_;
};

template <class Form>
auto operation<Form>::or_throw() &&
{
	return throwing_operation<Form>(std::move(*this));
}

namespace detail {

/* An argument of a system call in its full width. */
template <class T>
uintptr_t word(T value) noexcept
{
	if constexpr (std::is_pointer_v<T>)
		return reinterpret_cast<uintptr_t>(value);
	else if constexpr (std::is_null_pointer_v<T>)
		return 0;
	else if constexpr (std::is_enum_v<T>)
		return word(static_cast<std::underlying_type_t<T>>(value));
	else if constexpr (std::is_signed_v<T>)
		return static_cast<uintptr_t>(static_cast<intptr_t>(value));
	else
		return static_cast<uintptr_t>(value);
}

/* A call whose arguments are words, and whose value is a number or a descriptor. */
template <class Value>
struct plain_form {
	using value_type = Value;

	long number;
	uintptr_t args[6];

	void prepare(laio_call &call) const noexcept
	{
		call.number = number;
		for (int i = 0; i < 6; i++)
			call.args[i] = args[i];
	}

	Value finish(long value) const noexcept { return static_cast<Value>(value); }
};

template <>
struct plain_form<void> {
	using value_type = void;

	long number;
	uintptr_t args[6];

	void prepare(laio_call &call) const noexcept
	{
		call.number = number;
		for (int i = 0; i < 6; i++)
			call.args[i] = args[i];
	}
};

template <class Value, class... Args>
operation<plain_form<Value>> plain(long number, Args... args) noexcept
{
	static_assert(sizeof...(args) <= 6, "a system call has at most six arguments");
	return operation(plain_form<Value>{number, {word(args)...}});
}

}

/* Any system call: `co_await laio::call(SYS_flock, fd, LOCK_EX)`. An argument is a number or a pointer; what pointers
   point to must live until the co_await is over. The value is what syscall(2) returns. */
template <class... Args>
operation<detail::plain_form<long>> call(long number, Args... args) noexcept
{
	return detail::plain<long>(number, args...);
}

LAIO_END

#endif

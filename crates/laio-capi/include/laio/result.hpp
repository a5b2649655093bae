/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * result.hpp - a value, or the error of a system call.
 */
#ifndef LAIO_RESULT_HPP
#define LAIO_RESULT_HPP

#include <cerrno>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <version>

#if defined(__cpp_lib_expected)
#include <expected>
/* The two kinds of results are different types, so that no program links both under one name. */
#define LAIO_ABI with_expected
#else
#define LAIO_ABI with_result
#endif

#define LAIO_BEGIN namespace laio { inline namespace LAIO_ABI {
#define LAIO_END } }

LAIO_BEGIN

#if defined(__cpp_lib_expected)

template <class T = void>
using result = std::expected<T, std::error_code>;
using unexpected = std::unexpected<std::error_code>;

#else

/* An error on its way into a result. */
class unexpected {
public:
	explicit unexpected(std::error_code error) noexcept : error_(error) {}
	const std::error_code &error() const noexcept { return error_; }

private:
	std::error_code error_;
};

/* The members of std::expected<T, std::error_code> that programs use most. value() throws std::system_error. */
template <class T = void>
class [[nodiscard]] result {
public:
	using value_type = T;
	using error_type = std::error_code;

	result() requires std::is_default_constructible_v<T> = default;
	template <class U = T>
	requires(std::is_constructible_v<T, U> && !std::is_same_v<std::remove_cvref_t<U>, result> &&
		 !std::is_same_v<std::remove_cvref_t<U>, unexpected>)
	result(U &&value) : is_(std::in_place_index<0>, std::forward<U>(value))
	{
	}
	result(unexpected failed) noexcept : is_(std::in_place_index<1>, failed.error()) {}

	bool has_value() const noexcept { return is_.index() == 0; }
	explicit operator bool() const noexcept { return has_value(); }

	/* These are for a result that has a value. */
	T &operator*() & noexcept { return *std::get_if<0>(&is_); }
	const T &operator*() const & noexcept { return *std::get_if<0>(&is_); }
	T &&operator*() && noexcept { return std::move(*std::get_if<0>(&is_)); }
	T *operator->() noexcept { return std::get_if<0>(&is_); }
	const T *operator->() const noexcept { return std::get_if<0>(&is_); }

	/* This is for a result that has none. */
	const std::error_code &error() const noexcept { return *std::get_if<1>(&is_); }

	T &value() & { return check(), **this; }
	const T &value() const & { return check(), **this; }
	T &&value() && { return check(), *std::move(*this); }

	template <class U>
	T value_or(U &&other) &&
	{
		return has_value() ? *std::move(*this) : static_cast<T>(std::forward<U>(other));
	}

private:
	void check() const
	{
		if (!has_value())
			throw std::system_error(error());
	}

	std::variant<T, std::error_code> is_;
};

template <>
class [[nodiscard]] result<void> {
public:
	using value_type = void;
	using error_type = std::error_code;

	result() noexcept = default;
	result(unexpected failed) noexcept : error_(failed.error()), has_value_(false) {}

	bool has_value() const noexcept { return has_value_; }
	explicit operator bool() const noexcept { return has_value_; }
	void operator*() const noexcept {}
	const std::error_code &error() const noexcept { return error_; }

	void value() const
	{
		if (!has_value_)
			throw std::system_error(error_);
	}

private:
	std::error_code error_;
	bool has_value_ = true;
};

#endif

/* The error of a system call, for a function that returns a result: `co_return laio::failure(EINVAL);`. */
inline unexpected failure(std::error_code error) noexcept
{
	return unexpected(error);
}

inline unexpected failure(int error) noexcept
{
	return unexpected(std::error_code(error, std::system_category()));
}

/* The value of a result, or its error as std::system_error, with `what` in its message. */
template <class R>
auto or_throw(R &&result, const char *what = "") -> typename std::remove_cvref_t<R>::value_type
{
	if (!result.has_value()) {
		if (*what)
			throw std::system_error(result.error(), what);
		throw std::system_error(result.error());
	}
	return *std::forward<R>(result);
}

/* Whether a call was cancelled: by a stop token, by laio_cancel(), or because its descriptor was closed. */
inline bool is_cancelled(const std::error_code &error) noexcept
{
	return error == std::errc::operation_canceled;
}

/* Whether the time for a call has run out: ETIME, because ETIMEDOUT is an error of the network. */
inline bool is_timeout(const std::error_code &error) noexcept
{
	return error == std::errc::stream_timeout;
}

namespace detail {

template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<result<T>> = true;

}

LAIO_END

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * buffer.hpp - what calls take as arguments: memory, names, descriptors.
 */
#ifndef LAIO_BUFFER_HPP
#define LAIO_BUFFER_HPP

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <sys/syscall.h>

#include "context.hpp"

LAIO_BEGIN

namespace detail {

template <class T>
concept memory = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
		 std::is_trivially_copyable_v<std::ranges::range_value_t<T>>;

template <class T>
concept writable_memory = memory<T> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T>>>;

}

/* Memory that a call writes: an array, a std::vector, a std::string (its size, not its capacity), a std::span. */
class buffer {
public:
	buffer(void *data, std::size_t size) noexcept : data_(data), size_(size) {}
	template <class R>
	requires(detail::writable_memory<R> && !std::is_same_v<std::remove_cvref_t<R>, buffer>)
	buffer(R &&range) noexcept
		: data_(std::ranges::data(range)),
		  size_(std::ranges::size(range) * sizeof(std::ranges::range_value_t<R>))
	{
	}

	void *data() const noexcept { return data_; }
	std::size_t size() const noexcept { return size_; }

private:
	void *data_;
	std::size_t size_;
};

/* Memory that a call reads. A string literal would include its final zero: pass a std::string_view. */
class const_buffer {
public:
	const_buffer(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
	const_buffer(buffer other) noexcept : data_(other.data()), size_(other.size()) {}
	template <class R>
	requires(detail::memory<R> && !std::is_same_v<std::remove_cvref_t<R>, const_buffer>)
	const_buffer(R &&range) noexcept
		: data_(std::ranges::data(range)),
		  size_(std::ranges::size(range) * sizeof(std::ranges::range_value_t<R>))
	{
	}
	template <std::size_t n>
	const_buffer(const char (&)[n]) = delete;

	const void *data() const noexcept { return data_; }
	std::size_t size() const noexcept { return size_; }

private:
	const void *data_;
	std::size_t size_;
};

/* The name of a file; the string must live until the co_await is over, as a temporary in its expression does. */
class name {
public:
	name(const char *text) noexcept : text_(text) {}
	name(const std::string &text) noexcept : text_(text.c_str()) {}
	name(const std::filesystem::path &path) noexcept : text_(path.c_str()) {}

	const char *c_str() const noexcept { return text_; }

private:
	const char *text_;
};

/* Owns a descriptor. Its destructor closes it without blocking; laio::close() also reports the error. */
class file_descriptor {
public:
	file_descriptor() noexcept = default;
	explicit file_descriptor(int fd) noexcept : fd_(fd) {}
	explicit file_descriptor(long fd) noexcept : fd_(static_cast<int>(fd)) {}
	file_descriptor(file_descriptor &&other) noexcept : fd_(other.release()) {}
	file_descriptor &operator=(file_descriptor &&other) noexcept
	{
		if (this != &other)
			reset(other.release());
		return *this;
	}
	~file_descriptor() { reset(); }

	int get() const noexcept { return fd_; }
	explicit operator bool() const noexcept { return fd_ >= 0; }
	int release() noexcept { return std::exchange(fd_, -1); }

	/* Through the context, which cancels what is in flight on the descriptor, and forgets what it knew of it. */
	void reset(int fd = -1) noexcept
	{
		int old = std::exchange(fd_, fd);
		if (old < 0)
			return;
		if (context *now = context::current_or_null()) {
			laio_call call = LAIO_CALL_INIT(SYS_close);
			call.args[0] = static_cast<uintptr_t>(old);
			if (laio_submit(now->get(), &call, nullptr) == 0 || errno == EINPROGRESS || errno == EBADF)
				return;
			if (errno != EAGAIN && errno != EDEADLK && errno != ESRCH)
				return; /* closed, with an error of the file */
		}
		::close(old);
	}

private:
	int fd_ = -1;
};

/* A descriptor as an argument. */
class descriptor {
public:
	descriptor(int fd) noexcept : fd_(fd) {}
	descriptor(const file_descriptor &owner) noexcept : fd_(owner.get()) {}

	int get() const noexcept { return fd_; }

private:
	int fd_;
};

LAIO_END

#endif

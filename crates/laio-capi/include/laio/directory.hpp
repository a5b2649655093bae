/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * directory.hpp - the entries of a directory, as a range.
 */
#ifndef LAIO_DIRECTORY_HPP
#define LAIO_DIRECTORY_HPP

#include <dirent.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "operation.hpp"

LAIO_BEGIN

/* An entry; its name is in the buffer of getdents(). */
struct directory_entry {
	std::uint64_t inode;
	unsigned char type; /* DT_REG, DT_DIR, ..., or DT_UNKNOWN */
	const char *name;
};

/* What one getdents() has returned, without "." and "..". */
class directory_entries {
public:
	class iterator {
	public:
		using value_type = directory_entry;
		using difference_type = std::ptrdiff_t;
		using iterator_category = std::input_iterator_tag;

		iterator() noexcept = default;

		directory_entry operator*() const noexcept
		{
			directory_entry entry;
			std::memcpy(&entry.inode, at_, sizeof(entry.inode));
			entry.type = static_cast<unsigned char>(at_[18]);
			entry.name = at_ + 19;
			return entry;
		}

		iterator &operator++() noexcept
		{
			at_ += length();
			skip();
			return *this;
		}

		iterator operator++(int) noexcept
		{
			iterator before = *this;
			++*this;
			return before;
		}

		bool operator==(const iterator &other) const noexcept { return at_ == other.at_; }

	private:
		friend class directory_entries;

		iterator(const char *at, const char *end) noexcept : at_(at), end_(end) {}

		/* struct linux_dirent64: inode (8 bytes), offset (8), length (2), type (1), name. */
		std::uint16_t length() const noexcept
		{
			std::uint16_t length;
			std::memcpy(&length, at_ + 16, sizeof(length));
			return length;
		}

		void skip() noexcept
		{
			while (at_ != end_ && at_[19] == '.' && (!at_[20] || (at_[20] == '.' && !at_[21])))
				at_ += length();
		}

		const char *at_ = nullptr, *end_ = nullptr;
	};

	directory_entries() noexcept = default;
	directory_entries(const void *data, std::size_t size) noexcept
		: begin_(static_cast<const char *>(data)), end_(begin_ + size)
	{
	}

	/* Whether the directory has ended. A range without entries need not be its end: it may have held "." alone. */
	bool is_end() const noexcept { return begin_ == end_; }

	iterator begin() const noexcept
	{
		iterator first(begin_, end_);
		first.skip();
		return first;
	}

	iterator end() const noexcept { return iterator(end_, end_); }

private:
	const char *begin_ = nullptr, *end_ = nullptr;
};

namespace detail {

struct getdents_form {
	using value_type = directory_entries;

	int directory;
	void *data;
	std::size_t size;

	void prepare(laio_call &call) const noexcept
	{
		call.number = SYS_getdents64;
		call.args[0] = word(directory);
		call.args[1] = word(data);
		call.args[2] = size;
	}

	directory_entries finish(long value) const noexcept { return {data, static_cast<std::size_t>(value)}; }
};

}

LAIO_END

#endif

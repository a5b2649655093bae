/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * calls.hpp - the system calls that programs use most. Each has the arguments of its manual page in section 2, except
 * that memory is a laio::buffer; laio::call() makes any other.
 */
#ifndef LAIO_CALLS_HPP
#define LAIO_CALLS_HPP

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "buffer.hpp"
#include "directory.hpp"
#include "operation.hpp"

LAIO_BEGIN

/* ---- Files ---- */

inline auto openat(descriptor directory, name path, int flags, mode_t mode = 0666) noexcept
{
	return detail::plain<file_descriptor>(SYS_openat, directory.get(), path.c_str(), flags | O_CLOEXEC, mode);
}

/* Close-on-exec, as all descriptors of this header. */
inline auto open(name path, int flags, mode_t mode = 0666) noexcept
{
	return openat(AT_FDCWD, path, flags, mode);
}

/* The only way to learn of an error at the close. A stop token does not cancel it. */
inline auto close(file_descriptor file) noexcept
{
	return detail::plain<void>(SYS_close, file.release());
}

inline auto read(descriptor file, buffer to) noexcept
{
	return detail::plain<std::size_t>(SYS_read, file.get(), to.data(), to.size());
}

inline auto pread(descriptor file, buffer to, off_t offset) noexcept
{
	return detail::plain<std::size_t>(SYS_pread64, file.get(), to.data(), to.size(), offset);
}

inline auto readv(descriptor file, std::span<const iovec> to) noexcept
{
	return detail::plain<std::size_t>(SYS_readv, file.get(), to.data(), to.size());
}

inline auto preadv(descriptor file, std::span<const iovec> to, off_t offset) noexcept
{
	return detail::plain<std::size_t>(SYS_preadv, file.get(), to.data(), to.size(), offset, 0L);
}

/* Writes all of the buffer, unless an error stops it. */
inline auto write(descriptor file, const_buffer from) noexcept
{
	return detail::plain<std::size_t>(SYS_write, file.get(), from.data(), from.size());
}

inline auto pwrite(descriptor file, const_buffer from, off_t offset) noexcept
{
	return detail::plain<std::size_t>(SYS_pwrite64, file.get(), from.data(), from.size(), offset);
}

inline auto writev(descriptor file, std::span<const iovec> from) noexcept
{
	return detail::plain<std::size_t>(SYS_writev, file.get(), from.data(), from.size());
}

inline auto pwritev(descriptor file, std::span<const iovec> from, off_t offset) noexcept
{
	return detail::plain<std::size_t>(SYS_pwritev, file.get(), from.data(), from.size(), offset, 0L);
}

inline auto fsync(descriptor file) noexcept
{
	return detail::plain<void>(SYS_fsync, file.get());
}

inline auto fdatasync(descriptor file) noexcept
{
	return detail::plain<void>(SYS_fdatasync, file.get());
}

inline auto ftruncate(descriptor file, off_t length) noexcept
{
	return detail::plain<void>(SYS_ftruncate, file.get(), length);
}

inline auto fallocate(descriptor file, int mode, off_t offset, off_t length) noexcept
{
	return detail::plain<void>(SYS_fallocate, file.get(), mode, offset, length);
}

inline auto flock(descriptor file, int operation) noexcept
{
	return detail::plain<void>(SYS_flock, file.get(), operation);
}

/* From the position of `from`, which advances. */
inline auto sendfile(descriptor to, descriptor from, std::size_t count) noexcept
{
	return detail::plain<std::size_t>(SYS_sendfile, to.get(), from.get(), nullptr, count);
}

/* The offsets, if there are any, must live until the co_await is over. */
inline auto splice(descriptor from, loff_t *from_offset, descriptor to, loff_t *to_offset, std::size_t count,
		   unsigned flags = 0) noexcept
{
	return detail::plain<std::size_t>(SYS_splice, from.get(), from_offset, to.get(), to_offset, count, flags);
}

inline auto copy_file_range(descriptor from, loff_t *from_offset, descriptor to, loff_t *to_offset,
			    std::size_t count) noexcept
{
	return detail::plain<std::size_t>(SYS_copy_file_range, from.get(), from_offset, to.get(), to_offset, count, 0u);
}

namespace detail {

struct stat_form {
	using value_type = struct ::stat;

	long number;
	int file;
	const char *path;
	int flags;
	struct ::stat status = {};

	void prepare(laio_call &call) noexcept
	{
		call.number = number;
		call.args[0] = word(file);
		if (number == SYS_fstat) {
			call.args[1] = word(&status);
			return;
		}
		call.args[1] = word(path);
		call.args[2] = word(&status);
		call.args[3] = word(flags);
	}

	const struct ::stat &finish(long) const noexcept { return status; }
};

}

inline auto fstat(descriptor file) noexcept
{
	return operation(detail::stat_form{SYS_fstat, file.get(), nullptr, 0});
}

inline auto fstatat(descriptor directory, name path, int flags = 0) noexcept
{
	return operation(detail::stat_form{SYS_newfstatat, directory.get(), path.c_str(), flags});
}

inline auto stat(name path) noexcept
{
	return fstatat(AT_FDCWD, path);
}

inline auto lstat(name path) noexcept
{
	return fstatat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW);
}

/* ---- Names ---- */

inline auto unlinkat(descriptor directory, name path, int flags = 0) noexcept
{
	return detail::plain<void>(SYS_unlinkat, directory.get(), path.c_str(), flags);
}

inline auto unlink(name path) noexcept
{
	return unlinkat(AT_FDCWD, path);
}

inline auto rmdir(name path) noexcept
{
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

inline auto mkdirat(descriptor directory, name path, mode_t mode = 0777) noexcept
{
	return detail::plain<void>(SYS_mkdirat, directory.get(), path.c_str(), mode);
}

inline auto mkdir(name path, mode_t mode = 0777) noexcept
{
	return mkdirat(AT_FDCWD, path, mode);
}

inline auto renameat(descriptor from_directory, name from, descriptor to_directory, name to,
		     unsigned flags = 0) noexcept
{
	return detail::plain<void>(SYS_renameat2, from_directory.get(), from.c_str(), to_directory.get(), to.c_str(),
				   flags);
}

inline auto rename(name from, name to) noexcept
{
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

inline auto linkat(descriptor from_directory, name from, descriptor to_directory, name to, int flags = 0) noexcept
{
	return detail::plain<void>(SYS_linkat, from_directory.get(), from.c_str(), to_directory.get(), to.c_str(), flags);
}

inline auto symlinkat(name target, descriptor directory, name path) noexcept
{
	return detail::plain<void>(SYS_symlinkat, target.c_str(), directory.get(), path.c_str());
}

inline auto readlinkat(descriptor directory, name path, buffer to) noexcept
{
	return detail::plain<std::size_t>(SYS_readlinkat, directory.get(), path.c_str(), to.data(), to.size());
}

/* The next entries of an open directory; none at its end. They are views of the buffer, which a uint64_t can align. */
inline auto getdents(descriptor directory, buffer to) noexcept
{
	return operation(detail::getdents_form{directory.get(), to.data(), to.size()});
}

/* ---- Sockets ---- */

inline auto accept(descriptor listener, sockaddr *address = nullptr, socklen_t *length = nullptr) noexcept
{
	return detail::plain<file_descriptor>(SYS_accept4, listener.get(), address, length, SOCK_CLOEXEC);
}

inline auto connect(descriptor socket, const sockaddr *address, socklen_t length) noexcept
{
	return detail::plain<void>(SYS_connect, socket.get(), address, length);
}

inline auto recv(descriptor socket, buffer to, int flags = 0) noexcept
{
	return detail::plain<std::size_t>(SYS_recvfrom, socket.get(), to.data(), to.size(), flags, nullptr, nullptr);
}

/* Sends all of the buffer, unless an error stops it. Without SIGPIPE: a broken connection is EPIPE. */
inline auto send(descriptor socket, const_buffer from, int flags = 0) noexcept
{
	return detail::plain<std::size_t>(SYS_sendto, socket.get(), from.data(), from.size(), flags | MSG_NOSIGNAL,
					  nullptr, std::size_t(0));
}

inline auto recvfrom(descriptor socket, buffer to, int flags, sockaddr *address, socklen_t *length) noexcept
{
	return detail::plain<std::size_t>(SYS_recvfrom, socket.get(), to.data(), to.size(), flags, address, length);
}

inline auto sendto(descriptor socket, const_buffer from, int flags, const sockaddr *address, socklen_t length) noexcept
{
	return detail::plain<std::size_t>(SYS_sendto, socket.get(), from.data(), from.size(), flags | MSG_NOSIGNAL,
					  address, length);
}

inline auto recvmsg(descriptor socket, msghdr *message, int flags = 0) noexcept
{
	return detail::plain<std::size_t>(SYS_recvmsg, socket.get(), message, flags);
}

inline auto sendmsg(descriptor socket, const msghdr *message, int flags = 0) noexcept
{
	return detail::plain<std::size_t>(SYS_sendmsg, socket.get(), message, flags | MSG_NOSIGNAL);
}

/* ---- Waiting ---- */

namespace detail {

struct poll_form {
	using value_type = short;

	pollfd waiting;

	void prepare(laio_call &call) noexcept
	{
		call.number = SYS_ppoll;
		call.args[0] = word(&waiting);
		call.args[1] = 1;
	}

	short finish(long) const noexcept { return waiting.revents; }
};

struct sleep_form {
	using value_type = void;

	timespec time;

	void prepare(laio_call &call) noexcept
	{
		call.number = SYS_clock_nanosleep;
		call.args[0] = CLOCK_MONOTONIC;
		call.args[2] = word(&time);
	}
};

}

/* Waits until the descriptor has one of the events (POLLIN, ...), and returns those that it has. */
inline auto poll(descriptor file, short events) noexcept
{
	return operation(detail::poll_form{{file.get(), events, 0}});
}

template <class Rep, class Period>
auto sleep_for(std::chrono::duration<Rep, Period> duration) noexcept
{
	constexpr timespec century = {3153600000, 0};
	return operation(detail::sleep_form{detail::to_timespec(duration).value_or(century)});
}

LAIO_END

#endif

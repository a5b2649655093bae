/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Each call of calls.hpp does what its manual page says, and results and exceptions carry its errors.
 */
#include "test.hpp"

#include <netinet/in.h>
#include <set>
#include <sys/file.h>

static task<> files(std::string directory)
{
	std::string name = directory + "/file";
	auto file = co_await laio::open(name, O_RDWR | O_CREAT | O_EXCL, 0600).or_throw();
	CHECK_IS(::fcntl(file.get(), F_GETFD), FD_CLOEXEC);
	check_error(co_await laio::open(name, O_RDWR | O_CREAT | O_EXCL), EEXIST);

	CHECK_IS(co_await laio::write(file, std::string_view("hello, ")).or_throw(), 7);
	CHECK_IS(co_await laio::pwrite(file, std::string("world"), 7).or_throw(), 5);
	std::array<char, 5> first;
	std::vector<char> second(100);
	CHECK_IS(co_await laio::pread(file, first, 0).or_throw(), 5);
	CHECK(std::string_view(first.data(), 5) == "hello");
	iovec parts[] = {{first.data(), 5}, {second.data(), second.size()}};
	CHECK_IS(co_await laio::preadv(file, parts, 2).or_throw(), 10);
	CHECK(std::string_view(first.data(), 5) == "llo, " && std::string_view(second.data(), 5) == "world");
	CHECK_IS(co_await laio::readv(file, parts).or_throw(), 5);
	CHECK_IS(co_await laio::pwritev(file, parts, 100).or_throw(), 105);
	CHECK_IS(co_await laio::writev(file, parts).or_throw(), 105);

	co_await laio::fsync(file).or_throw();
	co_await laio::fdatasync(file).or_throw();
	co_await laio::ftruncate(file, 12).or_throw();
	co_await laio::flock(file, LOCK_EX).or_throw();
	struct stat status = co_await laio::fstat(file).or_throw();
	CHECK_IS(status.st_size, 12);
	CHECK_IS((co_await laio::stat(name).or_throw()).st_ino, status.st_ino);
	CHECK_IS((co_await laio::fstatat(AT_FDCWD, name).or_throw()).st_ino, status.st_ino);

	auto copy = co_await laio::openat(AT_FDCWD, directory + "/copy", O_RDWR | O_CREAT).or_throw();
	loff_t from = 0, to = 3;
	CHECK_IS(co_await laio::copy_file_range(file, &from, copy, &to, 12).or_throw(), 12);
	CHECK_IS(from, 12);
	CHECK_IS(::lseek(file.get(), 0, SEEK_SET), 0);
	CHECK_IS(co_await laio::sendfile(copy, file, 100).or_throw(), 12);
	co_await laio::close(std::move(copy)).or_throw();
	CHECK(!copy);
	check_error(co_await laio::close(laio::file_descriptor(9999)), EBADF);

	co_await laio::rename(directory + "/copy", directory + "/new").or_throw();
	co_await laio::linkat(AT_FDCWD, name, AT_FDCWD, directory + "/second").or_throw();
	co_await laio::symlinkat("file", AT_FDCWD, directory + "/link").or_throw();
	std::string target(100, ' ');
	target.resize(co_await laio::readlinkat(AT_FDCWD, directory + "/link", target).or_throw());
	CHECK(target == "file");
	CHECK(S_ISLNK((co_await laio::lstat(directory + "/link").or_throw()).st_mode));
	co_await laio::mkdir(directory + "/below").or_throw();
	check_error(co_await laio::rmdir(directory), ENOTEMPTY);

	auto opened = co_await laio::open(directory, O_RDONLY | O_DIRECTORY).or_throw();
	std::set<std::string> names;
	for (;;) {
		alignas(std::uint64_t) char buffer[100];
		auto entries = co_await laio::getdents(opened, buffer).or_throw();
		if (entries.is_end())
			break;
		for (auto entry : entries) {
			names.insert(entry.name);
			CHECK(entry.type == DT_UNKNOWN || (entry.type == DT_DIR) == (entry.name == std::string("below")));
		}
	}
	CHECK((names == std::set<std::string>{"below", "file", "link", "new", "second"}));
	for (const auto &each : {"file", "link", "new", "second"})
		co_await laio::unlinkat(opened, each).or_throw();
	co_await laio::rmdir(directory + "/below").or_throw();
}

static task<> sockets()
{
	int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	sockaddr_in address = {};
	socklen_t length = sizeof(address);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_IS(::bind(listener, reinterpret_cast<sockaddr *>(&address), length), 0);
	CHECK_IS(::listen(listener, 5), 0);
	CHECK_IS(::getsockname(listener, reinterpret_cast<sockaddr *>(&address), &length), 0);
	laio::file_descriptor listening(listener), client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	co_await laio::connect(client, reinterpret_cast<sockaddr *>(&address), length).or_throw();
	auto server = co_await laio::accept(listening).or_throw();
	CHECK_IS(co_await laio::send(client, std::string_view("ping")).or_throw(), 4);
	char buffer[10];
	CHECK_IS(co_await laio::recv(server, buffer).or_throw(), 4);
	iovec part = {buffer, 4};
	msghdr message = {};
	message.msg_iov = &part;
	message.msg_iovlen = 1;
	CHECK_IS(co_await laio::sendmsg(server, &message).or_throw(), 4);
	CHECK_IS(co_await laio::poll(client, POLLIN).or_throw(), POLLIN);
	CHECK_IS(co_await laio::recvmsg(client, &message).or_throw(), 4);
	test_pipe_ends ends;
	CHECK_IS(co_await laio::sendto(server, std::string_view("spliced"), 0, nullptr, 0).or_throw(), 7);
	CHECK_IS(co_await laio::splice(client, nullptr, ends.to, nullptr, 7).or_throw(), 7);
	CHECK_IS(co_await laio::read(ends.from, buffer).or_throw(), 7);
	server.reset();
	CHECK_IS(co_await laio::recvfrom(client, buffer, 0, nullptr, nullptr).or_throw(), 0);
	check_error(co_await laio::recv(-1, buffer), EBADF);
}

static task<> errors()
{
	auto missing = co_await laio::open("/nonexistent", O_RDONLY);
	check_error(missing, ENOENT);
	CHECK(missing.error() == std::errc::no_such_file_or_directory);
	try {
		co_await laio::unlink("/nonexistent").or_throw();
		CHECK(false);
	} catch (const std::system_error &error) {
		CHECK_IS(error.code().value(), ENOENT);
	}
	try {
		laio::or_throw(std::move(missing), "/nonexistent");
		CHECK(false);
	} catch (const std::system_error &error) {
		CHECK(std::string_view(error.what()).find("/nonexistent") == 0);
	}
	CHECK_IS(co_await laio::call(SYS_getpid).or_throw(), getpid());
	check_error(co_await laio::call(SYS_flock, -1, LOCK_SH), EBADF);
	co_await laio::sleep_for(1ms).or_throw();
	co_await laio::sleep_for(-1ms).or_throw();
}

int main()
{
	test_start();
	char directory[PATH_MAX];
	test_directory(directory);
	laio::context context;
	CHECK(&laio::context::current() == &context);
	context.run(files(directory));
	context.run(sockets());
	context.run(errors());
	CHECK(context.is_idle());
	CHECK_IS(rmdir(directory), 0);
	return 0;
}

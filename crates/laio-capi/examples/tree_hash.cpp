/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * tree_hash.cpp - prints one hash of the names and contents of a directory tree, many files at the same time.
 *
 *     c++ -std=c++20 tree_hash.cpp -o tree_hash $(pkg-config --cflags --libs laio)
 *
 * The hash (FNV-1a) is that of names and contents in the order of the names; it protects against nothing.
 */
#include <laio.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

static void add(std::uint64_t &hash, const char *data, std::size_t size)
{
	for (std::size_t i = 0; i < size; i++)
		hash = (hash ^ static_cast<unsigned char>(data[i])) * 0x100000001b3;
}

struct summary {
	std::uint64_t hash = 0xcbf29ce484222325, files = 0, bytes = 0;

	void add_below(const std::string &name, const summary &below)
	{
		add(hash, name.c_str(), name.size() + 1);
		add(hash, reinterpret_cast<const char *>(&below.hash), sizeof(below.hash));
		files += below.files;
		bytes += below.bytes;
	}
};

static laio::task<summary> hash_file(int directory, std::string name)
{
	summary all;
	char buffer[65536];
	auto file = co_await laio::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).or_throw();
	while (auto count = co_await laio::read(file, buffer).or_throw()) {
		add(all.hash, buffer, count);
		all.bytes += count;
	}
	all.files = 1;
	co_return all;
}

static laio::task<std::vector<laio::directory_entry>> entries_of(int directory, std::vector<std::string> &names)
{
	std::vector<laio::directory_entry> all;
	for (;;) {
		alignas(std::uint64_t) char buffer[16384];
		auto some = co_await laio::getdents(directory, buffer).or_throw();
		if (some.is_end())
			co_return all;
		for (auto entry : some) {
			names.emplace_back(entry.name);
			all.push_back(entry);
		}
	}
}

static laio::task<summary> hash_tree(int above, std::string name)
{
	summary all;
	std::vector<std::string> names, hashed;
	std::vector<laio::task<summary>> tasks;
	auto directory = co_await laio::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW).or_throw();
	auto entries = co_await entries_of(directory.get(), names);
	std::vector<std::size_t> order(names.size());
	for (std::size_t i = 0; i < order.size(); i++)
		order[i] = i;
	std::sort(order.begin(), order.end(), [&](auto a, auto b) { return names[a] < names[b]; });
	for (std::size_t i = 0; i < order.size(); i++) {
		const std::string &each = names[order[i]];
		if (entries[order[i]].type == DT_DIR)
			tasks.push_back(hash_tree(directory.get(), each));
		else if (entries[order[i]].type == DT_REG)
			tasks.push_back(hash_file(directory.get(), each));
		else
			continue;
		hashed.push_back(each);
		/* A part at a time, for the limit of descriptors. */
		if (tasks.size() < 16 && i + 1 < order.size())
			continue;
		auto parts = co_await laio::when_all(std::exchange(tasks, {}));
		for (std::size_t part = 0; part < parts.size(); part++)
			all.add_below(hashed[part], parts[part]);
		hashed.clear();
	}
	if (!tasks.empty()) {
		auto parts = co_await laio::when_all(std::move(tasks));
		for (std::size_t part = 0; part < parts.size(); part++)
			all.add_below(hashed[part], parts[part]);
	}
	co_return all;
}

int main(int argc, char **argv)
try {
	laio::context context;
	auto all = context.run(hash_tree(AT_FDCWD, argc > 1 ? argv[1] : "."));
	std::printf("%016llx, %llu files, %llu bytes\n", static_cast<unsigned long long>(all.hash),
		    static_cast<unsigned long long>(all.files), static_cast<unsigned long long>(all.bytes));
} catch (const std::system_error &error) {
	std::fprintf(stderr, "tree_hash: %s\n", error.what());
	return 1;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_base.h - shared by the parts of fuzz.c: random numbers, calls, memory, the report of a run.
 */
#ifndef FUZZ_BASE_H
#define FUZZ_BASE_H

#include "test.h"

#include <dirent.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define FUZZ_CALLS 1000 /* of one program, at most */
#define FUZZ_TEXT (1u << 17)

/* The library's descriptors are above this, the programs' below. */
#define FUZZ_FDS 192

/* The initial size of the table of descriptors. */
#define FUZZ_TABLE 1024

/* No file grows beyond this, whatever a call requests. */
#define FUZZ_FILE (4u << 20)

/* ---- Random numbers ---- */

struct dice {
	uint64_t state;
};

static uint64_t mix(uint64_t value)
{
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
	return value ^ (value >> 31);
}

/* A call's random numbers depend only on these: the call stays the same when others are dropped. */
static struct dice dice_of(uint64_t seed, uint64_t index)
{
	struct dice dice;

	dice.state = mix(mix(seed + 0x9e3779b97f4a7c15u) + index);
	return dice;
}

static uint64_t roll(struct dice *dice)
{
	dice->state += 0x9e3779b97f4a7c15u;
	return mix(dice->state);
}

static unsigned below(struct dice *dice, unsigned limit)
{
	return (unsigned)(roll(dice) % limit);
}

/* True once in this many times. */
static int once_in(struct dice *dice, unsigned times)
{
	return below(dice, times) == 0;
}

#define PICK(dice, array) ((array)[below(dice, (unsigned)TEST_LENGTH(array))])

/*
 * Whether the context moves few bytes at a time in this program. Its calls are then not hostile: the context
 * could do a part of a call that the kernel would have refused as a whole.
 */
static int transfers_are_short(uint64_t seed)
{
	struct dice dice = dice_of(seed, UINT64_MAX - 1);

	return once_in(&dice, 6);
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const unsigned char *at = (const unsigned char *)bytes;
	uint64_t word;

	for (; count >= sizeof(word); at += sizeof(word), count -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3u;
		hash ^= hash >> 29;
	}
	for (; count > 0; at++, count--)
		hash = (hash ^ *at) * 0x100000001b3u;
	return hash ^ (hash >> 32);
}

/* ---- Memory ---- */

/*
 * The memory of the calls: an arena, an unmapped page, a read-only page, and an unmapped one again. It is
 * mapped before the fork, so that both runs have it at the same address.
 */
#define ARENA_SIZE ((size_t)512 * 1024)
#define PAGE ((size_t)4096)

static unsigned char *arena;

static uintptr_t arena_end(void)
{
	return (uintptr_t)arena + ARENA_SIZE;
}

static uintptr_t read_only_page(void)
{
	return arena_end() + PAGE;
}

static void make_arena(void)
{
	size_t size = ARENA_SIZE + 3 * PAGE;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *page;

	CHECK(memory != MAP_FAILED);
	arena = (unsigned char *)memory;
	page = arena + ARENA_SIZE + PAGE;
	memset(page, 'r', PAGE);
	page[PAGE - 1] = 0;
	CHECK_IS(mprotect(arena + ARENA_SIZE, PAGE, PROT_NONE), 0);
	CHECK_IS(mprotect(page, PAGE, PROT_READ), 0);
	CHECK_IS(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
}

/* The bytes there, if all of them are in the arena or the read-only page; else NULL. */
static void *memory_at(uintptr_t address, size_t count)
{
	uintptr_t start = (uintptr_t)arena;

	if (address >= start && address <= arena_end() && count <= arena_end() - address)
		return (void *)address;
	start = read_only_page();
	if (address >= start && address <= start + PAGE && count <= start + PAGE - address)
		return (void *)address;
	return NULL;
}

static int is_writable(uintptr_t address, size_t count)
{
	return memory_at(address, count) != NULL && address <= arena_end();
}

/* ---- Calls ---- */

/* An action of the other thread while a call waits; see fuzz_world.h. */
enum { FEED_NONE, FEED_PIPE, FEED_SOCKET, FEED_COUNTER, FEED_CONNECT, FEED_UNLOCK, FEED_FUTEX, FEED_DRAIN };

struct call {
	const char *name;
	long number;
	uintptr_t words[6];
	int feed;
	unsigned way;   /* see make_call() in fuzz.c */
	size_t used;    /* bytes of the arena, from its start */
};

/* The result of a call, without the parts that differ in any two runs. */
struct record {
	long number;
	long value;
	int error;
	int skipped;          /* not made, because it would never end */
	int background;
	int unaligned;        /* refused, because of the alignment of direct I/O */
	int chance;           /* data that was not in the cache in this run */
	long fed;             /* the result of the other thread */
	uint64_t words;       /* hashes: the arguments, ... */
	uint64_t memory;      /* ... the memory, the descriptors */
	uint64_t descriptors;
};

/* A child writes this, its parent reads it. */
struct report {
	volatile int started;      /* the number of calls started */
	volatile int finished;
	struct record records[FUZZ_CALLS];
	char text[FUZZ_TEXT];      /* the descriptors at the end */
	char fault[1024];          /* a violated rule of the API */
	char options[256];         /* of the context */
	char dump_text[FUZZ_TEXT]; /* of the requested call: descriptors ... */
	unsigned char dump[ARENA_SIZE];
};

/* ---- The run ---- */

struct settings {
	uint64_t seed;
	long programs, seconds;
	int calls;
	const char *only;
	int verbose, self;
	int bounces;                /* the back end does unaligned direct I/O: docs/decisions/021-linux-aio.md */
	int carried;                /* the program changes its kernel thread, and so its thread number */
	int run_limit;              /* seconds until a run hangs */
	uint32_t flags;             /* of struct laio_options */
	char root[PATH_MAX];        /* the directory that a program works in */
};

static struct settings settings;

/* Whether the program has many operations in flight at once. */
static int is_flight(uint64_t seed)
{
	if (settings.self)
		return 0;
	if (settings.only)
		return strcmp(settings.only, "flight") == 0;
	return mix(seed) % 4 == 0;
}

/* Appends formatted text to other text, cut off at the end of the buffer. */
__attribute__((format(printf, 3, 4)))
static void append(char *text, size_t size, const char *format, ...)
{
	size_t length = strlen(text);
	va_list list;

	va_start(list, format);
	vsnprintf(text + length, size - length, format, list);
	va_end(list);
}

#endif /* FUZZ_BASE_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_base.h - the parts of fuzz.c agree on this: random numbers, calls, memory, what a run leaves.
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

/* Descriptors of the library are above this, those of the programs below. */
#define FUZZ_FDS 192

/* Room in the table of descriptors, from the beginning. */
#define FUZZ_TABLE 1024

/* No file grows beyond this, whatever a call asks for. */
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

/* The dice of one call depend on nothing but these: a call stays the same when others are left out. */
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

/* True once in so many times. */
static int once_in(struct dice *dice, unsigned times)
{
	return below(dice, times) == 0;
}

#define PICK(dice, array) ((array)[below(dice, (unsigned)TEST_LENGTH(array))])

/*
 * Whether the context moves little at a time in this program. Its calls are then not hostile: what the
 * kernel would have refused as a whole could be done in part.
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
 * What the calls work on: an arena, a page that is not there, a page that is read-only, and again none.
 * It is mapped before the fork, so that both runs have it at the same address.
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

/* What another thread does while a call waits; see fuzz_world.h. */
enum { FEED_NONE, FEED_PIPE, FEED_SOCKET, FEED_COUNTER, FEED_CONNECT, FEED_UNLOCK, FEED_FUTEX, FEED_DRAIN };

struct call {
	const char *name;
	long number;
	uintptr_t words[6];
	int feed;
	unsigned way;   /* see make_call() in fuzz.c */
	size_t used;    /* bytes of the arena, from its start */
};

/* What came of it, without what is different in any two runs. */
struct record {
	long number;
	long value;
	int error;
	int skipped;          /* not made: it would wait for ever */
	int background;
	int unaligned;        /* refused, as direct I/O of this alignment is */
	int chance;           /* what was not in the cache, though it may be there at another time */
	long fed;             /* what the other thread got */
	uint64_t words;       /* hashes: what was asked, ... */
	uint64_t memory;      /* ... the memory, the descriptors */
	uint64_t descriptors;
};

/* A child writes this, its parent reads it. */
struct report {
	volatile int started;      /* calls that have begun */
	volatile int finished;
	struct record records[FUZZ_CALLS];
	char text[FUZZ_TEXT];      /* the descriptors at the end */
	char fault[1024];          /* a rule of the API that was broken */
	char options[256];         /* of the context */
	char dump_text[FUZZ_TEXT]; /* of the call that was asked for: descriptors ... */
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
	int carried;                /* the back end changes its kernel thread: so does the thread's number */
	int patience;               /* seconds until a run hangs */
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

/* Formatted text at the end of other text, cut off where there is no more room. */
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

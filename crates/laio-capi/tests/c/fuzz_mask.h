/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_mask.h - removes values that differ in any two runs from the comparison.
 */
#ifndef FUZZ_MASK_H
#define FUZZ_MASK_H

#include "fuzz_base.h"

#include <ctype.h>
#include <linux/stat.h>

enum { M_STAT, M_STATX, M_STATFS, M_NAMES, M_OLD_NAMES, M_RETURNED, M_TIMER, M_PORT, M_LOCK, M_QUOTA, M_BYTES };

static const struct {
	long number;
	int argument, kind;
	size_t count;
} masks[] = {
	{ SYS_fstat, 1, M_STAT, 0 }, { SYS_newfstatat, 2, M_STAT, 0 }, { SYS_statx, 4, M_STATX, 0 },
	{ SYS_statfs, 1, M_STATFS, 0 }, { SYS_fstatfs, 1, M_STATFS, 0 },
	{ SYS_getdents64, 1, M_NAMES, 0 },
	/* The kernel chooses a free one. */
	{ SYS_getsockname, 1, M_PORT, 0 },
	{ SYS_fcntl, 2, M_LOCK, 0 },
	/* FIOQSIZE: the space that a file has by now; ext4 allocates later. */
	{ SYS_ioctl, 2, M_QUOTA, 8 },
	{ SYS_timerfd_gettime, 1, M_TIMER, 0 }, { SYS_timerfd_settime, 3, M_TIMER, 0 },
	/* Chance. */
	{ SYS_getrandom, 0, M_RETURNED, 0 },
	/* The time, and the resources used so far. */
	{ SYS_clock_gettime, 1, M_BYTES, 16 }, { SYS_gettimeofday, 0, M_BYTES, 16 },
	{ SYS_getrusage, 1, M_BYTES, sizeof(struct rusage) }, { SYS_times, 0, M_BYTES, 32 },
	{ SYS_sysinfo, 0, M_BYTES, 112 },
	/* The remaining time. */
	{ SYS_ppoll, 2, M_BYTES, 16 }, { SYS_pselect6, 4, M_BYTES, 16 },
	{ SYS_recvmmsg, 4, M_BYTES, 16 },
	/* The CPU of the thread. */
	{ SYS_getcpu, 0, M_BYTES, 4 }, { SYS_getcpu, 1, M_BYTES, 4 },
#ifdef SYS_open
	{ SYS_stat, 1, M_STAT, 0 }, { SYS_lstat, 1, M_STAT, 0 }, { SYS_getdents, 1, M_OLD_NAMES, 0 },
	{ SYS_select, 4, M_BYTES, 16 }, { SYS_time, 0, M_BYTES, 8 },
	/* Free blocks and inodes of a file system that other processes use too. */
	{ SYS_ustat, 1, M_BYTES, 16 },
#endif
};

/* A time since the start of the run is not compared. Earlier times were set by a call. */
static time_t masked_since;

/*
 * The device of eventfds and similar files, which share an inode with those of all other programs: its
 * times are random. So are those of a socket: no call sets them.
 */
static dev_t anonymous;

static void find_anonymous_device(void)
{
	struct stat status;
	int fd = eventfd(0, 0);

	CHECK_IS(fstat(fd, &status), 0);
	anonymous = status.st_dev;
	close(fd);
}

static int64_t mask_time(int64_t seconds)
{
	return seconds >= masked_since ? 1 : 0;
}

static void mask_timespec(struct timespec *time)
{
	if (mask_time(time->tv_sec)) {
		time->tv_sec = 1;
		time->tv_nsec = 0;
	}
}

static void mask_stat(struct stat *status)
{
	status->st_ino = 0;
	status->st_blocks = 0; /* ext4 allocates later */
	if (S_ISSOCK(status->st_mode) || status->st_dev == anonymous)
		memset(&status->st_atim, 0, 3 * sizeof(status->st_atim));
	mask_timespec(&status->st_atim);
	mask_timespec(&status->st_mtim);
	mask_timespec(&status->st_ctim);
}

static void mask_statx(struct statx *status)
{
	struct statx_timestamp *times[4] = { &status->stx_atime, &status->stx_btime, &status->stx_ctime,
		&status->stx_mtime };
	int i;

	status->stx_ino = 0;
	status->stx_blocks = 0;
	for (i = 0; i < 4; i++) {
		if (S_ISSOCK(status->stx_mode) ||
		    makedev(status->stx_dev_major, status->stx_dev_minor) == anonymous)
			memset(times[i], 0, sizeof(*times[i]));
		if (!mask_time(times[i]->tv_sec))
			continue;
		times[i]->tv_sec = 1;
		times[i]->tv_nsec = 0;
	}
}

static void mask_statfs(struct statfs *status)
{
	status->f_bfree = status->f_bavail = status->f_ffree = 0;
}

/* Inode numbers. Both kinds of entry begin with them, and have their length 16 bytes later. */
static void mask_names(unsigned char *bytes, size_t count)
{
	uint16_t length;
	size_t at;

	for (at = 0; at + 18 <= count; at += length) {
		memset(bytes + at, 0, 8);
		memcpy(&length, bytes + at + 16, sizeof(length));
		if (length == 0)
			break;
	}
}

/* Five digits, for a socket that was connected or listened to without a name; other names have letters. */
static void mask_chosen_name(unsigned char *name)
{
	int i;

	for (i = 0; i < 5; i++)
		if (!is_writable((uintptr_t)name + (unsigned int)i, 1) || !isxdigit(name[i]))
			return;
	memset(name, '0', 5);
}

static void mask_memory(const struct call *call, long value)
{
	uintptr_t place;
	size_t count;
	void *bytes;
	int i;

	for (i = 0; i < TEST_LENGTH(masks); i++) {
		if (masks[i].number != (int)call->number)
			continue;
		if (masks[i].kind == M_QUOTA && (unsigned int)call->words[1] != FIOQSIZE)
			continue;
		place = call->words[masks[i].argument];
		count = masks[i].count;
		if (masks[i].kind == M_STAT)
			count = sizeof(struct stat);
		else if (masks[i].kind == M_STATX)
			count = sizeof(struct statx);
		else if (masks[i].kind == M_STATFS)
			count = sizeof(struct statfs);
		else if (masks[i].kind == M_TIMER)
			count = 32;
		else if (masks[i].kind == M_PORT)
			count = 4;
		else if (masks[i].kind == M_LOCK)
			count = sizeof(struct flock);
		else if (masks[i].kind != M_BYTES && masks[i].kind != M_QUOTA)
			count = value > 0 ? (size_t)value : 0;
		/* The kernel started an entry that did not fit. */
		if ((masks[i].kind == M_NAMES || masks[i].kind == M_OLD_NAMES) && value < 0 &&
		    is_writable(place, 1) && place + (uint32_t)call->words[2] > arena_end())
			memset((void *)place, 0, arena_end() - place);
		/* The call fails in the middle of an entry, at the end of the arena. */
		if (is_writable(place, 1) && place + count > arena_end())
			memset((void *)place, 0, arena_end() - place);
		/* The kernel stores the remaining time even if the call fails. */
		if (!is_writable(place, count) || (value < 0 && masks[i].kind != M_BYTES))
			continue;
		bytes = (void *)place;
		switch (masks[i].kind) {
		case M_STAT:
			mask_stat((struct stat *)bytes);
			break;
		case M_STATX:
			mask_statx((struct statx *)bytes);
			break;
		case M_STATFS:
			mask_statfs((struct statfs *)bytes);
			break;
		case M_NAMES:
		case M_OLD_NAMES:
			mask_names((unsigned char *)bytes, count);
			/* The kernel started the next entry, which did not fit. */
			if (place + (uint32_t)call->words[2] > arena_end())
				memset((unsigned char *)bytes + count, 0, arena_end() - place - count);
			break;
		case M_PORT:
			if (((struct sockaddr *)bytes)->sa_family == AF_INET)
				memset((unsigned char *)bytes + 2, 0, 2);
			else if (((struct sockaddr *)bytes)->sa_family == AF_UNIX && ((char *)bytes)[2] == '\0')
				mask_chosen_name((unsigned char *)bytes + 3);
			break;
		case M_LOCK:
			/* The process that holds the conflicting lock; other commands have no such word. */
			if (((struct flock *)bytes)->l_pid == getpid())
				((struct flock *)bytes)->l_pid = 1;
			break;
		case M_TIMER:
			/* Only the interval, and whether the timer is set. */
			memset((unsigned char *)bytes + 16, ((int64_t *)bytes)[2] != 0, 16);
			break;
		default:
			memset(bytes, 0, count);
			break;
		}
	}
}

static long mask_value(long number, long value)
{
	switch ((int)number) {
	case SYS_gettid:
		/* A carrier has a number of its own: only whether there is one. */
		if (settings.carried)
			return value > 0;
		return value - getpid();
	case SYS_getpid:
		return value - getpid();
	case SYS_times:
#ifdef SYS_time
	case SYS_time:
#endif
		return value > 0;
	default:
		return value;
	}
}

#endif /* FUZZ_MASK_H */

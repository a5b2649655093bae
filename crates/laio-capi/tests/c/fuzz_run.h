/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz_run.h - one program, run by plain system calls or through laio, in a child.
 */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H

#include "fuzz_flight.h"
#include "fuzz_world.h"

struct program {
	uint64_t seed;
	int through;                    /* laio, else plain */
	int dump;                       /* the index of a call to look into, or -1 */
	unsigned char left_out[FUZZ_CALLS];
};

/* ---- A run ---- */

/* A direct transfer that fails may or may not have begun. */
static int fails_directly(const struct call *call, long value)
{
	int flags = fcntl((int)call->words[0], F_GETFL);

	return value == -1 && flags != -1 && (flags & O_DIRECT);
}

/* musl has no name for it. */
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

/* Pages enter and leave the cache, also those of a file that was just written. */
static int missed_the_cache(const struct call *call, int error)
{
	return (call->number == SYS_preadv2 || call->number == SYS_pwritev2) && error == EAGAIN &&
	       (call->words[5] & RWF_NOWAIT);
}

static void make_call(const struct program *program, int index)
{
	struct record *record = &report->records[index];
	const uintptr_t *w;
	struct call call;
	long value;

	compose(program->seed, index, &call);
	w = call.words;
	memset(record, 0, sizeof(*record));
	record->number = call.number;
	record->words = hash_bytes(hash_bytes(1, w, sizeof(call.words)), arena, call.used);
	/* The other thread sends fewer bytes than requested. */
	if (call.feed == FEED_SOCKET && call.number == SYS_recvfrom)
		call.words[3] &= ~(uintptr_t)MSG_WAITALL;
	if (call.feed == FEED_SOCKET && call.number == SYS_recvmsg)
		call.words[2] &= ~(uintptr_t)MSG_WAITALL;
	if (call.feed != FEED_NONE && !can_feed(&call))
		call.feed = FEED_NONE;
	if (call.feed == FEED_NONE && would_wait(&call)) {
		record->skipped = 1;
		return;
	}
	if (call.feed != FEED_NONE)
		begin_feeding(&call);
	errno = 0;
	if (program->through)
		value = call_laio(&call, &record->background);
	else
		value = syscall(call.number, w[0], w[1], w[2], w[3], w[4], w[5]);
	record->error = value == -1 ? errno : 0;
	record->chance = missed_the_cache(&call, record->error);
	if (call.feed != FEED_NONE)
		record->fed = end_feeding();
	record->value = mask_value(call.number, value);
	mask_memory(&call, value);
	if (fails_directly(&call, value))
		record->unaligned = record->error == EINVAL;
	else
		record->memory = hash_bytes(hash_bytes(1, arena, call.used),
					    arena + ARENA_SIZE - PAGE, PAGE);
	record->descriptors = hash_descriptors();
	if (index == program->dump) {
		memcpy(report->dump, arena, ARENA_SIZE);
		memset(report->dump + call.used, 0, ARENA_SIZE - PAGE - call.used);
		describe_descriptors(report->dump_text, sizeof(report->dump_text), FUZZ_FDS - 1);
	}
}

/* Runs in the child. Its output goes to `noise`, which the parent shows if the child dies. */
__attribute__((noreturn))
static void run_child(const struct program *program, int noise)
{
	const struct rlimit none = { 0, 0 }, small = { FUZZ_FILE, FUZZ_FILE };
	int i;

	for (i = 0; i < 3; i++)
		dup2(noise, i);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &small);
	masked_since = time(NULL) - 1;
	CHECK_IS(chdir(settings.root), 0);
	if (is_flight(program->seed)) {
		fly(program->seed);
		_exit(0);
	}
	make_world(transfers_are_short(program->seed) ? 0 : O_DIRECT);
	if (program->through)
		start_library(program->seed, LAIO_WAIT_AT_LIMIT);
	release_rest();
	for (i = 0; i < settings.calls; i++) {
		if (program->left_out[i])
			continue;
		report->started = i + 1;
		make_call(program, i);
		if (report->fault[0])
			_exit(0);
	}
	if (program->through)
		RULE(laio_finish() == 0);
	/* Also shows descriptors that the library has left open. */
	describe_descriptors(report->text, sizeof(report->text), 4 * FUZZ_FDS);
	report->finished = 1;
	_exit(0);
}

/* ---- The directory after a run ---- */

static int by_name(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

static uint64_t hash_file(const char *path)
{
	static unsigned char bytes[65536];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	uint64_t hash = 1;
	ssize_t count;

	if (fd == -1)
		return 0;
	while ((count = read(fd, bytes, sizeof(bytes))) > 0)
		hash = hash_bytes(hash, bytes, (size_t)count);
	close(fd);
	return hash;
}

static void describe_attributes(const char *path, char *text)
{
	char list[4096], value[4096];
	ssize_t length = llistxattr(path, list, sizeof(list)), count;
	const char *at;

	for (at = list; length > 0 && at < list + length; at += strlen(at) + 1) {
		count = lgetxattr(path, at, value, sizeof(value));
		append(text, FUZZ_TEXT, "\t%s %zd %llx\n", at, count,
		       (unsigned long long)hash_bytes(1, value, count > 0 ? (size_t)count : 0));
	}
}

/* Describes a directory, and removes everything in it. */
static void take_down(const char *path, char *text)
{
	char *found[256], name[PATH_MAX], target[PATH_MAX];
	struct dirent *entry;
	struct stat status;
	int count = 0, i;
	DIR *directory;

	chmod(path, 0700);
	directory = opendir(path);
	if (!directory)
		return;
	while (count < TEST_LENGTH(found) && (entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			found[count++] = strdup(entry->d_name);
	closedir(directory);
	qsort(found, (size_t)count, sizeof(*found), by_name);
	for (i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "%.2000s/%.255s", path, found[i]);
		free(found[i]);
		if (lstat(name, &status) == -1)
			continue;
		append(text, FUZZ_TEXT, "%s: type and mode %o, links %ld, owner %d %d, size %ld\n",
		       name + strlen(settings.root), status.st_mode, (long)status.st_nlink,
		       (int)status.st_uid, (int)status.st_gid, (long)status.st_size);
		describe_attributes(name, text);
		if (S_ISDIR(status.st_mode)) {
			take_down(name, text);
			rmdir(name);
			continue;
		}
		if (S_ISLNK(status.st_mode)) {
			ssize_t length = readlink(name, target, sizeof(target) - 1);

			target[length > 0 ? length : 0] = 0;
			append(text, FUZZ_TEXT, "\t-> %s\n", target);
		} else if (S_ISREG(status.st_mode)) {
			chmod(name, 0600);
			append(text, FUZZ_TEXT, "\tcontents %llx\n", (unsigned long long)hash_file(name));
		}
		unlink(name);
	}
}

/* ---- The parent's side ---- */

enum { RUN_DONE, RUN_HUNG, RUN_DIED, RUN_FAILED };

struct outcome {
	int how;
	int status;       /* from wait(2) */
	char noise[600];  /* what the child printed */
};

static void run(const struct program *program, struct report *of_child, struct outcome *outcome)
{
	struct pollfd one;
	int noise = memfd_create("noise", MFD_CLOEXEC);
	ssize_t length;
	pid_t child;

	memset(outcome, 0, sizeof(*outcome));
	of_child->started = 0;
	of_child->finished = 0;
	of_child->text[0] = of_child->fault[0] = of_child->dump_text[0] = of_child->options[0] = 0;
	report = of_child;
	CHECK_IS(mkdir(settings.root, 0755), 0);
	fflush(NULL);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		run_child(program, noise);
	one.fd = (int)syscall(SYS_pidfd_open, child, 0);
	CHECK(one.fd >= 0);
	one.events = POLLIN;
	one.revents = 0;
	while (poll(&one, 1, 1000 * (program->through ? settings.run_limit : 4)) == -1 && errno == EINTR)
		;
	if (!(one.revents & POLLIN)) {
		outcome->how = RUN_HUNG;
		kill(child, SIGKILL);
	}
	waitpid(child, &outcome->status, 0);
	close(one.fd);
	if (outcome->how != RUN_HUNG && WIFSIGNALED(outcome->status))
		outcome->how = RUN_DIED;
	else if (outcome->how != RUN_HUNG && WEXITSTATUS(outcome->status) != 0)
		outcome->how = RUN_FAILED;
	length = pread(noise, outcome->noise, sizeof(outcome->noise) - 1, 0);
	outcome->noise[length > 0 ? length : 0] = 0;
	close(noise);
	take_down(settings.root, of_child->text);
	rmdir(settings.root);
}

#endif /* FUZZ_RUN_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * fuzz.c - random programs of system calls, made twice from the same start: by syscall(2) and through laio.
 * The values they return, the memory they write and the files they leave must be equal. Every fourth
 * program has many operations in flight at once instead; each result must be one of the possible ones.
 *
 *     cc -std=c99 -pthread fuzz.c $(pkg-config --cflags --libs laio) -o fuzz
 *     LAIO_BACKEND=threads ./fuzz --seconds 60
 *
 * A seed identifies a program. A program that differs is reduced, and printed with the command that runs it
 * again. Exit status: 0, no difference; 1, a difference; 77, the back end is not available here.
 */
#include "fuzz_run.h"

static struct report *plain, *other;      /* the reports of the two runs */

static struct {
	char name[64];
	long count;
} kinds[200];

static struct {
	long programs, flights, calls, inline_done, background, skipped, differences, unusable;
	unsigned char seen[1024];         /* numbers of system calls */
} totals;

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

/* ---- Comparing ---- */

enum { SAME, DIFFERS, UNUSABLE };

#define SHOWN_MAX 3   /* differences of one kind that are shown in full */
#define RUN_LIMIT 240 /* seconds: many runs wait for a disk, which other processes may use */

struct difference {
	int at;                /* the index of the call; -1: the files and descriptors left */
	char kind[64];         /* differences of one kind are shown only a few times */
	char what[2048];
};

#define SAY(difference, ...) append((difference)->what, sizeof((difference)->what), __VA_ARGS__)

/* The first line that is not in both texts. */
static void differ_in_text(const char *left, const char *right, struct difference *difference)
{
	size_t i, start = 0;

	for (i = 0; left[i] && left[i] == right[i]; i++)
		if (left[i] == '\n')
			start = i + 1;
	left += start;
	right += start;
	SAY(difference, "  plain: %.*s\n  laio:  %.*s\n", (int)strcspn(left, "\n"), left,
	    (int)strcspn(right, "\n"), right);
}

static void differ_in_memory(struct difference *difference)
{
	size_t i, from;
	int j;

	for (i = 0; i < ARENA_SIZE && plain->dump[i] == other->dump[i]; i++)
		;
	if (i == ARENA_SIZE)
		return;
	SAY(difference, "  memory at arena + %zu\n    plain:", i);
	for (from = i, j = 0; j < 2; j++) {
		if (j == 1)
			SAY(difference, "\n    laio: ");
		for (i = from; i < from + 24 && i < ARENA_SIZE; i++)
			SAY(difference, " %02x", (j ? other : plain)->dump[i]);
	}
	SAY(difference, "\n");
}

static void describe_record(const char *who, const struct record *record, struct difference *difference)
{
	SAY(difference, "  %s %ld", who, record->value);
	if (record->value == -1)
		SAY(difference, " %s (%d)", strerror(record->error), record->error);
	if (record->skipped)
		SAY(difference, ", not made since it would wait");
	if (record->fed)
		SAY(difference, ", the other thread %ld", record->fed);
	if (record->background)
		SAY(difference, ", in the background");
	SAY(difference, "\n");
}

static int same_record(const struct record *a, const struct record *b)
{
	return a->words == b->words && a->value == b->value && a->error == b->error &&
	       a->skipped == b->skipped && a->fed == b->fed && a->memory == b->memory &&
	       a->descriptors == b->descriptors;
}

static void describe_outcome(const struct outcome *outcome, struct difference *difference)
{
	const char *const hows[] = { "ended", "hangs", "died", "failed" };

	SAY(difference, "  the program %s", hows[outcome->how]);
	if (outcome->how == RUN_DIED)
		SAY(difference, ": %s", strsignal(WTERMSIG(outcome->status)));
	SAY(difference, " %.400s\n", outcome->noise);
}

static void describe_kind(struct difference *difference, const struct outcome *outcome)
{
	/* Without a call that differs, none of these is looked at. */
	const long at = difference->at < 0 ? 0 : difference->at;
	const struct record *a = &plain->records[at], *b = &other->records[at];
	const char *name = difference->at < 0 ? "" : name_of((int)a->number);

	if (outcome->how != RUN_DONE)
		snprintf(difference->kind, sizeof(difference->kind), "%s: %s", name,
			 outcome->how == RUN_HUNG ? "hangs" : "ends");
	else if (other->fault[0])
		snprintf(difference->kind, sizeof(difference->kind), "rule: %.50s", other->fault);
	else if (difference->at < 0)
		snprintf(difference->kind, sizeof(difference->kind), "what is left");
	else
		snprintf(difference->kind, sizeof(difference->kind), "%.16s: %d errno %d, laio %d errno %d",
			 name, a->value == -1 ? -1 : 0, a->error, b->value == -1 ? -1 : 0, b->error);
}

/* Runs a program both ways. */
static int compare(struct program *program, struct difference *difference)
{
	const struct record *a = plain->records, *b = other->records;
	struct outcome outcome;
	int i;

	difference->what[0] = 0;
	difference->at = -1;
	if (!is_flight(program->seed)) {
		program->through = 0;
		run(program, plain, &outcome);
		if (outcome.how != RUN_DONE || !plain->finished) {
			describe_outcome(&outcome, difference);
			difference->at = plain->started - 1;
			return UNUSABLE;
		}
	}
	program->through = !settings.self;
	run(program, other, &outcome);
	if (outcome.how != RUN_DONE || other->fault[0] || !other->finished) {
		difference->at = is_flight(program->seed) ? -1 : other->started - 1;
		describe_outcome(&outcome, difference);
		SAY(difference, "  %s\n", other->fault);
		describe_kind(difference, &outcome);
		return DIFFERS;
	}
	if (is_flight(program->seed))
		return SAME;
	for (i = 0; i < settings.calls; i++) {
		if (program->left_out[i] || same_record(&a[i], &b[i]))
			continue;
		/* After this difference the two runs are different programs. */
		if (settings.bounces && a[i].unaligned && !b[i].error)
			return SAME;
		if (a[i].chance || b[i].chance)
			return SAME;
		difference->at = i;
		describe_kind(difference, &outcome);
		describe_record("plain:", &a[i], difference);
		describe_record("laio: ", &b[i], difference);
		if (a[i].memory != b[i].memory)
			SAY(difference, "  the memory is not the same\n");
		if (a[i].descriptors != b[i].descriptors)
			SAY(difference, "  the descriptors are not the same\n");
		if (program->dump == i) {
			differ_in_memory(difference);
			if (strcmp(plain->dump_text, other->dump_text) != 0)
				differ_in_text(plain->dump_text, other->dump_text, difference);
		}
		return DIFFERS;
	}
	if (strcmp(plain->text, other->text) == 0)
		return SAME;
	differ_in_text(plain->text, other->text, difference);
	describe_kind(difference, &outcome);
	return DIFFERS;
}

/* ---- Reports ---- */

static void print_word(uintptr_t word)
{
	uintptr_t start = (uintptr_t)arena, i;
	const char *text = (const char *)memory_at(word, 1);

	if (!text) {
		if (word < 4096 || word > UINTPTR_MAX - 4096)
			printf("%ld", (long)word);
		else
			printf("%#lx", (unsigned long)word);
		return;
	}
	if (word >= start && word < arena_end())
		printf("arena + %zu", (size_t)(word - start));
	else
		printf("read-only + %zu", (size_t)(word - arena_end() - PAGE));
	for (i = 0; i < 40 && memory_at(word + i, 1) && text[i] > ' '; i++)
		;
	if (i > 0 && memory_at(word + i, 1) && text[i] == 0) {
		printf(" \"%s\"", text);
		return;
	}
	printf(" {");
	for (i = 0; i < 24 && memory_at(word + i, 1); i++)
		printf("%s%02x", i % 8 == 0 && i > 0 ? " " : "", (unsigned char)text[i]);
	printf("}");
}

static void print_call(uint64_t seed, int index)
{
	struct call call;
	int i;

	compose(seed, index, &call);
	printf("%4d %s (%ld) way %u%s:", index, call.name, call.number, call.way, call.feed ? ", fed" : "");
	for (i = 0; i < 6; i++) {
		printf(i ? ", " : " ");
		print_word(call.words[i]);
	}
	printf("\n");
}

static const char *const injections[] = { "inline", "background", "false-eof", "attempts-fail" };

static void print_command(const struct program *program)
{
	const char *backend = getenv("LAIO_BACKEND");
	int i, left = 0, first = 1;

	printf("again:");
	if (backend)
		printf(" LAIO_BACKEND=%s", backend);
	printf(" ./fuzz --seed %llu --programs 1 --calls-per-program %d", (unsigned long long)program->seed,
	       settings.calls);
	if (settings.self)
		printf(" --self");
	if (settings.only)
		printf(" --only %s", settings.only);
	if (settings.flags & LAIO_WITHOUT_RING)
		printf(" --without-ring");
	for (i = 0; i < TEST_LENGTH(injections); i++)
		if (settings.flags & LAIO_INJECT_INLINE << i)
			printf(" --inject %s", injections[i]);
	for (i = 0; i < settings.calls; i++)
		left += program->left_out[i];
	for (i = 0; left > 0 && i < settings.calls; i++) {
		if (program->left_out[i])
			continue;
		printf(first ? " --keep %d" : ",%d", i);
		first = 0;
	}
	printf("\n");
}

/* Drops calls as long as the rest still differs at the same call. */
static void minimise(struct program *program, struct difference *difference, int most)
{
	struct program smaller;
	struct difference found;
	int size, from, i, at = difference->at, tries = 0;

	for (i = at + 1; at >= 0 && i < settings.calls; i++)
		program->left_out[i] = 1;
	for (size = settings.calls / 2; size > 0; size /= 2) {
		for (from = 0; from < settings.calls && tries < most && !stopped; from += size) {
			int changed = 0;

			smaller = *program;
			for (i = from; i < from + size && i < settings.calls; i++) {
				if (smaller.left_out[i] || i == at)
					continue;
				smaller.left_out[i] = 1;
				changed = 1;
			}
			if (!changed)
				continue;
			tries++;
			if (compare(&smaller, &found) == DIFFERS && found.at == at)
				*program = smaller;
		}
	}
	program->dump = at;
	if (compare(program, &found) == DIFFERS)
		*difference = found;
}

/* The number of earlier differences of this kind. */
static long count_kind(const char *name)
{
	int i;

	for (i = 0; i < TEST_LENGTH(kinds) && kinds[i].count > 0; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].count++;
	if (i == TEST_LENGTH(kinds))
		return 0;
	snprintf(kinds[i].name, sizeof(kinds[i].name), "%s", name);
	kinds[i].count = 1;
	return 0;
}

static void show_difference(struct program *program, struct difference *difference)
{
	char options[sizeof(other->options)];
	struct difference again;
	int i, repeated = 0, hangs = strstr(difference->kind, "hangs") != NULL, first;

	if (count_kind(difference->kind) >= SHOWN_MAX)
		return;
	snprintf(options, sizeof(options), "%s", other->options);
	settings.run_limit = hangs ? 3 : RUN_LIMIT;
	for (i = 0; i < 3; i++)
		repeated += compare(program, &again) == DIFFERS && again.at == difference->at;
	if (repeated == 3 && !is_flight(program->seed))
		minimise(program, difference, hangs ? 12 : 400);
	settings.run_limit = RUN_LIMIT;
	printf("\nDIFFERENCE %ld, seed %llu, %s", totals.differences, (unsigned long long)program->seed,
	       difference->kind);
	printf(", seen again %d times of 3\n%s\n", repeated, options);
	/* Prints the remaining program, or its last calls. */
	first = repeated == 3 ? 0 : difference->at - 4;
	for (i = first < 0 ? 0 : first; i < settings.calls && !is_flight(program->seed); i++)
		if (!program->left_out[i] && (difference->at < 0 || i <= difference->at))
			print_call(program->seed, i);
	printf("%s", difference->what);
	print_command(program);
	fflush(stdout);
}

static void count(const struct program *program)
{
	int i;

	totals.programs++;
	if (is_flight(program->seed)) {
		totals.flights++;
		return;
	}
	for (i = 0; i < settings.calls; i++) {
		const struct record *record = &other->records[i];

		if (program->left_out[i])
			continue;
		if (i >= other->started)
			break;
		totals.calls += !record->skipped;
		totals.skipped += record->skipped;
		totals.background += record->background;
		totals.inline_done += !record->skipped && !record->background;
		if (!record->skipped)
			totals.seen[(unsigned long)record->number % 1024] = 1;
	}
}

static void show(const struct program *program)
{
	struct difference difference;
	int i;

	for (i = 0; i < settings.calls && !is_flight(program->seed); i++) {
		if (program->left_out[i])
			continue;
		print_call(program->seed, i);
		difference.what[0] = 0;
		describe_record("    ", &other->records[i], &difference);
		printf("%s", difference.what);
	}
}

/* ---- The command ---- */

static void usage(void)
{
	fprintf(stderr, "fuzz [--seed N] [--seconds N | --programs N] [--calls-per-program N] [--only NAME]\n"
			"     [--self] [--without-ring] [--keep N,...] [-v]\n"
			"     [--inject inline|background|false-eof|attempts-fail]\n");
	exit(2);
}

static void keep_only(struct program *program, const char *list)
{
	char *end;
	long index;

	memset(program->left_out, 1, sizeof(program->left_out));
	for (; *list; list = *end == ',' ? end + 1 : end) {
		index = strtol(list, &end, 10);
		if (end == list || index < 0 || index >= FUZZ_CALLS)
			usage();
		program->left_out[index] = 0;
	}
}

static void take_option(int *at, int count, char **words, struct program *program)
{
	const char *option = words[*at], *value = *at + 1 < count ? words[*at + 1] : NULL;
	int i;

	if (strcmp(option, "-v") == 0) {
		settings.verbose = 1;
	} else if (strcmp(option, "--self") == 0) {
		settings.self = 1;
	} else if (strcmp(option, "--without-ring") == 0) {
		settings.flags |= LAIO_WITHOUT_RING;
	} else if (!value) {
		usage();
	} else {
		++*at;
		if (strcmp(option, "--seed") == 0) {
			settings.seed = strtoull(value, NULL, 10);
		} else if (strcmp(option, "--seconds") == 0) {
			settings.seconds = atol(value);
		} else if (strcmp(option, "--programs") == 0) {
			settings.programs = atol(value);
		} else if (strcmp(option, "--calls-per-program") == 0) {
			settings.calls = atoi(value);
		} else if (strcmp(option, "--only") == 0) {
			settings.only = value;
		} else if (strcmp(option, "--keep") == 0) {
			keep_only(program, value);
		} else if (strcmp(option, "--inject") == 0) {
			for (i = 0; i < TEST_LENGTH(injections); i++)
				if (strcmp(value, injections[i]) == 0)
					break;
			if (i == TEST_LENGTH(injections))
				usage();
			settings.flags |= LAIO_INJECT_INLINE << i;
		} else {
			usage();
		}
	}
	if (settings.calls < 1 || settings.calls > FUZZ_CALLS)
		usage();
}

/* Whether a call of the table or a wild call has this name. */
static void check_only(void)
{
	int i;

	if (!settings.only || strcmp(settings.only, "wild") == 0 || strcmp(settings.only, "flight") == 0)
		return;
	for (i = 0; i < TEST_LENGTH(shapes); i++)
		if (strstr(shapes[i].name, settings.only))
			return;
	usage();
}

static void *share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static int print_totals(void)
{
	int i, calls = 0;

	for (i = 0; i < TEST_LENGTH(totals.seen); i++)
		calls += totals.seen[i];
	for (i = 0; i < TEST_LENGTH(kinds) && kinds[i].count > 0; i++)
		printf("%6ld x %s\n", kinds[i].count, kinds[i].name);
	printf("%ld programs (%ld with operations in flight), %ld calls of %d system calls, %ld inline, "
	       "%ld in the background, %ld skipped since they would wait, %ld programs unusable, %ld differences\n",
	       totals.programs, totals.flights, totals.calls, calls, totals.inline_done, totals.background,
	       totals.skipped, totals.unusable, totals.differences);
	return totals.differences ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct program given, program;
	struct difference difference;
	char top[PATH_MAX];
	time_t end;
	int i;

	settings.seed = (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
	settings.calls = 60;
	settings.run_limit = RUN_LIMIT;
	settings.bounces = test_backend_is("linux-aio");
	settings.carried = test_backend_is("activations");
	for (i = 1; i < argc; i++)
		take_option(&i, argc, argv, &given);
	if (settings.programs == 0 && settings.seconds == 0)
		settings.programs = 200;
	check_only();
	if (!settings.self)
		test_start();
	test_need_pipes();
	alarm(0);
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	make_arena();
	find_anonymous_device();
	plain = (struct report *)share(sizeof(*plain));
	other = (struct report *)share(sizeof(*other));
	test_directory(top);
	snprintf(settings.root, sizeof(settings.root), "%.4000s/root", top);
	printf("seed %llu\n", (unsigned long long)settings.seed);
	fflush(stdout);
	end = time(NULL) + settings.seconds;
	for (i = 0; !stopped && (settings.seconds ? time(NULL) < end : i < settings.programs); i++) {
		int got;

		program = given;
		program.seed = settings.seed + (uint64_t)i;
		program.dump = -1;
		got = compare(&program, &difference);
		count(&program);
		if (got == UNUSABLE) {
			totals.unusable++;
			printf("unusable: seed %llu: %s", (unsigned long long)program.seed, difference.what);
			if (difference.at >= 0)
				print_call(program.seed, difference.at);
		}
		if (settings.verbose)
			show(&program);
		if (got == DIFFERS) {
			totals.differences++;
			show_difference(&program, &difference);
		}
	}
	rmdir(top);
	return print_totals();
}

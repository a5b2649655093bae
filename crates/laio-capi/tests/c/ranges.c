/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * ranges.c - laio_read_ranges(): each range has what pread(2) returns, and a request is one operation.
 */
#include "test.h"

#define SIZE 1500001
#define MOST 24
/* What a buffer has before it is read into, and must keep after its bytes. */
#define UNTOUCHED 0xee

static uint32_t seed = 1;

static uint32_t below(uint32_t limit)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)seed * limit) >> 32);
}

static unsigned char byte_at(size_t offset)
{
	return (unsigned char)(offset * 7 + offset / 251 + offset / 65536);
}

static int open_file(const char *place)
{
	static char bytes[SIZE];
	char name[PATH_MAX];
	size_t i;
	int fd;

	for (i = 0; i < SIZE; i++)
		bytes[i] = (char)byte_at(i);
	snprintf(name, sizeof(name), "%s/laio-ranges-XXXXXX", place);
	fd = mkstemp(name);
	if (fd < 0)
		return -1;
	CHECK_IS(unlink(name), 0);
	CHECK_IS(pwrite(fd, bytes, SIZE, 0), SIZE);
	return fd;
}

/* Memory of a test's ranges; some buffers begin on a page. */
struct area {
	struct laio_range ranges[MOST];
	char *memory;
	size_t size;
	int count;
};

static void make_area(struct area *area)
{
	static const uint32_t longest[] = { 10, 5000, 100000, 700000 };
	uint32_t most = longest[below(4)], block = below(3) ? 1 : 4096;
	size_t used = 0;
	void *memory;
	int i;

	area->count = (int)below(MOST + 1);
	area->size = (size_t)MOST * (most + 8192);
	CHECK_IS(posix_memalign(&memory, 4096, area->size), 0);
	area->memory = (char *)memory;
	memset(area->memory, UNTOUCHED, area->size);
	memset(area->ranges, 0xa5, sizeof(area->ranges));
	for (i = 0; i < area->count; i++) {
		struct laio_range *range = &area->ranges[i];

		used = below(2) ? (used + 4095) / 4096 * 4096 : used + below(50);
		range->offset = below(SIZE + SIZE / 8) / block * block;
		range->length = below(most) / block * block;
		range->buffer = range->length ? area->memory + used : NULL;
		used += range->length;
	}
	CHECK(used <= area->size);
}

/* Every range has the bytes of the file, and nothing else was written. Returns their number. */
static long check_area(const struct area *area)
{
	const char *at = area->memory, *end = area->memory + area->size;
	long total = 0;
	int i;

	for (i = 0; i < area->count; i++) {
		const struct laio_range *range = &area->ranges[i];
		const char *buffer = (const char *)range->buffer;
		size_t there = range->offset < SIZE ? SIZE - range->offset : 0, k;
		size_t expected = range->length < there ? range->length : there;

		CHECK_IS(range->laio_errno, 0);
		CHECK_IS(range->laio_reserved, 0);
		CHECK_IS(range->laio_return_value, expected);
		total += range->laio_return_value;
		if (!buffer)
			continue;
		for (; at < buffer; at++)
			CHECK((unsigned char)*at == UNTOUCHED);
		for (k = 0; k < expected; k++)
			if ((unsigned char)buffer[k] != byte_at(range->offset + k))
				TEST_FAIL("range %d: byte %zu", i, k);
		at = buffer + expected;
		for (; at < buffer + range->length && at < buffer + expected + 100; at++)
			CHECK((unsigned char)*at == UNTOUCHED);
		at = buffer + range->length;
	}
	for (; at < end; at++)
		CHECK((unsigned char)*at == UNTOUCHED);
	return total;
}

/* A request that may be in flight, and its handle. */
static long begin(struct laio_context *context, const struct laio_ranges *request, void **handle)
{
	long value = laio_read_ranges(context, request, handle);
	int error = errno;

	CHECK((value == -1 && error == EINPROGRESS) == (*handle != NULL));
	if (context == NULL)
		CHECK(laio_gethandle() == *handle);
	errno = error;
	return value;
}

static long finish(struct laio_context *context, const struct laio_ranges *request)
{
	struct laio_completion completion;
	void *handle;
	long value = begin(context, request, &handle);

	if (!handle)
		return value;
	CHECK_IS(laio_pending(context), 1);
	completion = test_await(context, handle);
	CHECK_IS(laio_pending(context), 0);
	CHECK(completion.laio_user == request->user);
	CHECK_IS(completion.laio_reserved, 0);
	errno = completion.laio_errno;
	return completion.laio_return_value;
}

static struct laio_context *context_with(uint32_t flags, uint32_t short_transfer)
{
	struct laio_options options = LAIO_OPTIONS_INIT;
	struct laio_context *context;

	options.flags = flags;
	options.short_transfer = short_transfer;
	context = laio_context_new(&options);
	CHECK(context != NULL);
	return context;
}

static void random_ranges(struct laio_context *context, const char *place, int rounds)
{
	static const uint32_t flags[] = { 0, LAIO_DIRECT_AUTO, LAIO_DIRECT_ALWAYS };
	static const uint32_t depths[] = { 0, 1, 3, 200 };
	int fd = open_file(place);
	int i;

	if (fd < 0) {
		test_left_out(place, strerror(errno));
		return;
	}
	for (i = 0; i < rounds; i++) {
		struct laio_range_stats stats = LAIO_RANGE_STATS_INIT;
		struct area area;

		make_area(&area);
		{
			struct laio_ranges request = LAIO_RANGES_INIT(fd, area.ranges, (size_t)area.count);
			long value;

			request.flags = flags[below(3)];
			request.depth = depths[below(4)];
			request.user = &area;
			request.stats = below(2) ? &stats : NULL;
			value = finish(context, &request);
			CHECK_IS(value, check_area(&area));
			if (request.stats) {
				CHECK(stats.reason != NULL && strstr(stats.reason, "direct") != NULL);
				CHECK(request.flags == LAIO_DIRECT_ALWAYS || !stats.direct);
				CHECK(stats.direct || stats.direct_reads == 0);
				CHECK(stats.direct_reads + stats.cached_reads >= stats.reads);
				CHECK(value == 0 || stats.reads > 0);
			}
		}
		free(area.memory);
	}
	close(fd);
}

static void random_ranges_everywhere(void)
{
	static const uint32_t flags[] = { 0, LAIO_INJECT_BACKGROUND, LAIO_INJECT_INLINE,
					  LAIO_INJECT_FALSE_EOF, LAIO_INJECT_ATTEMPTS_FAIL };
	const char *place = getenv("TMPDIR");
	int rounds = test_under_valgrind() ? 3 : 30, i;

	for (i = 0; i < TEST_LENGTH(flags); i++) {
		struct laio_context *context = context_with(flags[i], i == 1 ? 10000 : 0);

		random_ranges(context, place && *place ? place : "/tmp", rounds);
		random_ranges(context, "/dev/shm", rounds);
		CHECK_IS(laio_context_free(context), 0);
	}
	random_ranges(NULL, place && *place ? place : "/tmp", rounds);
}

static void arguments(void)
{
	char byte = 0;
	struct laio_range range = { 0, &byte, 1, 77, 77, 77 };
	struct laio_range_stats stats = LAIO_RANGE_STATS_INIT;
	int fd = open_file("/tmp");
	struct laio_ranges request = LAIO_RANGES_INIT(fd, &range, 1);
	const struct timespec bad = { 0, -1 };
	void *handle = &byte;

	CHECK_FAILS(laio_read_ranges(NULL, NULL, &handle), EFAULT);
	CHECK(handle == NULL);
	request.size = 8;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	request.size = sizeof(request);
	request.flags = LAIO_DIRECT_AUTO | LAIO_DIRECT_ALWAYS;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	request.flags = 4;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	request.flags = 0;
	request.timeout = &bad;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	request.timeout = NULL;
	request.ranges = NULL;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EFAULT);
	request.ranges = &range;
	range.buffer = NULL;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EFAULT);
	range.buffer = &byte;
	range.offset = UINT64_MAX;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	range.offset = 0;
	range.length = SIZE_MAX;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	range.length = 1;
	stats.size = 4;
	request.stats = &stats;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EINVAL);
	stats.size = sizeof(stats);
	request.fd = -1;
	CHECK_FAILS(laio_read_ranges(NULL, &request, NULL), EBADF);
	CHECK_FAILS(laio_read_ranges((struct laio_context *)&byte, &request, NULL), EINVAL);
	/* None of these has a result. */
	CHECK_IS(range.laio_return_value, 77);
	CHECK_IS(range.laio_errno, 77);
	request.fd = fd;
	request.count = 0;
	request.ranges = NULL;
	CHECK_IS(finish(NULL, &request), 0);
	close(fd);
	request.ranges = &range;
	request.count = 1;
	CHECK_FAILS(finish(NULL, &request), EBADF);
	CHECK_IS(range.laio_return_value, -1);
	CHECK_IS(range.laio_errno, EBADF);
}

/* A range with an error: the others are read. */
static void errors(void)
{
	char bytes[3][10];
	struct laio_range ranges[3];
	struct laio_ranges request = LAIO_RANGES_INIT(-1, ranges, 3);
	int i;

	memset(ranges, 0, sizeof(ranges));
	for (i = 0; i < 3; i++) {
		ranges[i].buffer = bytes[i];
		ranges[i].length = sizeof(bytes[i]);
	}
	/* Beyond the largest offset of a file. */
	ranges[1].offset = (uint64_t)1 << 63;
	ranges[2].offset = 5;
	request.fd = open_file("/tmp");
	CHECK_FAILS(finish(NULL, &request), EINVAL);
	CHECK_IS(ranges[0].laio_return_value, 10);
	CHECK_IS(ranges[1].laio_return_value, -1);
	CHECK_IS(ranges[1].laio_errno, EINVAL);
	CHECK_IS(ranges[2].laio_return_value, 10);
	CHECK_IS((unsigned char)bytes[2][0], byte_at(5));
	close(request.fd);
	request.fd = open("/tmp", O_RDONLY | O_DIRECTORY);
	request.flags = LAIO_DIRECT_ALWAYS;
	CHECK_FAILS(finish(NULL, &request), EISDIR);
	CHECK_IS(ranges[0].laio_errno, EISDIR);
	close(request.fd);
}

/* What was written before a request is read, whether it has reached the device or not. */
static void written_before(void)
{
	static char written[20000], bytes[20000];
	struct laio_range range = { 0, bytes, 0, 0, 0, 0 };
	int fd = open_file("/tmp"), i;
	struct laio_ranges request = LAIO_RANGES_INIT(fd, &range, 1);

	request.flags = LAIO_DIRECT_ALWAYS;
	for (i = 0; i < 30; i++) {
		range.length = 1 + below(sizeof(written) - 1);
		range.offset = below(SIZE - sizeof(written));
		memset(written, i, sizeof(written));
		CHECK_IS(pwrite(fd, written, range.length, (off_t)range.offset), range.length);
		CHECK_IS(finish(NULL, &request), range.length);
		CHECK(memcmp(bytes, written, range.length) == 0);
	}
	close(fd);
}

/* ---- A request in flight is one operation ---- */

/* A request of which some operation is in flight. */
static void *begin_pending(struct laio_context *context, struct laio_ranges *request, struct area *area)
{
	void *handle;
	int i;

	make_area(area);
	area->count = MOST;
	for (i = 0; i < MOST; i++) {
		struct laio_range *range = &area->ranges[i];

		memset(range, 0, sizeof(*range));
		range->offset = (uint64_t)i * 60000;
		range->length = 3000;
		range->buffer = area->memory + i * 3000;
	}
	request->ranges = area->ranges;
	request->count = MOST;
	request->depth = 4;
	request->flags = LAIO_DIRECT_ALWAYS;
	CHECK_FAILS(laio_read_ranges(context, request, &handle), EINPROGRESS);
	CHECK(handle != NULL);
	return handle;
}

static void handles(struct laio_context *context, int fd)
{
	struct laio_ranges request = LAIO_RANGES_INIT(fd, NULL, 0);
	struct timespec zero = test_ms(0), hour = test_ms(3600000);
	struct laio_completion completion;
	struct laio_info info = LAIO_INFO_INIT;
	struct area area, other;
	void *handle, *second;
	int mark;

	/* The user pointer, a time-out that does not pass, laio_take(). */
	handle = begin_pending(context, &request, &area);
	CHECK_IS(laio_pending(context), 1);
	CHECK_IS(laio_info(context, &info), 0);
	CHECK_IS(info.pending, 1);
	CHECK_IS(laio_set_user(context, handle, &mark), 0);
	CHECK_IS(laio_set_timeout(context, handle, &hour), 0);
	CHECK_IS(laio_set_timeout(context, handle, NULL), 0);
	while (laio_take(context, handle, &completion) == -1) {
		CHECK_IS(errno, EINPROGRESS);
		test_nap();
	}
	CHECK_COMPLETION(completion, handle, check_area(&area), 0);
	CHECK(completion.laio_user == &mark);
	CHECK_IS(laio_pending(context), 0);
	CHECK_FAILS(laio_take(context, handle, &completion), ENOENT);
	CHECK_FAILS(laio_cancel(context, handle), ENOENT);
	CHECK_FAILS(laio_set_user(context, handle, NULL), ENOENT);
	CHECK_FAILS(laio_set_timeout(context, handle, NULL), ENOENT);
	free(area.memory);

	/* Cancelled: each range has its bytes, or ECANCELED. */
	handle = begin_pending(context, &request, &area);
	CHECK_IS(laio_cancel(context, handle), 0);
	CHECK_IS(laio_cancel(context, handle), 0);
	completion = test_await(context, handle);
	if (completion.laio_errno == 0) {
		CHECK_IS(completion.laio_return_value, check_area(&area));
	} else {
		int i;

		CHECK_IS(completion.laio_errno, ECANCELED);
		for (i = 0; i < MOST; i++)
			CHECK(area.ranges[i].laio_errno == ECANCELED || area.ranges[i].laio_return_value == 3000);
	}
	free(area.memory);

	/* A time-out that has passed: again all or nothing for each. */
	request.timeout = &zero;
	handle = begin_pending(context, &request, &area);
	request.timeout = NULL;
	completion = test_await(context, handle);
	CHECK(completion.laio_errno == 0 || completion.laio_errno == ETIME);
	free(area.memory);

	/* Two at a time, and both are delivered by one poll after the other. */
	handle = begin_pending(context, &request, &area);
	second = begin_pending(context, &request, &other);
	CHECK(handle != second);
	CHECK_IS(laio_pending(context), 2);
	for (mark = 0; mark < 2;) {
		int got = laio_context_poll(context, &completion, 1, NULL);

		CHECK(got == 0 || got == 1);
		if (got == 1) {
			CHECK(completion.laio_handle == handle || completion.laio_handle == second);
			CHECK_IS(completion.laio_errno, 0);
			mark++;
		}
	}
	CHECK_IS(check_area(&area), MOST * 3000);
	CHECK_IS(check_area(&other), MOST * 3000);
	free(area.memory);
	free(other.memory);
}

/* An operation of another kind is delivered while a request is in flight, and the descriptor reports both. */
static void beside_others(struct laio_context *context, int fd)
{
	struct laio_ranges request = LAIO_RANGES_INIT(fd, NULL, 0);
	struct laio_completion completions[4];
	struct area area;
	struct timespec zero = test_ms(0);
	void *handle, *reading;
	int fds[2], got = 0, i, seen = 0, notified;
	char byte;

	notified = laio_fd(context);
	CHECK(notified >= 0);
	test_pipe(fds);
	reading = test_begin_read(context, fds[0], &byte, 1);
	handle = begin_pending(context, &request, &area);
	CHECK_IS(laio_pending(context), 2);
	CHECK_IS(write(fds[1], "x", 1), 1);
	while (seen < 2) {
		test_sleep(-1, notified);
		/* With room for one, so that more are left. */
		do {
			got = laio_context_poll(context, completions, 1, &zero);
			CHECK(got >= 0);
			for (i = 0; i < got; i++, seen++) {
				void *which = completions[i].laio_handle;

				CHECK(which == handle || which == reading);
				CHECK_IS(completions[i].laio_errno, 0);
				CHECK_IS(completions[i].laio_return_value,
					 which == handle ? MOST * 3000 : 1);
			}
		} while (got == 1);
	}
	CHECK_IS(laio_pending(context), 0);
	CHECK_IS(check_area(&area), MOST * 3000);
	test_settles(context, notified);
	test_close_pipe(fds);
	free(area.memory);
}

static void in_child(void *context)
{
	struct laio_context *own = (struct laio_context *)context;
	struct laio_completion completion;
	struct timespec zero = test_ms(0);

	CHECK_IS(laio_pending(own), 0);
	CHECK_IS(laio_context_poll(own, &completion, 1, &zero), 0);
	/* Without a search for leaks: the memory of the parent's operations stays in the child. */
	_exit(0);
}

static void forked(struct laio_context *context, int fd)
{
	struct laio_ranges request = LAIO_RANGES_INIT(fd, NULL, 0);
	struct laio_completion completion;
	struct area area;
	void *handle = begin_pending(context, &request, &area);

	test_reap(test_fork(in_child, context));
	completion = test_await(context, handle);
	CHECK_COMPLETION(completion, handle, MOST * 3000, 0);
	CHECK_IS(check_area(&area), MOST * 3000);
	free(area.memory);
}

/* The end of a context waits until nothing writes to the buffers. */
static void ended(int fd)
{
	struct laio_context *context = context_with(LAIO_INJECT_BACKGROUND, 0);
	struct laio_ranges request = LAIO_RANGES_INIT(fd, NULL, 0);
	struct area area;

	begin_pending(context, &request, &area);
	CHECK_IS(laio_context_free(context), 0);
	memset(area.memory, 1, area.size);
	free(area.memory);
}

int main(void)
{
	test_start();
	random_ranges_everywhere();
	arguments();
	errors();
	written_before();
	if (test_pends()) {
		struct laio_context *context = context_with(LAIO_INJECT_BACKGROUND, 0);
		int fd = open_file("/tmp"), i;

		for (i = 0; i < 20; i++)
			handles(context, fd);
		beside_others(context, fd);
		forked(context, fd);
		handles(context, fd);
		CHECK_IS(laio_context_free(context), 0);
		for (i = 0; i < 20; i++)
			ended(fd);
		close(fd);
	}
	return 0;
}

/*
 * Measures the cost of the C API: calls through laio_syscall() and plain syscall(2), interleaved, in one
 * run; and the same from several threads at once, which shows whether they slow each other down.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <laio.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 101, CALLS = 10000, THREADS_MAX = 8, THREAD_ROUNDS = 21 };

static int file;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), by_value);
	return values[count / 2];
}

static void getpid_plain(char *buffer)
{
	(void)buffer;
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getpid);
}

static void getpid_laio(char *buffer)
{
	(void)buffer;
	for (int i = 0; i < CALLS; i++)
		laio_syscall(SYS_getpid);
}

static void pread_plain(char *buffer)
{
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_pread64, file, buffer, (size_t)4096, (off_t)0);
}

static void pread_laio(char *buffer)
{
	for (int i = 0; i < CALLS; i++)
		if (laio_syscall(SYS_pread64, file, buffer, (size_t)4096, (off_t)0) != 4096) {
			fprintf(stderr, "pread did not finish inline: %s\n", strerror(errno));
			exit(1);
		}
}

typedef void calls(char *buffer);

static double time_of(calls *act, char *buffer)
{
	double start = now_ns();

	act(buffer);
	return (now_ns() - start) / CALLS;
}

static void compare(const char *name, calls *plain, calls *laio)
{
	static double base[ROUNDS], cost[ROUNDS], ratio[ROUNDS];
	char buffer[4096];

	plain(buffer);
	laio(buffer);
	for (int i = 0; i < ROUNDS; i++) {
		base[i] = time_of(plain, buffer);
		cost[i] = time_of(laio, buffer);
		ratio[i] = cost[i] / base[i];
	}
	double plain_ns = median(base, ROUNDS), laio_ns = median(cost, ROUNDS);

	median(ratio, ROUNDS);
	printf("%-22s %8.1f ns %8.1f ns   ratio %.2f   (quartiles %.2f to %.2f)\n", name, plain_ns, laio_ns,
	       ratio[ROUNDS / 2], ratio[ROUNDS / 4], ratio[3 * ROUNDS / 4]);
}

static pthread_barrier_t start_line;
static calls *round_of;

static void *run_thread(void *rounds)
{
	char buffer[4096];

	round_of(buffer); /* the context is made before the clock starts */
	pthread_barrier_wait(&start_line);
	for (long i = 0; i < (long)rounds; i++)
		round_of(buffer);
	pthread_barrier_wait(&start_line);
	return NULL;
}

/* Returns the processor time of one call while this many threads make it. */
static double cpu_ns_per_call(calls *act, int count)
{
	pthread_t threads[THREADS_MAX];
	struct timespec before, after;
	long rounds = 40;

	round_of = act;
	pthread_barrier_init(&start_line, NULL, (unsigned)count + 1);
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run_thread, (void *)rounds) != 0) {
			fprintf(stderr, "cannot start a thread\n");
			exit(1);
		}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	pthread_barrier_wait(&start_line);
	pthread_barrier_wait(&start_line);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start_line);
	double spent = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);

	return spent / ((double)rounds * CALLS * count);
}

static void scale(void)
{
	printf("\nProcessor time of one getpid, by the number of threads that make it (a shared line that is\n"
	       "written would make it grow for laio and not for the plain call):\n");
	for (int count = 1; count <= THREADS_MAX; count *= 2) {
		double plain[THREAD_ROUNDS], laio[THREAD_ROUNDS], ratio[THREAD_ROUNDS];

		for (int i = 0; i < THREAD_ROUNDS; i++) {
			plain[i] = cpu_ns_per_call(getpid_plain, count);
			laio[i] = cpu_ns_per_call(getpid_laio, count);
			ratio[i] = laio[i] / plain[i];
		}
		printf("%d threads %19.1f ns %8.1f ns   ratio %.2f\n", count, median(plain, THREAD_ROUNDS),
		       median(laio, THREAD_ROUNDS), median(ratio, THREAD_ROUNDS));
	}
}

int main(int argc, char **argv)
{
	struct laio_info info = LAIO_INFO_INIT;

	(void)argc;
	file = open(argv[0], O_RDONLY | O_CLOEXEC);
	if (file == -1 || laio_info(NULL, &info) == -1) {
		fprintf(stderr, "cannot begin: %s\n", strerror(errno));
		return 1;
	}
	printf("laio %s, back end %s%s; medians of %d rounds of %d calls\n\n", laio_version(), info.backend,
	       info.flags & LAIO_INFO_RING ? " with io_uring" : "", ROUNDS, CALLS);
	printf("%-22s %11s %11s\n", "", "syscall(2)", "laio");
	compare("getpid", getpid_plain, getpid_laio);
	compare("pread, 4 KiB, cached", pread_plain, pread_laio);
	scale();
	return 0;
}

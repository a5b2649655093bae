// Reads random ranges of a file for some seconds: by pread with O_DIRECT in threads, by pread through the page cache
// in threads, or from a mapping in threads. For benches/ranges.sh. With "chunks": THREADS ranges of a mapping, once.
//
//   ranges FILE BYTES THREADS SECONDS direct|cached|map|chunks
//
// Prints reads per second, and µs of processor time for each read.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int file;
static const char *map;
static uint64_t size, bytes, places, place;
static double until;

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static uint64_t next(uint64_t *seed) {  // SplitMix64
    uint64_t bits = *seed += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
}

static void *work(void *argument) {
    uint64_t seed = (uintptr_t)argument, reads = 0;
    char *buffer;
    if (posix_memalign((void **)&buffer, 4096, bytes)) abort();
    while (seconds(CLOCK_MONOTONIC) < until) {
        uint64_t at = next(&seed) % places * place;
        if (map) {
            memcpy(buffer, map + at, bytes);
        } else if (pread(file, buffer, bytes, at) != (ssize_t)bytes) {
            perror("pread");
            exit(1);
        }
        reads++;
    }
    return (void *)(uintptr_t)reads;
}

// Looks at every page of so many ranges of the mapping, once. Prints ms, ms of processor time, and a sum.
static void chunks(uint64_t count) {
    double start = seconds(CLOCK_MONOTONIC), before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    const unsigned char *map = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    uint64_t sum = 0;
    for (uint64_t number = 0; number < count; number++)
        for (uint64_t at = 0; at < bytes; at += 4096) sum += map[(size - bytes) / count * number + at];
    printf("%.1f %.1f %lu\n", (seconds(CLOCK_MONOTONIC) - start) * 1e3,
           (seconds(CLOCK_PROCESS_CPUTIME_ID) - before) * 1e3, sum);
}

int main(int count, char **arguments) {
    if (count != 6) {
        fputs("usage: ranges FILE BYTES THREADS SECONDS direct|cached|map\n", stderr);
        return 2;
    }
    int direct = !strcmp(arguments[5], "direct") ? O_DIRECT : 0;
    file = open(arguments[1], O_RDONLY | direct);
    struct stat status;
    if (file < 0 || fstat(file, &status)) {
        perror(arguments[1]);
        return 1;
    }
    size = status.st_size;
    bytes = strtoull(arguments[2], NULL, 10);
    if (!strcmp(arguments[5], "chunks")) return chunks(atol(arguments[3])), 0;
    place = bytes + 16384 + 4096;
    places = size / place;
    if (!strcmp(arguments[5], "map")) {
        map = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
        if (map == MAP_FAILED) return perror("mmap"), 1;
    }
    double start = seconds(CLOCK_MONOTONIC);
    until = start + atof(arguments[4]);
    long threads = atol(arguments[3]);
    pthread_t *all = calloc(threads, sizeof *all);
    for (long number = 0; number < threads; number++)
        if (pthread_create(&all[number], NULL, work, (void *)(number + 1))) abort();
    uint64_t reads = 0;
    for (long number = 0; number < threads; number++) {
        void *some;
        pthread_join(all[number], &some);
        reads += (uintptr_t)some;
    }
    double took = seconds(CLOCK_MONOTONIC) - start;
    printf("%.0f %.2f\n", reads / took, seconds(CLOCK_PROCESS_CPUTIME_ID) * 1e6 / reads);
}

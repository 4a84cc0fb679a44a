/* Bandwidth of many pairs at once, each message of a window in a buffer of its own, rewritten before every window:
 * Chai, Lai, Jin and Panda 2008, figure 2 (every window in buffers that were not used lately) and figure 3 (--reuse:
 * every window in the same buffers). Only the transfer is timed, not the writing: the bytes of all pairs, in MB, by the
 * seconds from the first pair's start to the last one's end. (The mean of the pairs' own times would be less where
 * pairs share CPUs and have to follow one another, the less the later a barrier lets each of them go.) */
#include "common.h"
#include <time.h>

enum { LINE = 64 };
static const char *reuse;
static MPI_Request *requests;

static size_t room(size_t size) { return (size + LINE - 1) / LINE * LINE; }

static void rewrite(char *at, size_t size, unsigned seed)
{
    for (int i = 0; i < options.window; i++, at += room(size))
        if (options.validate)
            fill(at, size, seed + (unsigned)i);
        else
            memset(at, (int)seed + i, size);
}

static double now(void) /* the same for all ranks, which MPI_Wtime need not be */
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* One window, to the answer of the receiver. Nobody writes the next one before all have gone. */
static void transfer(char *at, size_t size, int sends, int peer, double *from, double *to)
{
    char answer = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    *from = now();
    for (int i = 0; i < options.window; i++, at += room(size))
        if (sends)
            MPI_Isend(at, (int)size, MPI_CHAR, peer, 100, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(at, (int)size, MPI_CHAR, peer, 100, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(options.window, requests, MPI_STATUSES_IGNORE);
    if (sends)
        MPI_Recv(&answer, 1, MPI_CHAR, peer, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(&answer, 1, MPI_CHAR, peer, 101, MPI_COMM_WORLD);
    *to = now();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Seconds that all windows took, from the first rank's start to the last one's end of each; on rank 0. */
static double spans(const double *from, const double *to, int windows)
{
    double *ends = malloc(sizeof *ends * 2 * (size_t)windows), *first = ends, *last = ends + windows, seconds = 0;
    MPI_Reduce(from, first, windows, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(to, last, windows, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < windows && rank == 0; i++)
        seconds += last[i] - first[i];
    free(ends);
    return seconds;
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"reuse", NULL, "the same buffers for every window", &reuse}, {0}};
    static const Benchmark benchmark = {
        "MPI Multi-Pair Bandwidth Test, a buffer for each message", "Size      Bandwidth (MB/s)", "MPI_CHAR", "mixcW",
        {.min = 1, .max = 1 << 20, .iterations = 100, .iterations_large = 20, .warmup = 10, .warmup_large = 2, .window = 64,
         .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks % 2)
        refuse("needs an even number of ranks");
    int pairs = ranks / 2, sends = rank < pairs, peer = sends ? rank + pairs : rank - pairs;
    size_t arena = room(options.max) * (size_t)options.window, cold = 4 * largest_cache();
    if (!reuse && arena < cold) /* a buffer comes again when it has left every cache */
        arena = cold;
    char *memory = buffer(arena);
    requests = malloc(sizeof *requests * (size_t)options.window);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        int skip = warmup(size), n = iterations(size);
        size_t length = room(size) * (size_t)options.window, places = reuse || !length ? 1 : arena / length;
        double *times = malloc(sizeof *times * 2 * (size_t)(skip + n)), *from = times, *to = times + skip + n;
        for (int i = 0; i < skip + n; i++) {
            char *at = memory + length * ((size_t)i % places);
            unsigned seed = (unsigned)(i * options.window);
            if (sends)
                rewrite(at, size, seed);
            transfer(at, size, sends, peer, &from[i], &to[i]);
            for (int k = 0; k < options.window && options.validate && !sends; k++)
                check(at + room(size) * (size_t)k, size, seed + (unsigned)k);
        }
        double rate = (double)size * n * options.window * pairs / 1e6 / spans(from + skip, to + skip, n);
        row(size, &rate, 1);
        free(times);
    }
    return end();
}

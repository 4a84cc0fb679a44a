/* Bandwidth of many pairs at once, each message of a window in a buffer of its own, rewritten before every window:
 * Chai, Lai, Jin and Panda 2008, figure 2 (every window in buffers that were not used lately) and figure 3 (--reuse:
 * every window in the same buffers). Only the transfer is timed, not the writing. MB/s over all pairs. */
#include "common.h"

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

/* One window; how long it took the sender, with the answer of the receiver. */
static double transfer(char *at, size_t size, int sends, int peer)
{
    char answer = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double from = MPI_Wtime();
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
    return MPI_Wtime() - from;
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
        double took = 0, all = 0;
        for (int i = 0; i < skip + n; i++) {
            char *at = memory + length * ((size_t)i % places);
            unsigned seed = (unsigned)(i * options.window);
            if (sends)
                rewrite(at, size, seed);
            double one = transfer(at, size, sends, peer);
            took += i < skip || !sends ? 0 : one;
            for (int k = 0; k < options.window && options.validate && !sends; k++)
                check(at + room(size) * (size_t)k, size, seed + (unsigned)k);
        }
        MPI_Reduce(&took, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        all = (double)size * n * options.window * pairs / 1e6 / (all / pairs);
        row(size, &all, 1);
    }
    return end();
}

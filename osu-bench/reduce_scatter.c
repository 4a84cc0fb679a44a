/* Sum of floats, spread over the ranks; the size is the bytes that one rank puts in. */
#include "common.h"

/* The share of rank `who` of `count` elements: equal, the first ones one longer. */
static int share(int who, size_t count) { return (int)(count / (size_t)ranks + ((size_t)who < count % (size_t)ranks)); }

static void call(const Run *run)
{
    static int *counts;
    static size_t of = SIZE_MAX;
    if (of != run->bytes) { /* once per size, in the warm-up */
        counts = realloc(counts, sizeof *counts * (size_t)ranks);
        for (int r = 0; r < ranks; r++)
            counts[r] = share(r, run->bytes / sizeof(float));
        of = run->bytes;
    }
    MPI_Reduce_scatter(run->send, run->receive, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void verify(const Run *run, unsigned seed)
{
    size_t count = run->bytes / sizeof(float), first = 0;
    for (int r = 0; r < rank; r++)
        first += (size_t)share(r, count);
    check_totals(run->receive, (size_t)share(rank, count), first, seed);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Reduce_scatter Latency Test", "Size       Avg Latency(us)", "MPI_FLOAT", "mixcfwF",
         COLLECTIVE_DEFAULTS(4)},
        1, 1, sizeof(float), call, put_terms, verify, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

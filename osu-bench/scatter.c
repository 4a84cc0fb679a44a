/* Rank 0 sends a block to every rank; the size is the bytes of a block. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Scatter(run->send, (int)run->bytes, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR, run->root, MPI_COMM_WORLD);
}

static void put(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        fill((char *)run->send + run->bytes * (size_t)r, run->bytes, seed * 1000 + (unsigned)r);
}

static void verify(const Run *run, unsigned seed) { check(run->receive, run->bytes, seed * 1000 + (unsigned)rank); }

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Scatter Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1)},
        0, 1, 1, call, put, verify, THE_ROOT, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

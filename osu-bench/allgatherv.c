/* Every rank gets every rank's block, with counts and displacements; the size is the bytes of a block. */
#include "common.h"

static int *counts, *places;

static void call(const Run *run)
{
    for (int r = 0; r < ranks; r++) {
        counts[r] = (int)run->bytes;
        places[r] = r * (int)run->bytes;
    }
    MPI_Allgatherv(run->send, (int)run->bytes, MPI_CHAR, run->receive, counts, places, MPI_CHAR, MPI_COMM_WORLD);
}

static void put(const Run *run, unsigned seed) { fill(run->send, run->bytes, seed * 251 + (unsigned)rank); }

static void verify(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        check((char *)run->receive + run->bytes * (size_t)r, run->bytes, seed * 251 + (unsigned)r);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Allgatherv Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF", COLLECTIVE_DEFAULTS(1)},
        1, 0, 1, call, put, verify, EVERYBODY, EVERYBODY};
    counts = calloc(1 << 16, sizeof *counts);
    places = calloc(1 << 16, sizeof *places);
    return collective_main(argc, argv, &collective);
}

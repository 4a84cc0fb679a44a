/* Every rank sends a block to every rank; the size is the bytes of a block. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Alltoall(run->send, (int)run->bytes, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

static unsigned name(unsigned seed, int from, int to) { return (seed * 251 + (unsigned)from) * 257 + (unsigned)to; }

static void put(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        fill((char *)run->send + run->bytes * (size_t)r, run->bytes, name(seed, rank, r));
}

static void verify(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        check((char *)run->receive + run->bytes * (size_t)r, run->bytes, name(seed, r, rank));
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI All-to-All Personalized Exchange Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcf",
         COLLECTIVE_DEFAULTS(1)},
        0, 0, 1, call, put, verify};
    return collective_main(argc, argv, &collective);
}

/* Every rank sends a block to every rank, with counts and displacements; the size is the bytes of a block. */
#include "common.h"

static int *counts, *places;

static void call(const Run *run)
{
    for (int r = 0; r < ranks; r++) {
        counts[r] = (int)run->bytes;
        places[r] = r * (int)run->bytes;
    }
    MPI_Alltoallv(run->send, counts, places, MPI_CHAR, run->receive, counts, places, MPI_CHAR, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI All-to-Allv Personalized Exchange Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1)},
        0, 0, 1, call, put_exchange, verify_exchange, EVERYBODY, EVERYBODY};
    counts = calloc(1 << 16, sizeof *counts);
    places = calloc(1 << 16, sizeof *places);
    return collective_main(argc, argv, &collective);
}

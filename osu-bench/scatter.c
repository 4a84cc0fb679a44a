/* Rank 0 sends a block to every rank; the size is the bytes of a block. */
#include "common.h"

static const char *counts;

static void call(const Run *run)
{
    if (counts)
        MPI_Scatterv(run->send, parts(run)->counts, parts(run)->places, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR,
                     run->root, MPI_COMM_WORLD);
    else
        MPI_Scatter(run->send, (int)run->bytes, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR, run->root, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"counts", NULL, "MPI_Scatterv, with counts and displacements", &counts}, {0}};
    static const Collective collective = {
        {"MPI Scatter Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1, .extra = extra)},
        0, 1, 1, call, put_blocks, verify_block, THE_ROOT, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

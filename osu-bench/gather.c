/* Rank 0 gets the block of every rank; the size is the bytes of a block. */
#include "common.h"

static const char *counts;

static void call(const Run *run)
{
    if (counts)
        MPI_Gatherv(run->send, (int)run->bytes, MPI_CHAR, run->receive, parts(run)->counts, parts(run)->places, MPI_CHAR,
                    run->root, MPI_COMM_WORLD);
    else
        MPI_Gather(run->send, (int)run->bytes, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR, run->root, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"counts", NULL, "MPI_Gatherv, with counts and displacements", &counts}, {0}};
    static const Collective collective = {
        {"MPI Gather Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1, .extra = extra)},
        1, 0, 1, call, put_block, verify_blocks_at_root, EVERYBODY, THE_ROOT};
    return collective_main(argc, argv, &collective);
}

/* Every rank gets every rank's block, with counts and displacements; the size is the bytes of a block. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Allgatherv(run->send, (int)run->bytes, MPI_CHAR, run->receive, parts(run)->counts, parts(run)->places, MPI_CHAR,
                   MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Allgatherv Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF", COLLECTIVE_DEFAULTS(1)},
        1, 0, 1, call, put_block, verify_blocks, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

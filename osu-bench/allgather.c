/* Every rank gets the block of every rank; the size is the bytes of a block. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Allgather(run->send, (int)run->bytes, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Allgather Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1)},
        1, 0, 1, call, put_block, verify_blocks, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

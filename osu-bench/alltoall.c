/* Every rank sends a block to every rank; the size is the bytes of a block. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Alltoall(run->send, (int)run->bytes, MPI_CHAR, run->receive, (int)run->bytes, MPI_CHAR, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI All-to-All Personalized Exchange Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1)},
        0, 0, 1, call, put_exchange, verify_exchange, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

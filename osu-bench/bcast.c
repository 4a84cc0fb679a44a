/* Broadcast from rank 0; the buffer is the receive buffer. */
#include "common.h"

static void call(const Run *run) { MPI_Bcast(run->receive, (int)run->bytes, MPI_CHAR, run->root, MPI_COMM_WORLD); }

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Broadcast Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1)},
        1, -1, 1, call, put_message, verify_message, THE_ROOT, ALL_BUT_THE_ROOT};
    return collective_main(argc, argv, &collective);
}

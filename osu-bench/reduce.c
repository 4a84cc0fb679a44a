/* Sum of floats to rank 0; the size is the bytes of one rank. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Reduce(run->send, run->receive, (int)(run->bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, run->root, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Reduce Latency Test", "Size       Avg Latency(us)", "MPI_FLOAT", "mixcfwF",
         COLLECTIVE_DEFAULTS(4)},
        1, 1, sizeof(float), call, put_terms, verify_totals_at_root, EVERYBODY, THE_ROOT};
    return collective_main(argc, argv, &collective);
}

/* Sum of floats, spread over the ranks; the size is the bytes that one rank puts in. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Reduce_scatter(run->send, run->receive, parts(run)->shares, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Reduce_scatter Latency Test", "Size       Avg Latency(us)", "MPI_FLOAT", "mixcfwF",
         COLLECTIVE_DEFAULTS(4)},
        1, 1, sizeof(float), call, put_terms, verify_share, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

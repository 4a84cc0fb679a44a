/* Every rank sends a block to every rank, with counts and displacements; the size is the bytes of a block. */
#include "common.h"

static const char *types;

static void call(const Run *run)
{
    const Parts *p = parts(run);
    if (types)
        MPI_Alltoallw(run->send, p->counts, p->places, p->types, run->receive, p->counts, p->places, p->types, MPI_COMM_WORLD);
    else
        MPI_Alltoallv(run->send, p->counts, p->places, MPI_CHAR, run->receive, p->counts, p->places, MPI_CHAR, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"types", NULL, "MPI_Alltoallw, with a datatype for each rank", &types}, {0}};
    static const Collective collective = {
        {"MPI All-to-Allv Personalized Exchange Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfwF",
         COLLECTIVE_DEFAULTS(1, .extra = extra)},
        0, 0, 1, call, put_exchange, verify_exchange, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

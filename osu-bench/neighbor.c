/* Every rank exchanges blocks with its two neighbours on a ring; the size is the bytes of a block. */
#include "ring.h"

static const char *same, *counts;

static void call(const Run *run)
{
    int n = (int)run->bytes;
    const Parts *p = counts ? parts(run) : NULL;
    if (same && counts)
        MPI_Neighbor_allgatherv(run->send, n, MPI_CHAR, run->receive, p->counts, p->places, MPI_CHAR, ring());
    else if (same)
        MPI_Neighbor_allgather(run->send, n, MPI_CHAR, run->receive, n, MPI_CHAR, ring());
    else if (counts)
        MPI_Neighbor_alltoallv(run->send, p->counts, p->places, MPI_CHAR, run->receive, p->counts, p->places, MPI_CHAR, ring());
    else
        MPI_Neighbor_alltoall(run->send, n, MPI_CHAR, run->receive, n, MPI_CHAR, ring());
}

static void put(const Run *run, unsigned seed) { (same ? put_block : put_for_neighbors)(run, seed); }

static void verify(const Run *run, unsigned seed) { (same ? verify_neighbors : verify_for_neighbors)(run, seed); }

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"same", NULL, "MPI_Neighbor_allgather: both neighbours get the same block", &same},
                                  {"counts", NULL, "the forms with counts and displacements", &counts}, {0}};
    static const Collective collective = {
        {"MPI Neighborhood Exchange Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcfw",
         COLLECTIVE_DEFAULTS(1, .extra = extra)},
        2, 2, 1, call, put, verify, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

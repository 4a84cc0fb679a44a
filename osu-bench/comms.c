/* How long making and freeing a communicator takes, in us: a duplicate, halves by MPI_Comm_split, and a ring whose ranks may
 * change places. */
#include "common.h"

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {"MPI Communicator Creation Test",
        "Ranks           Duplicate(us)         Split(us)          Ring(us)", NULL, "ix",
        {.iterations = 1000, .iterations_large = 1000, .warmup = 50, .warmup_large = 50}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    const int periodic = 1;
    enum { DUPLICATE, SPLIT, RING, KINDS };
    double took[KINDS] = {0};
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = -warmup(0); i < iterations(0); i++) {
            MPI_Comm made;
            MPI_Barrier(MPI_COMM_WORLD);
            double from = MPI_Wtime();
            if (kind == SPLIT)
                MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &made);
            else if (kind == RING)
                MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 1, &made);
            else
                MPI_Comm_dup(MPI_COMM_WORLD, &made);
            MPI_Comm_free(&made);
            if (i >= 0)
                took[kind] += MPI_Wtime() - from;
        }
    double all[KINDS];
    MPI_Allreduce(took, all, KINDS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < KINDS; i++)
        all[i] *= 1e6 / iterations(0) / ranks;
    row((size_t)ranks, all, KINDS);
    return end();
}

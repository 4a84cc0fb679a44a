/* How long making and freeing a communicator takes, in us: a duplicate, and halves by MPI_Comm_split. */
#include "common.h"

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {"MPI Communicator Creation Test", "Ranks           Duplicate(us)         Split(us)", NULL, "ix",
        {.iterations = 1000, .iterations_large = 1000, .warmup = 50, .warmup_large = 50}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    double took[2] = {0, 0};
    for (int split = 0; split < 2; split++)
        for (int i = -warmup(0); i < iterations(0); i++) {
            MPI_Comm made;
            MPI_Barrier(MPI_COMM_WORLD);
            double from = MPI_Wtime();
            if (split)
                MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &made);
            else
                MPI_Comm_dup(MPI_COMM_WORLD, &made);
            MPI_Comm_free(&made);
            if (i >= 0)
                took[split] += MPI_Wtime() - from;
        }
    double all[2];
    MPI_Allreduce(took, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++)
        all[i] *= 1e6 / iterations(0) / ranks;
    row((size_t)ranks, all, 2);
    return end();
}

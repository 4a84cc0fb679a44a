/* Claim: many more ranks than CPUs finish 1,000 barriers and 1,000 allreduces within seconds, and may run on the CPUs
 * afterwards on which they might before, though waiting ranks spread over them. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

int main(int argc, char **argv)
{
    start(&argc, &argv);
    cpu_set_t before, after;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0, "no affinity");
    double begin = MPI_Wtime();
    for (int i = 0; i < 1000; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    double between = MPI_Wtime();
    for (int i = 0; i < 1000; i++) {
        int64_t mine[4] = {my_rank, i, 1, my_rank == i % n_ranks}, sum[4];
        OK(MPI_Allreduce(mine, sum, 4, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum[0] == (int64_t)n_ranks * (n_ranks - 1) / 2 && sum[1] == (int64_t)i * n_ranks && sum[2] == n_ranks && sum[3] == 1,
              "allreduce %d: %lld %lld %lld %lld", i, (long long)sum[0], (long long)sum[1], (long long)sum[2], (long long)sum[3]);
    }
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after), "other CPUs than before");
    if (my_rank == 0)
        printf("crowd: %d ranks: 1000 barriers %.3f s, 1000 allreduces %.3f s\n", n_ranks, between - begin, MPI_Wtime() - between);
    return finish();
}

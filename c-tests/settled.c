/* Claim: ranks whose environments would send them different ways through one collective operation go the same way, that
 * of the first in MPI_Init, and the others say so. */
#include "check.h"

int main(int argc, char **argv)
{
    int place = atoi(getenv("PMI_RANK"));
    if (place == 1) {
        setenv("NEARMPI_BOARD_MAX", "1024", 1);
        setenv("NEARMPI_COLLECTIVES", "bcast: parts; allreduce: halves; alltoall: bruck", 1);
    }
    if (place == 2)
        setenv("NEARMPI_BOARD_RANKS", "0", 1);
    start(&argc, &argv);
    for (int count = 1; count <= 1 << 16; count *= 4) {
        int *in = malloc(n_ranks * count * sizeof(int)), *out = malloc(n_ranks * count * sizeof(int));
        for (int i = 0; i < n_ranks * count; i++)
            in[i] = my_rank + i;
        OK(MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD));
        for (int i = 0; i < n_ranks * count; i++)
            CHECK(out[i] == i / count + my_rank * count + i % count, "alltoall of %d: element %d is %d", count, i, out[i]);
        OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            CHECK(out[i] == n_ranks * i + n_ranks * (n_ranks - 1) / 2, "allreduce of %d: element %d is %d", count, i, out[i]);
        OK(MPI_Bcast(in, count, MPI_INT, n_ranks - 1, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            CHECK(in[i] == n_ranks - 1 + i, "bcast of %d: element %d is %d", count, i, in[i]);
        free(in);
        free(out);
    }
    return finish();
}

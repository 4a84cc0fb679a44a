/* Claim: Reduce_scatter in place is right when the block of a rank begins inside the space that its result goes to. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int unit = 1; unit <= 50000; unit = unit * 6 + 1) {
        int *lengths = need(n_ranks * sizeof(int)), total = 0, at = 0;
        for (int r = 0; r < n_ranks; r++) { /* 1, 3, 9 ... units: each longer than all before it together */
            lengths[r] = r ? 2 * total + unit : unit;
            at += r < my_rank ? lengths[r] : 0;
            total += lengths[r];
        }
        int *data = need(total * sizeof(int));
        for (int i = 0; i < total; i++)
            data[i] = i % 1000 + my_rank;
        OK(MPI_Reduce_scatter(MPI_IN_PLACE, data, lengths, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < lengths[my_rank]; i++) {
            int want = (at + i) % 1000 * n_ranks + n_ranks * (n_ranks - 1) / 2;
            CHECK(data[i] == want, "unit %d [%d] = %d, expected %d", unit, i, data[i], want);
        }
        free(data);
        free(lengths);
    }
    return finish();
}

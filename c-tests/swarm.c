/* Claim: ten thousand communicators may live at a time; each carries messages and collectives of its own. */
#include "check.h"

enum { MANY = 10000 };

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm *comms = need(MANY * sizeof *comms);
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_dup(i ? comms[i - 1] : MPI_COMM_WORLD, &comms[i]));
    int from = (my_rank + n_ranks - 1) % n_ranks, to = (my_rank + 1) % n_ranks;
    for (int i = 0; i < MANY; i++) {
        int mine = i + my_rank, sum = 0, got = -1;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[i]));
        CHECK(sum == n_ranks * i + n_ranks * (n_ranks - 1) / 2, "sum %d on communicator %d", sum, i);
        OK(MPI_Sendrecv(&mine, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, comms[i], MPI_STATUS_IGNORE));
        CHECK(got == i + from, "%d came on communicator %d", got, i);
        OK(MPI_Barrier(comms[MANY - 1 - i]));
    }
    for (int i = 0; i < MANY; i++)
        OK(MPI_Comm_free(&comms[i]));
    free(comms);
    return finish();
}

/* Claim: Bcast brings the root's data to everybody: every root, size and communicator. */
#include "comms.h"

static int data[MOST + 1];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm comms[COMMS];
    make_comms(comms);
    for (int k = 0; k < COMMS; k++) {
        int rank, size;
        OK(MPI_Comm_rank(comms[k], &rank));
        OK(MPI_Comm_size(comms[k], &size));
        for (int root = 0; root < size; root++)
            for (int c = 0; c < COUNTS; c++) {
                for (int i = 0; i <= counts[c]; i++)
                    data[i] = rank == root ? element(root, i + c) : -1;
                OK(MPI_Bcast(data, counts[c], MPI_INT, root, comms[k]));
                for (int i = 0; i < counts[c]; i++)
                    CHECK(data[i] == element(root, i + c), "comm %d root %d count %d: [%d] = %d", k, root, counts[c], i, data[i]);
                CHECK(rank == root || data[counts[c]] == -1, "one past the end was written");
            }
    }
    free_comms(comms);
    return finish();
}

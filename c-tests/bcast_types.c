/* Claim: Bcast works when the root sends plain ints and the others take them with a stride: MPI asks only for equal
 * type signatures. */
#include "comms.h"

static int data[2 * MOST + 1];

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
                MPI_Datatype strided;
                OK(MPI_Type_vector(counts[c], 1, 2, MPI_INT, &strided));
                OK(MPI_Type_commit(&strided));
                for (int i = 0; i <= 2 * counts[c]; i++)
                    data[i] = rank == root ? element(root, i) : -1;
                if (rank == root)
                    OK(MPI_Bcast(data, counts[c], MPI_INT, root, comms[k]));
                else
                    OK(MPI_Bcast(data, 1, strided, root, comms[k]));
                for (int i = 0; rank != root && i <= 2 * counts[c]; i++)
                    CHECK(data[i] == (i % 2 || i == 2 * counts[c] ? -1 : element(root, i / 2)), "strided [%d] = %d", i, data[i]);
                OK(MPI_Type_free(&strided));
            }
    }
    free_comms(comms);
    return finish();
}

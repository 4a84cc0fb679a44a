/* Claim: Sendrecv and Sendrecv_replace exchange any size round a ring without deadlock, also with themselves and
 * MPI_PROC_NULL, with different types on the two sides, replace only what was received, and send nothing when an argument is wrong. */
#include "check.h"

enum { LARGEST = 1 << 20 };
static unsigned char out[LARGEST], in[LARGEST + 16];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks;
    MPI_Status status;
    for (int size = 1, tag = 0; size <= LARGEST; size = size * 4 + 3, tag++) {
        if (size > LARGEST)
            size = LARGEST;
        fill(out, size, 100 * tag + my_rank);
        memset(in, 0xEE, sizeof in);
        OK(MPI_Sendrecv(out, size, MPI_BYTE, right, tag, in, LARGEST, MPI_CHAR, left, tag, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, left, tag, MPI_CHAR, size);
        CHECK_BYTES(in, size, 100 * tag + left);
        CHECK_GUARD(in, size, sizeof in, 0xEE);
        OK(MPI_Sendrecv_replace(out, size, MPI_BYTE, right, tag, left, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, left, tag, MPI_BYTE, size);
        CHECK_BYTES(out, size, 100 * tag + left);
        OK(MPI_Sendrecv_replace(out, size, MPI_BYTE, my_rank, 1003, MPI_ANY_SOURCE, 1003, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, my_rank, 1003, MPI_BYTE, size);
        CHECK_BYTES(out, size, 100 * tag + left);
    }
    /* A line instead of a ring: the ends talk to nobody. */
    right = my_rank + 1 < n_ranks ? my_rank + 1 : MPI_PROC_NULL;
    left = my_rank > 0 ? my_rank - 1 : MPI_PROC_NULL;
    int mine = my_rank, from = -5;
    OK(MPI_Sendrecv(&mine, 1, MPI_INT, right, 1, &from, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &status));
    CHECK(from == (my_rank ? my_rank - 1 : -5), "line brought %d", from);
    CHECK_STATUS(status, left, left == MPI_PROC_NULL ? MPI_ANY_TAG : 1, MPI_INT, left == MPI_PROC_NULL ? 0 : 1);
    OK(MPI_Sendrecv_replace(&mine, 1, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD, &status));
    CHECK(mine == (my_rank ? my_rank - 1 : 0), "replaced by %d", mine);
    /* A strided type replaces its own elements and leaves the gaps alone. */
    MPI_Datatype column;
    int grid[100];
    right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks;
    for (int i = 0; i < 100; i++)
        grid[i] = my_rank * 1000 + i;
    OK(MPI_Type_vector(10, 1, 10, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Sendrecv_replace(grid + 3, 1, column, right, 2, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 100; i++)
        CHECK(grid[i] == (i % 10 == 3 ? left : my_rank) * 1000 + i, "grid[%d] = %d", i, grid[i]);
    OK(MPI_Type_free(&column));
    /* What is too long has come for all that; nothing leaves where the receiving side is wrong. */
    int found = 1, four[4] = {0};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_TRUNCATE, MPI_Sendrecv(grid, 4, MPI_INT, right, 3, four, 2, MPI_INT, left, 3, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_COUNT, MPI_Sendrecv(grid, 4, MPI_INT, right, 4, four, -1, MPI_INT, left, 4, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_RANK, MPI_Sendrecv_replace(grid, 4, MPI_INT, right, 4, n_ranks, 4, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_TAG, MPI_Sendrecv(grid, 4, MPI_INT, MPI_PROC_NULL, -7, four, 4, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &status));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status));
    CHECK(!found, "tag %d has come", status.MPI_TAG);
    return finish();
}

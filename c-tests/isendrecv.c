/* Claim: Isendrecv and Isendrecv_replace are one request each, over when both halves are, with the status and the
 * errors of the receive; many at once, with MPI_PROC_NULL on a side, completed by every kind of call.
 * The argument `strict` adds the status and
 * the error of the receive, which MPICH 5.0.2 loses. */
#include "check.h"

enum { N = 8, LARGEST = 300000 };
static unsigned char out[N][LARGEST], in[N][LARGEST];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int strict = argc > 1 && !strcmp(argv[1], "strict");
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks, flag;
    MPI_Request requests[N];
    MPI_Status statuses[N], status;
    for (int replace = 0; replace < 2; replace++) {
        for (int i = 0; i < N; i++) {
            int size = 1 + i * i * 6000, tag = 10 * replace + i;
            fill(replace ? in[i] : out[i], size, tag + 100 * my_rank);
            if (replace)
                OK(MPI_Isendrecv_replace(in[i], size, MPI_BYTE, right, tag, left, tag, MPI_COMM_WORLD, &requests[i]));
            else
                OK(MPI_Isendrecv(out[i], size, MPI_BYTE, right, tag, in[i], LARGEST, MPI_BYTE, left, MPI_ANY_TAG,
                                 MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Waitall(N, requests, statuses));
        for (int i = 0; i < N; i++) {
            CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is left", i);
            if (strict)
                CHECK_STATUS(statuses[i], left, 10 * replace + i, MPI_BYTE, 1 + i * i * 6000);
            CHECK_BYTES(in[i], 1 + i * i * 6000, 10 * replace + i + 100 * left);
        }
    }
    /* A half that is still open keeps the whole open. */
    int mine = my_rank, got = -1, go = 1;
    MPI_Request one;
    OK(MPI_Isendrecv(&mine, 1, MPI_INT, my_rank, 50, &got, 1, MPI_INT, my_rank, 51, MPI_COMM_WORLD, &one));
    OK(MPI_Test(&one, &flag, &status));
    CHECK(!flag, "over without its receive");
    OK(MPI_Recv(&got, 1, MPI_INT, my_rank, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Send(&go, 1, MPI_INT, my_rank, 51, MPI_COMM_WORLD));
    for (flag = 0; !flag;)
        OK(MPI_Request_get_status(one, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&one, &status));
    if (strict)
        CHECK_STATUS(status, my_rank, 51, MPI_INT, 1);
    /* Nobody on one side, or on both. */
    OK(MPI_Isendrecv(&mine, 1, MPI_INT, MPI_PROC_NULL, 1, &got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &one));
    OK(MPI_Wait(&one, &status));
    if (strict)
        CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    right = my_rank + 1 < n_ranks ? my_rank + 1 : MPI_PROC_NULL;
    left = my_rank > 0 ? my_rank - 1 : MPI_PROC_NULL;
    OK(MPI_Isendrecv_replace(&mine, 1, MPI_INT, right, 1, left, 1, MPI_COMM_WORLD, &one));
    OK(MPI_Wait(&one, MPI_STATUS_IGNORE));
    CHECK(mine == (my_rank ? my_rank - 1 : 0), "replaced by %d", mine);
    /* Arguments. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_RANK, MPI_Isendrecv(&mine, 1, MPI_INT, n_ranks, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &one));
    FAILS(MPI_ERR_COUNT, MPI_Isendrecv_replace(&mine, -1, MPI_INT, 0, 1, 0, 1, MPI_COMM_WORLD, &one));
    /* An error of the receive is the request's. */
    int two[2] = {1, 2};
    OK(MPI_Isendrecv(two, 2, MPI_INT, my_rank, 60, &got, 1, MPI_INT, my_rank, 60, MPI_COMM_WORLD, &one));
    if (strict)
        FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&one, &status));
    else
        MPI_Wait(&one, &status);
    return finish();
}

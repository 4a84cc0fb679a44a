/* Claim: NEARMPI_CHECK=1 reports what is accepted without it: overlapping buffers, handles that were never freed,
 * messages that nobody received, requests that nobody completed. Which: the argument. */
#include "check.h"

int main(int argc, char **argv)
{
    static char big[1 << 20];
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int value = 0, other = 1 - 2 * 0;
    start(&argc, &argv);
    other = (my_rank + 1) % n_ranks;
    if (!strcmp(how, "receives")) {
        OK(MPI_Irecv(big, 100, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Irecv(big + 99, 100, MPI_CHAR, other, 2, MPI_COMM_WORLD, &requests[1]));
    } else if (!strcmp(how, "apart")) { /* neighbours are no overlap, nor are two sends from one buffer */
        OK(MPI_Irecv(big, 100, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Irecv(big + 100, 100, MPI_CHAR, other, 2, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Send(big + 200, 100, MPI_CHAR, other, 1, MPI_COMM_WORLD));
        OK(MPI_Send(big + 250, 100, MPI_CHAR, other, 2, MPI_COMM_WORLD));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    } else if (!strcmp(how, "send")) {
        OK(MPI_Isend(big, sizeof big, MPI_CHAR, other, 1, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Irecv(big + 5, 10, MPI_CHAR, other, 2, MPI_COMM_WORLD, &requests[1]));
    } else if (!strcmp(how, "leaks")) {
        MPI_Comm comms[2];
        MPI_Datatype type;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
        OK(MPI_Type_contiguous(3, MPI_INT, &type));
    } else if (!strcmp(how, "message")) {
        OK(MPI_Send(&value, 1, MPI_INT, other, 9, MPI_COMM_WORLD));
    } else if (!strcmp(how, "cancelled")) { /* what its sender has taken back is nobody's */
        MPI_Status status;
        if (my_rank == 0)
            OK(MPI_Issend(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, &requests[0]));
        else
            OK(MPI_Probe(0, 9, MPI_COMM_WORLD, &status));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank == 0) {
            OK(MPI_Cancel(&requests[0]));
            OK(MPI_Wait(&requests[0], &status));
            OK(MPI_Test_cancelled(&status, &other));
            CHECK(other, "the send was not cancelled");
        }
    } else if (!strcmp(how, "request")) {
        OK(MPI_Irecv(&value, 1, MPI_INT, other, 9, MPI_COMM_WORLD, &requests[0]));
    }
    return finish();
}

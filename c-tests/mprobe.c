/* Claim: a message taken by Mprobe or Improbe is nobody else's any more; Mrecv and Imrecv receive exactly it, in any
 * order; MPI_PROC_NULL gives MPI_MESSAGE_NO_PROC. */
#include "check.h"

enum { MESSAGES = 6, LARGEST = 150000 };
static const int sizes[MESSAGES] = {0, 7, 48, 5000, 70000, LARGEST};
static unsigned char bytes[LARGEST], in[LARGEST];

static void receive_all(void)
{
    MPI_Message taken[MESSAGES], none;
    MPI_Status status;
    MPI_Request request;
    int found;
    for (int i = 0; i < MESSAGES; i++) {
        if (i % 2) {
            OK(MPI_Mprobe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &taken[i], &status));
        } else {
            do
                OK(MPI_Improbe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &found, &taken[i], &status));
            while (!found);
        }
        CHECK(taken[i] != MPI_MESSAGE_NULL, "no message");
        CHECK_STATUS(status, 1, 4, MPI_BYTE, sizes[i]);
    }
    OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &none, &status));
    CHECK(!found, "a taken message was found again");
    OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
    OK(MPI_Recv(in, 4, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &status)); /* the seventh, sent later */
    CHECK_STATUS(status, 1, 4, MPI_BYTE, 4);
    for (int i = MESSAGES - 1; i >= 0; i--) {
        memset(in, 0xEE, sizeof in);
        if (i % 3) {
            OK(MPI_Mrecv(in, LARGEST, MPI_BYTE, &taken[i], &status));
        } else {
            OK(MPI_Imrecv(in, LARGEST, MPI_BYTE, &taken[i], &request));
            OK(MPI_Wait(&request, &status));
        }
        CHECK(taken[i] == MPI_MESSAGE_NULL, "message handle not null after the receive");
        CHECK_STATUS(status, 1, 4, MPI_BYTE, sizes[i]);
        CHECK_BYTES(in, sizes[i], i);
        CHECK_GUARD(in, sizes[i], LARGEST, 0xEE);
    }
    /* Truncation is told of a matched message too. */
    OK(MPI_Mprobe(1, 6, MPI_COMM_WORLD, &taken[0], &status));
    memset(in, 0xEE, sizeof in);
    FAILS(MPI_ERR_TRUNCATE, MPI_Mrecv(in, 10, MPI_BYTE, &taken[0], &status));
    CHECK_GUARD(in, 10, LARGEST, 0xEE);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (my_rank == 0) {
        receive_all();
    } else if (my_rank == 1) {
        MPI_Request requests[MESSAGES];
        unsigned char *messages[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            fill(messages[i] = need(sizes[i]), sizes[i], i);
            OK(MPI_Isend(messages[i], sizes[i], MPI_BYTE, 0, 4, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(bytes, 4, MPI_BYTE, 0, 4, MPI_COMM_WORLD));
        OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Send(bytes, 100, MPI_BYTE, 0, 6, MPI_COMM_WORLD));
    }
    MPI_Message nobody = MPI_MESSAGE_NULL;
    MPI_Status status;
    OK(MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &nobody, &status));
    CHECK(nobody == MPI_MESSAGE_NO_PROC, "message %x", (unsigned)nobody);
    OK(MPI_Mrecv(in, 3, MPI_BYTE, &nobody, &status));
    CHECK(nobody == MPI_MESSAGE_NULL, "message %x", (unsigned)nobody);
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    return finish();
}

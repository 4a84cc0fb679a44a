/* Claim: a posted receive can be cancelled: it completes, says so, leaves its buffer alone, and the message goes to
 * the next receive; a receive that already has its message is not cancelled. With an argument: a synchronous send that no
 * receive has is cancelled, and never received; one that a receive has, or a matching probe, is not. */
#include "check.h"

enum { LARGEST = 150000 };

static void synchronous(int size)
{
    static unsigned char bytes[LARGEST];
    MPI_Request request;
    MPI_Status status;
    int flag = -1, token = 0;
    if (my_rank == 0) {
        for (int matched = 0; matched < 3; matched++) {
            fill(bytes, size, 20 + matched);
            OK(MPI_Issend(bytes, size, MPI_BYTE, 1, 25 + matched, MPI_COMM_WORLD, &request));
            OK(MPI_Send(&token, 1, MPI_INT, 1, 22, MPI_COMM_WORLD)); /* the receiver knows of it from now on */
            OK(MPI_Recv(&token, 1, MPI_INT, 1, 23, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Cancel(&request));
            if (matched == 2)
                OK(MPI_Send(&token, 1, MPI_INT, 1, 28, MPI_COMM_WORLD));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(flag == !matched, "%d bytes: cancelled %d, matched %d", size, flag, matched);
            memset(bytes, 0, size);
            OK(MPI_Send(&token, 1, MPI_INT, 1, 24, MPI_COMM_WORLD));
        }
    } else if (my_rank == 1) {
        for (int matched = 0; matched < 3; matched++) {
            MPI_Message message;
            OK(MPI_Recv(&token, 1, MPI_INT, 0, 22, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Iprobe(0, 25 + matched, MPI_COMM_WORLD, &flag, &status));
            CHECK(flag, "%d bytes: not there", size);
            if (matched == 1) {
                OK(MPI_Recv(bytes, size, MPI_BYTE, 0, 26, MPI_COMM_WORLD, &status));
            } else if (matched == 2) {
                OK(MPI_Mprobe(0, 27, MPI_COMM_WORLD, &message, &status));
                OK(MPI_Send(&token, 1, MPI_INT, 0, 23, MPI_COMM_WORLD));
                OK(MPI_Recv(&token, 1, MPI_INT, 0, 28, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                OK(MPI_Mrecv(bytes, size, MPI_BYTE, &message, &status));
            }
            if (matched) {
                CHECK_STATUS(status, 0, 25 + matched, MPI_BYTE, size);
                CHECK_BYTES(bytes, size, 20 + matched);
            }
            if (matched < 2)
                OK(MPI_Send(&token, 1, MPI_INT, 0, 23, MPI_COMM_WORLD));
            OK(MPI_Recv(&token, 1, MPI_INT, 0, 24, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (!matched) /* later the sender may be ahead */
                OK(MPI_Iprobe(0, 25, MPI_COMM_WORLD, &flag, &status));
            CHECK(matched || !flag, "%d bytes: a cancelled message is there", size);
        }
    }
}

/* A collective operation cannot be cancelled, and goes on. MPICH 5.0.2 has MPI_ERR_INTERN for that. */
static void collective(void)
{
    MPI_Request request;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (my_rank == 0)
        OK(MPI_Recv(NULL, 0, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    if (my_rank == 1) {
        FAILS(MPI_ERR_REQUEST, MPI_Cancel(&request));
        OK(MPI_Send(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int value = 42, flag = -1, token = 0;
    MPI_Request request;
    MPI_Status status;
    for (int round = 0; round < 100; round++) {
        if (my_rank == 1) {
            value = 42;
            OK(MPI_Irecv(&value, 1, MPI_INT, round % 2 ? 0 : MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(flag, "the receive was not cancelled");
            CHECK(request == MPI_REQUEST_NULL, "request survived");
            OK(MPI_Send(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
            int got = -1;
            OK(MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(!flag && got == round && value == 42, "flag %d got %d value %d", flag, got, value);
            /* Matched first: cancelling has no effect. */
            OK(MPI_Irecv(&got, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request));
            OK(MPI_Send(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
            OK(MPI_Recv(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(!flag && got == round + 7, "flag %d got %d", flag, got);
            /* A persistent receive survives being cancelled. */
            OK(MPI_Recv_init(&got, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request));
            OK(MPI_Start(&request));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(flag, "the persistent receive was not cancelled");
            OK(MPI_Start(&request));
            OK(MPI_Send(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(!flag && got == round + 9, "flag %d got %d", flag, got);
            OK(MPI_Request_free(&request));
        } else if (my_rank == 0) {
            int seven = round + 7, nine = round + 9;
            OK(MPI_Recv(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Send(&round, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
            OK(MPI_Recv(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Send(&seven, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
            OK(MPI_Send(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD));
            OK(MPI_Recv(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Send(&nine, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
        }
    }
    if (argc > 1)
        collective();
    for (int size = 1; argc > 1 && size <= LARGEST; size = size * 5 + 3)
        synchronous(size);
    return finish();
}

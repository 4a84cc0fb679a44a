/* Claim: buffered sends complete without a receive, take no more room than size + MPI_BSEND_OVERHEAD each, report
 * MPI_ERR_BUFFER when the room is gone, and detaching waits until everything has been delivered. */
#include "check.h"

enum { MESSAGES = 64, LENGTH = 10000 };
static unsigned char out[LENGTH], in[LENGTH];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int room = MESSAGES * (LENGTH + MPI_BSEND_OVERHEAD), got = 0, token = 0;
    char *space = need(room), *back = NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 3; round++) {
        if (my_rank == 0) {
            OK(MPI_Buffer_attach(space, room));
            CHECK(MPI_Buffer_attach(space, room) != MPI_SUCCESS, "two buffers attached");
            for (int i = 0; i < MESSAGES; i++) {
                fill(out, LENGTH, i);
                OK(MPI_Bsend(out, LENGTH, MPI_BYTE, 1, i, MPI_COMM_WORLD));
                memset(out, 0, LENGTH); /* ours again at once */
            }
            OK(MPI_Ssend(&token, 1, MPI_INT, 1, 1000, MPI_COMM_WORLD)); /* now the receiver starts, backwards */
            OK(MPI_Buffer_detach(&back, &got));
            CHECK(back == space && got == room, "detach gave another buffer: %p %d", (void *)back, got);
            memset(space, 0x55, room); /* nothing of it is needed any more */
            OK(MPI_Buffer_attach(space, 1000));
            FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 1001, MPI_BYTE, 1, 2, MPI_COMM_WORLD));
            OK(MPI_Buffer_detach(&back, &got));
            CHECK(back == space && got == 1000, "second detach");
            FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 10, MPI_BYTE, 1, 2, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(&token, 1, MPI_INT, 0, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = MESSAGES - 1; i >= 0; i--) {
                MPI_Status status;
                OK(MPI_Recv(in, LENGTH, MPI_BYTE, 0, i, MPI_COMM_WORLD, &status));
                CHECK_STATUS(status, 0, i, MPI_BYTE, LENGTH);
                CHECK_BYTES(in, LENGTH, i);
            }
        }
    }
    /* The room of delivered messages is used again. */
    if (my_rank == 0) {
        room = 2 * (LENGTH + MPI_BSEND_OVERHEAD);
        OK(MPI_Buffer_attach(space, room));
        for (int i = 0; i < 200; i++) {
            fill(out, LENGTH, i);
            OK(MPI_Bsend(out, LENGTH, MPI_BYTE, 1, 3, MPI_COMM_WORLD));
            OK(MPI_Recv(&token, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        OK(MPI_Buffer_detach(&back, &got));
    } else {
        for (int i = 0; i < 200; i++) {
            OK(MPI_Recv(in, LENGTH, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_BYTES(in, LENGTH, i);
            OK(MPI_Ssend(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD));
        }
    }
    return finish();
}

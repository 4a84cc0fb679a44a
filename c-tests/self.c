/* Claim: a rank can send to itself on MPI_COMM_WORLD and MPI_COMM_SELF in every mode and size, early and late, with gaps or without. */
#include "check.h"

enum { LARGEST = 1 << 20 };
static unsigned char out[LARGEST], in[LARGEST], apart[2][2 * LARGEST];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Request send, receive;
    MPI_Status status;
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    int ranks[2] = {my_rank, 0}, found, tag = 0;
    int strict = argc > 1; /* then a blocking send to oneself waits for no receive */
    int room = LARGEST + MPI_BSEND_OVERHEAD;
    void *space = need(room);
    OK(MPI_Buffer_attach(space, room));
    for (int k = 0; k < 2; k++)
        for (int size = 0; size <= LARGEST; size = size * 3 + 1)
            for (int late = 0; late < 5 + strict; late++, tag++) {
                fill(out, size, tag);
                memset(in, 0, sizeof in);
                if (late == 0) {
                    OK(MPI_Irecv(in, size, MPI_BYTE, ranks[k], tag, comms[k], &receive));
                    OK(MPI_Ssend(out, size, MPI_BYTE, ranks[k], tag, comms[k]));
                    OK(MPI_Wait(&receive, &status));
                } else if (late == 1) {
                    OK(MPI_Issend(out, size, MPI_BYTE, ranks[k], tag, comms[k], &send));
                    OK(MPI_Test(&send, &found, MPI_STATUS_IGNORE));
                    CHECK(!found, "synchronous send to self complete without a receive");
                    OK(MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[k], &status));
                    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
                } else if (late == 2) {
                    OK(MPI_Isend(out, size, MPI_BYTE, ranks[k], tag, comms[k], &send));
                    OK(MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, tag, comms[k], &status));
                    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
                } else if (late == 5) {
                    OK(MPI_Send(out, size, MPI_BYTE, ranks[k], tag, comms[k]));
                    memset(out, 0, size);
                    OK(MPI_Recv(in, size, MPI_BYTE, ranks[k], tag, comms[k], &status));
                } else if (late == 3) {
                    MPI_Datatype second;   /* every second byte, in and out */
                    OK(MPI_Type_vector(size, 1, 2, MPI_BYTE, &second));
                    OK(MPI_Type_commit(&second));
                    memset(apart[1], 255, sizeof apart[1]);
                    for (int i = 0; i < size; i++)
                        apart[0][2 * i] = out[i];
                    OK(MPI_Sendrecv(apart[0], 1, second, ranks[k], tag, apart[1], 1, second, ranks[k], tag, comms[k],
                                    &status));
                    for (int i = 0; i < size; i++) {
                        in[i] = apart[1][2 * i];
                        CHECK(apart[1][2 * i + 1] == 255, "gap %d of %d was written to", i, size);
                    }
                    OK(MPI_Type_free(&second));
                } else {
                    OK(MPI_Bsend(out, size, MPI_BYTE, ranks[k], tag, comms[k]));
                    OK(MPI_Probe(ranks[k], tag, comms[k], &status));
                    OK(MPI_Recv(in, size, MPI_BYTE, ranks[k], tag, comms[k], &status));
                }
                CHECK_STATUS(status, ranks[k], tag, MPI_BYTE, size);
                CHECK_BYTES(in, size, tag);
            }
    OK(MPI_Buffer_detach(&space, &room));
    return finish();
}

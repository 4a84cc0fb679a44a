/* Claim: every send mode (standard, buffered, synchronous, ready), blocking, nonblocking and persistent, delivers
 * the bytes and the envelope; a synchronous send does not complete before its receive has started. */
#include "check.h"

enum { SIZES = 4, LARGEST = 300000 };
static const int sizes[SIZES] = {1, 48, 5000, LARGEST};
static unsigned char out[LARGEST], in[LARGEST];

typedef int Send(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int Isend(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
static Send *const blocking[] = {MPI_Send, MPI_Bsend, MPI_Ssend, MPI_Rsend};
static Isend *const nonblocking[] = {MPI_Isend, MPI_Ibsend, MPI_Issend, MPI_Irsend};
static Isend *const persistent[] = {MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init, MPI_Rsend_init};

static void sender(int form, int mode, int size, int tag)
{
    MPI_Request request;
    MPI_Status status;
    fill(out, size, tag);
    if (mode == 3) /* ready: the receiver says that its receive is posted */
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 9999, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (form == 0) {
        OK(blocking[mode](out, size, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
    } else if (form == 1) {
        OK(nonblocking[mode](out, size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL, "request survived");
    } else {
        OK(persistent[mode](out, size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, &status));
        CHECK(request != MPI_REQUEST_NULL, "persistent request vanished");
        OK(MPI_Request_free(&request));
        CHECK(request == MPI_REQUEST_NULL, "handle not null after free");
    }
}

static void receiver(int mode, int size, int tag)
{
    MPI_Request request;
    MPI_Status status;
    memset(in, 0xEE, sizeof in);
    OK(MPI_Irecv(in, LARGEST, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
    if (mode == 3)
        OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 9999, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    CHECK_STATUS(status, 0, tag, MPI_BYTE, size);
    CHECK_BYTES(in, size, tag);
    CHECK_GUARD(in, size, LARGEST, 0xEE);
}

static void synchronous_waits(int size)
{
    int token = 0, done = 1;
    MPI_Request request;
    if (my_rank == 0) {
        fill(out, size, 5);
        OK(MPI_Issend(out, size, MPI_BYTE, 1, 7, MPI_COMM_WORLD, &request));
        OK(MPI_Sendrecv(&token, 1, MPI_INT, 1, 8, &token, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 1000; i++) {
            OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
            CHECK(!done, "synchronous send of %d bytes done without a receive", size);
        }
        OK(MPI_Send(&token, 1, MPI_INT, 1, 9, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Sendrecv(&token, 1, MPI_INT, 0, 8, &token, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&token, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(in, size, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_BYTES(in, size, 5);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int room = 4 * (LARGEST + MPI_BSEND_OVERHEAD);
    void *space = need(room);
    OK(MPI_Buffer_attach(space, room));
    for (int form = 0, tag = 1; form < 3; form++)
        for (int mode = 0; mode < 4; mode++)
            for (int i = 0; i < SIZES; i++, tag++)
                my_rank == 0 ? sender(form, mode, sizes[i], tag) : receiver(mode, sizes[i], tag);
    for (int i = 0; i < SIZES; i++)
        synchronous_waits(sizes[i]);
    OK(MPI_Buffer_detach(&space, &room));
    return finish();
}

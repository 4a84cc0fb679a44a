/* Claim: a buffered send takes the buffer of its communicator, or else its session's, or else the process's; each is
 * filled, flushed, waited for by a request and taken back by itself; MPI_BUFFER_AUTOMATIC is never full. With an argument
 * also: what is not attached cannot be taken back, and only one
 * buffer is attached at a time. */
#include "check.h"

enum { SIZE = 1000, ROOM = SIZE + MPI_BSEND_OVERHEAD, BIG = 1 << 20 };
static unsigned char out[BIG], in[BIG], room[3][2 * ROOM];

static void expect(MPI_Comm comm, int size, int tag)
{
    OK(MPI_Recv(in, size, MPI_BYTE, 0, tag, comm, MPI_STATUS_IGNORE));
    CHECK_BYTES(in, size, tag);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Session session;
    MPI_Group group;
    MPI_Comm from_session, own;
    MPI_Request request;
    void *address;
    int size;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    OK(MPI_Comm_create_from_group(group, "buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &from_session));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_dup(from_session, &own));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_BYTE, 0, 0, own));
    OK(MPI_Comm_detach_buffer(own, &address, &size));
    CHECK(!address && size == 0, "%d bytes at %p", size, address);
    OK(MPI_Comm_attach_buffer(own, room[0], ROOM));
    if (argc > 1)
        FAILS(MPI_ERR_BUFFER, MPI_Comm_attach_buffer(own, room[0], ROOM));
    fill(out, SIZE, 1);
    OK(MPI_Bsend(out, SIZE, MPI_BYTE, 0, 1, own));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_BYTE, 0, 0, from_session));
    OK(MPI_Session_attach_buffer(session, room[1], ROOM));
    fill(out, SIZE, 2);
    OK(MPI_Bsend(out, SIZE, MPI_BYTE, 0, 2, from_session));
    FAILS(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_BYTE, 0, 0, MPI_COMM_SELF));
    OK(MPI_Buffer_attach(room[2], ROOM));
    fill(out, SIZE, 3);
    OK(MPI_Ibsend(out, SIZE, MPI_BYTE, 0, 3, MPI_COMM_SELF, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    expect(MPI_COMM_SELF, SIZE, 3);
    expect(from_session, SIZE, 2);
    expect(own, SIZE, 1);
    OK(MPI_Comm_iflush_buffer(own, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_iflush_buffer(session, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_iflush(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_flush_buffer(own));
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Buffer_flush());
    OK(MPI_Comm_detach_buffer(own, &address, &size));
    CHECK(address == room[0] && size == ROOM, "%p, %d bytes", address, size);
    OK(MPI_Session_detach_buffer(session, &address, &size));
    CHECK(address == room[1] && size == ROOM, "%p, %d bytes", address, size);
    OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == room[2] && size == ROOM, "%p, %d bytes", address, size);
    /* A flush waits for what it has to wait for, here a receiver that comes late. */
    OK(MPI_Comm_attach_buffer(own, MPI_BUFFER_AUTOMATIC, 0));
    for (int tag = 10; tag < 14; tag++) {
        fill(out, BIG, tag);
        OK(MPI_Bsend(out, BIG, MPI_BYTE, 0, tag, own));
    }
    OK(MPI_Comm_iflush_buffer(own, &request));
    for (int tag = 10; tag < 14; tag++)
        expect(own, BIG, tag);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_detach_buffer(own, &address, &size));
    CHECK(address == MPI_BUFFER_AUTOMATIC, "%p", address);
    OK(MPI_Comm_free(&own));
    OK(MPI_Comm_free(&from_session));
    OK(MPI_Session_finalize(&session));
    return finish();
}

/* Claim: a message longer than its receive gives MPI_ERR_TRUNCATE, writes no byte past the buffer, ends the sender's
 * side normally, and the next message arrives whole; Request_get_status says so, too, Waitall MPI_ERR_IN_STATUS. */
#include "check.h"

enum { LARGEST = 400000, GUARD = 64 };
static const int sizes[] = {8, 48, 49, 1000, 9000, 65536, 100000, LARGEST};
static unsigned char out[LARGEST], in[LARGEST + GUARD];

static void one(int size, int room, int late, int tag)
{
    MPI_Request request;
    MPI_Status status;
    if (my_rank == 1) {
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        fill(out, size, tag);
        OK(MPI_Isend(out, size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Send(out, size, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return;
    }
    memset(in, 0xEE, sizeof in);
    if (late) {
        OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 999, MPI_COMM_WORLD));
        OK(MPI_Probe(1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        FAILS(MPI_ERR_TRUNCATE, MPI_Recv(in, room, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &status));
    } else {
        OK(MPI_Irecv(in, room, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 999, MPI_COMM_WORLD));
        int over = 0, said = MPI_SUCCESS;
        while (!over)
            said = MPI_Request_get_status(request, &over, &status);
        FAILS(MPI_ERR_TRUNCATE, said);
        FAILS(MPI_ERR_TRUNCATE, MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL, "request survived");
    }
    CHECK(status.MPI_SOURCE == 1 && status.MPI_TAG == tag, "envelope %d %d", status.MPI_SOURCE, status.MPI_TAG);
    CHECK_GUARD(in, room, sizeof in, 0xEE);
    OK(MPI_Recv(in, LARGEST, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, 1, tag, MPI_BYTE, size);
    CHECK_BYTES(in, size, tag);
    CHECK_GUARD(in, size, sizeof in, 0xEE);
}

static void in_a_list(void)
{
    int value[3] = {-1, -1, -1}, send[3] = {1, 2, 3}, class;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    if (my_rank == 1) {
        OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(send, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
        OK(MPI_Send(send, 2, MPI_INT, 0, 1, MPI_COMM_WORLD));
        OK(MPI_Send(send, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < 3; i++)
        OK(MPI_Irecv(&value[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 999, MPI_COMM_WORLD));
    FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(3, requests, statuses));
    for (int i = 0; i < 3; i++) {
        if (statuses[i].MPI_ERROR == MPI_ERR_PENDING) { /* allowed: then it is still to be waited for */
            OK(MPI_Wait(&requests[i], &statuses[i]));
            statuses[i].MPI_ERROR = MPI_SUCCESS;
        }
        MPI_Error_class(statuses[i].MPI_ERROR, &class);
        CHECK(class == (i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "status %d says class %d", i, class);
    }
    CHECK(value[0] == 1 && value[2] == 1, "the good ones: %d %d", value[0], value[2]);
}

/* A message that ends within a value of a datatype with gaps is no message for it: MPI_ERR_TYPE; one of fewer values is.
   MPICH 5 says so of short ones, MPICH 4 with MPI_ERR_TRUNCATE. */
static void within_a_value(void)
{
    enum { PAIRS = 20000 };
    static int values[2 * PAIRS];
    static const int lengths[] = {7, 8, 3001, 3000, 70001, 70000};
    MPI_Datatype spread;
    OK(MPI_Type_vector(PAIRS, 1, 2, MPI_INT, &spread));
    OK(MPI_Type_commit(&spread));
    for (int i = 0; i < 12; i++) {
        int length = lengths[i / 2], waits = i % 2;
        MPI_Request request;
        if (my_rank == 1) {
            OK(MPI_Send(out, length, MPI_BYTE, 0, i, MPI_COMM_WORLD));
            continue;
        }
        int code = MPI_SUCCESS, class;
        if (waits) {
            OK(MPI_Irecv(values, 1, spread, 1, i, MPI_COMM_WORLD, &request));
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else
            code = MPI_Recv(values, 1, spread, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &class);
        CHECK(class == (length % 4 ? MPI_ERR_TYPE : MPI_SUCCESS), "%d bytes: class %d", length, class);
    }
    OK(MPI_Type_free(&spread));
    /* ... also where there is room for a few values only. */
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &spread));
    OK(MPI_Type_commit(&spread));
    if (my_rank == 1)
        OK(MPI_Send(out, 7, MPI_BYTE, 0, 99, MPI_COMM_WORLD));
    else
        FAILS(MPI_ERR_TYPE, MPI_Recv(values, 1, spread, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Type_free(&spread));
}

/* What Request_get_status finds goes to the communicator's error handler, though MPI_COMM_WORLD's would end the job; of several
 * the statuses say which. */
static void looked_at(void)
{
    int value[2] = {-1, -1}, send[2] = {1, 2}, over = 0, said = MPI_SUCCESS, class;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    if (my_rank == 1)
        for (int i = 0; i < 2; i++)
            OK(MPI_Send(send, 2 - i, MPI_INT, 0, i, comm));
    if (my_rank == 0) {
        for (int i = 0; i < 2; i++)
            OK(MPI_Irecv(&value[i], 1, MPI_INT, 1, i, comm, &requests[i]));
        while (!over)
            said = MPI_Request_get_status(requests[0], &over, MPI_STATUS_IGNORE);
        FAILS(MPI_ERR_TRUNCATE, said);
        for (over = 0; !over;)
            said = MPI_Request_get_status_all(2, requests, &over, statuses);
        FAILS(MPI_ERR_IN_STATUS, said);
        for (int i = 0; i < 2; i++) {
            OK(MPI_Error_class(statuses[i].MPI_ERROR, &class));
            CHECK(class == (i ? MPI_SUCCESS : MPI_ERR_TRUNCATE), "status %d says class %d", i, class);
        }
        FAILS(MPI_ERR_IN_STATUS, MPI_Waitall(2, requests, statuses));
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int late = 0, tag = 1; late < 2; late++)
        for (int i = 0; i < 8; i++) {
            one(sizes[i], 0, late, tag++);
            one(sizes[i], sizes[i] / 2 + 1 < sizes[i] ? sizes[i] / 2 + 1 : 1, late, tag++);
            one(sizes[i], sizes[i] - 1, late, tag++);
        }
    in_a_list();
    if (argc > 1) {
        within_a_value();
        looked_at();
    }
    return finish();
}

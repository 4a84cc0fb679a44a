/* Claim: NEARMPI_CHECK=1 tells a receive that names other types than the message has (MPI-4.1 3.3.1) with MPI_ERR_TYPE,
 * whichever way the message came and whichever call receives it; equal types pass, in order, wildcards, probes and
 * cancelled sends included. The data arrive all the same. */
#include "check.h"

enum { MOST = 300000 };
static int ints[MOST], room[MOST];
static int next_tag = 100;

static int received(int count, MPI_Datatype type, int how, int tag)
{
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    int error = MPI_SUCCESS, flag = 0;
    switch (how) {
    case 0: return MPI_Recv(room, count, type, 0, tag, MPI_COMM_WORLD, &status);
    case 1:
        OK(MPI_Irecv(room, count, type, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
        return MPI_Wait(&request, &status);
    case 2:
        OK(MPI_Mprobe(0, tag, MPI_COMM_WORLD, &message, &status));
        return MPI_Mrecv(room, count, type, &message, &status);
    case 3:
        OK(MPI_Recv_init(room, count, type, 0, tag, MPI_COMM_WORLD, &request));
        OK(MPI_Start(&request));
        while (!flag)
            error = MPI_Test(&request, &flag, &status);
        OK(MPI_Request_free(&request));
        return error;
    default:
        while (!flag)
            OK(MPI_Iprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
        return MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, room, count, type, 0, tag, MPI_COMM_WORLD, &status);
    }
}

/* Rank 0 sends in one of its ways, rank 1 receives in all of its ways, one of them late. */
static void pair(int count, MPI_Datatype sent, int room_count, MPI_Datatype wanted, int fits)
{
    for (int how = 0; how < 10; how++) {
        int tag = next_tag++, error = 0;
        MPI_Request request = MPI_REQUEST_NULL;
        if (my_rank == 0) {
            switch (how % 4) {
            case 0: OK(MPI_Send(ints, count, sent, 1, tag, MPI_COMM_WORLD)); break;
            case 1: OK(MPI_Issend(ints, count, sent, 1, tag, MPI_COMM_WORLD, &request)); break;
            case 2: OK(MPI_Isend(ints, count, sent, 1, tag, MPI_COMM_WORLD, &request)); break;
            default:
                OK(MPI_Sendrecv_replace(ints, count, sent, 1, tag, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                                        MPI_STATUS_IGNORE));
            }
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            if (how >= 5)
                usleep(2000);
            memset(room, 0, sizeof room);
            error = received(room_count, wanted, how % 5, tag);
            if (error)
                MPI_Error_class(error, &error);
            CHECK(error == (fits ? MPI_SUCCESS : MPI_ERR_TYPE), "%d values, received in way %d: class %d", count, how,
                  error);
            CHECK(count == 0 || room[1] == ints[1], "the data are missing: %d", room[1]);
        }
    }
}

/* Messages of different types with one tag keep their order, whatever becomes of those between them. */
static void order(void)
{
    enum { N = 40 };
    MPI_Request requests[N];
    MPI_Status status;
    int cancelled[N];
    if (my_rank == 0) {
        for (int i = 0; i < N; i++) {
            MPI_Datatype type = i % 2 ? MPI_INT : MPI_FLOAT;
            int count = i % 3 ? 2 : MOST / 10;
            OK((i % 5 ? MPI_Isend : MPI_Issend)(ints, count, type, 1, 7, MPI_COMM_WORLD, &requests[i]));
            if (i % 5 == 0)
                OK(MPI_Cancel(&requests[i]));
        }
        for (int i = 0; i < N; i += 5) {
            OK(MPI_Wait(&requests[i], &status));
            OK(MPI_Test_cancelled(&status, &cancelled[i]));
        }
        for (int i = 0; i < N; i++)
            if (i % 5)
                cancelled[i] = 0;
    }
    OK(MPI_Bcast(cancelled, N, MPI_INT, 0, MPI_COMM_WORLD));
    if (my_rank == 1)
        for (int i = 0; i < N; i++)
            if (!cancelled[i])
                OK(MPI_Recv(room, MOST, i % 2 ? MPI_INT : MPI_FLOAT, 0, 7, MPI_COMM_WORLD, &status));
    if (my_rank == 0)
        OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Datatype columns, mixed;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < MOST; i++)
        ints[i] = i + 1;
    OK(MPI_Type_vector(2, 3, 4, MPI_INT, &columns));
    OK(MPI_Type_commit(&columns));
    OK(MPI_Type_create_struct(2, (int[]){2, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_FLOAT}, &mixed));
    OK(MPI_Type_commit(&mixed));
    for (int size = 2; size <= MOST; size *= 20) {
        int even = size / 6 * 6;
        pair(size, MPI_INT, size, MPI_INT, 1);
        pair(size, MPI_INT, MOST, MPI_INT32_T, 1);
        pair(size, MPI_INT, MOST, MPI_BYTE, 1);
        pair(size, MPI_INT, size, MPI_FLOAT, 0);
        pair(size, MPI_FLOAT, MOST / 2, MPI_DOUBLE, 0);
        pair(size / 2, MPI_DOUBLE, size, MPI_FLOAT, 0);
        if (even) {
            pair(even, MPI_INT, even / 6, columns, 1);
            pair(even, MPI_FLOAT, even / 6, columns, 0);
            pair(even / 3, mixed, even / 3, mixed, 1);
            pair(even, MPI_INT, even / 3, mixed, 0);
        }
    }
    pair(0, MPI_INT, 5, MPI_DOUBLE, 1);
    order();
    OK(MPI_Type_free(&columns));
    OK(MPI_Type_free(&mixed));
    return finish();
}

/* Claim: bad arguments of point-to-point and collective calls give the error class that MPICH gives, with a text,
 * and nothing happens; good calls go on working afterwards. With the argument `strict` also those that MPICH 5.0.2
 * lets through or crashes on. */
#include "check.h"

static int a[4], b[4], strict;

static void envelopes(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int flag;
    FAILS(MPI_ERR_RANK, MPI_Send(a, 1, MPI_INT, n_ranks, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_RANK, MPI_Send(a, 1, MPI_INT, -7, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_RANK, MPI_Send(a, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_RANK, MPI_Isend(a, 1, MPI_INT, n_ranks, 1, MPI_COMM_WORLD, &request));
    FAILS(MPI_ERR_RANK, MPI_Recv(a, 1, MPI_INT, n_ranks, 1, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_RANK, MPI_Irecv(a, 1, MPI_INT, -9, 1, MPI_COMM_WORLD, &request));
    FAILS(MPI_ERR_RANK, MPI_Probe(n_ranks, 1, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_RANK, MPI_Iprobe(n_ranks, 1, MPI_COMM_WORLD, &flag, &status));
    FAILS(MPI_ERR_RANK, MPI_Ssend(a, 1, MPI_INT, n_ranks, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_RANK, MPI_Send_init(a, 1, MPI_INT, n_ranks, 1, MPI_COMM_WORLD, &request));
    FAILS(MPI_ERR_TAG, MPI_Send(a, 1, MPI_INT, 0, -1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TAG, MPI_Send(a, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TAG, MPI_Recv(a, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_TAG, MPI_Iprobe(0, -5, MPI_COMM_WORLD, &flag, &status));
    FAILS(MPI_ERR_TAG, MPI_Probe(MPI_PROC_NULL, -5, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_TAG, MPI_Iprobe(MPI_PROC_NULL, -5, MPI_COMM_WORLD, &flag, &status));
    FAILS(MPI_ERR_TAG, MPI_Send(a, 1, MPI_INT, MPI_PROC_NULL, -1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TAG, MPI_Recv(a, 1, MPI_INT, MPI_PROC_NULL, -5, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_COUNT, MPI_Isend(a, -1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    FAILS(MPI_ERR_COUNT, MPI_Recv(a, -1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_COUNT, MPI_Send(a, -1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_COUNT, MPI_Recv(a, -1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_COUNT, MPI_Irecv(a, -1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
    FAILS(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_BUFFER, MPI_Recv(NULL, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
}

static void handles(void)
{
    MPI_Request request = MPI_REQUEST_NULL, junk = (MPI_Request)0x12345678;
    MPI_Status status;
    MPI_Datatype open, freed, copy;
    MPI_Comm gone, gone_copy;
    int size;
    FAILS(MPI_ERR_COMM, MPI_Send(a, 1, MPI_INT, 0, 1, MPI_COMM_NULL));
    FAILS(MPI_ERR_COMM, MPI_Send(a, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_NULL));
    FAILS(MPI_ERR_COMM, MPI_Recv(a, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_NULL, &status));
    FAILS(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_NULL, &size));
    FAILS(MPI_ERR_COMM, MPI_Comm_size((MPI_Comm)0x12345678, &size));
    FAILS(MPI_ERR_COMM, MPI_Barrier((MPI_Comm)MPI_INT));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &gone));
    gone_copy = gone;
    OK(MPI_Comm_free(&gone));
    CHECK(gone == MPI_COMM_NULL, "handle not null after free");
    FAILS(MPI_ERR_COMM, MPI_Comm_size(gone_copy, &size));
    FAILS(MPI_ERR_COMM, MPI_Send(a, 1, MPI_INT, 0, 1, gone_copy));
    FAILS(MPI_ERR_TYPE, MPI_Send(a, 1, MPI_DATATYPE_NULL, 0, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TYPE, MPI_Recv(a, 1, MPI_DATATYPE_NULL, 0, 1, MPI_COMM_WORLD, &status));
    FAILS(MPI_ERR_TYPE, MPI_Send(a, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TYPE, MPI_Send(a, 1, (MPI_Datatype)MPI_COMM_WORLD, 0, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TYPE, MPI_Type_size(MPI_DATATYPE_NULL, &size));
    OK(MPI_Type_contiguous(2, MPI_INT, &open));
    FAILS(MPI_ERR_TYPE, MPI_Send(a, 1, open, 0, 1, MPI_COMM_WORLD)); /* not committed */
    FAILS(MPI_ERR_TYPE, MPI_Irecv(a, 1, open, 0, 1, MPI_COMM_WORLD, &request));
    freed = copy = open;
    OK(MPI_Type_free(&freed));
    CHECK(freed == MPI_DATATYPE_NULL, "handle not null after free");
    if (strict)
        FAILS(MPI_ERR_TYPE, MPI_Send(a, 1, copy, 0, 1, MPI_COMM_WORLD));
    MPI_Datatype named = MPI_INT;
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&named));
    FAILS(MPI_ERR_REQUEST, MPI_Wait(&junk, &status));
    FAILS(MPI_ERR_REQUEST, MPI_Request_free(&request));
    FAILS(MPI_ERR_REQUEST, MPI_Cancel(&request));
    FAILS(MPI_ERR_REQUEST, MPI_Start(&request));
    FAILS(MPI_ERR_ARG, MPI_Wait(NULL, &status));
    FAILS(MPI_ERR_ARG, MPI_Comm_size(MPI_COMM_WORLD, NULL));
    FAILS(MPI_ERR_ARG, MPI_Type_size(MPI_INT, NULL));
    FAILS(MPI_ERR_ARG, MPI_Isend(a, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, NULL));
}

static void collectives(void)
{
    int counts[64] = {0}, places[64] = {0};
    FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, n_ranks, MPI_COMM_WORLD));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, -1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_ROOT, MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, n_ranks, MPI_COMM_WORLD));
    FAILS(MPI_ERR_ROOT, MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, -3, MPI_COMM_WORLD));
    FAILS(MPI_ERR_COUNT, MPI_Bcast(a, -1, MPI_INT, 0, MPI_COMM_WORLD));
    if (strict)
        FAILS(MPI_ERR_COUNT, MPI_Allreduce(a, b, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TYPE, MPI_Bcast(a, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
    FAILS(MPI_ERR_COMM, MPI_Allreduce(a, b, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    FAILS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
    FAILS(MPI_ERR_OP, MPI_Allreduce(a, b, 1, MPI_INT, MPI_REPLACE, MPI_COMM_WORLD));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(a, b, 1, MPI_INT, MPI_NO_OP));
    FAILS(MPI_ERR_INFO, MPI_Barrier_init(MPI_COMM_WORLD, (MPI_Info)MPI_COMM_WORLD, &(MPI_Request){0}));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(a, a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)); /* aliased */
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(a, 1, MPI_INT, a, 1, MPI_INT, MPI_COMM_WORLD));
    FAILS(MPI_ERR_BUFFER, MPI_Scan(a, a, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (strict)
        FAILS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(NULL, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (strict) {
        MPI_Datatype types[64];
        for (int i = 0; i < n_ranks; i++)
            types[i] = MPI_INT, counts[i] = 1;
        FAILS(MPI_ERR_BUFFER, MPI_Alltoallw(NULL, counts, places, types, b, counts, places, types, MPI_COMM_WORLD));
        FAILS(MPI_ERR_BUFFER, MPI_Alltoallw(b, counts, places, types, NULL, counts, places, types, MPI_COMM_WORLD));
    }
    counts[0] = -1;
    FAILS(MPI_ERR_COUNT, MPI_Allgatherv(a, 1, MPI_INT, b, counts, places, MPI_INT, MPI_COMM_WORLD));
    MPI_Op predefined = MPI_SUM, none = MPI_OP_NULL;
    FAILS(MPI_ERR_OP, MPI_Op_free(&predefined));
    FAILS(MPI_ERR_OP, MPI_Op_free(&none));
}

static void constructors(void)
{
    MPI_Datatype type;
    FAILS(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &type));
    FAILS(MPI_ERR_TYPE, MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type));
    FAILS(MPI_ERR_COUNT, MPI_Type_vector(1, -1, 1, MPI_INT, &type));
    if (strict)
        FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(1, (int[]){4}, (int[]){5}, (int[]){0}, MPI_ORDER_C, MPI_INT, &type));
    FAILS(MPI_ERR_COMM, MPI_Comm_dup(MPI_COMM_NULL, &(MPI_Comm){0}));
    if (strict)
        FAILS(MPI_ERR_ARG, MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &(MPI_Comm){0}));
}

/* The text of an error says in which function it is and of which argument. */
static void says(int code, const char *function, const char *argument)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    OK(MPI_Error_string(code, text, &length));
    CHECK(strstr(text, function) && strstr(text, argument), "'%s' lacks %s or %s", text, function, argument);
}

static void texts(void)
{
    MPI_Datatype type;
    MPI_Status status;
    says(MPI_Allgather(a, -1, MPI_INT, b, 1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather: ", "sendbuf: count");
    says(MPI_Allgather(a, 1, MPI_INT, b, -1, MPI_INT, MPI_COMM_WORLD), "MPI_Allgather: ", "recvbuf: count");
    says(MPI_Sendrecv(a, 1, MPI_DATATYPE_NULL, 0, 0, b, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), "MPI_Sendrecv: ", "sending: ");
    says(MPI_Sendrecv(a, 1, MPI_INT, 0, 0, b, 1, MPI_INT, n_ranks, 0, MPI_COMM_WORLD, &status), "MPI_Sendrecv: ", "receiving: ");
    says(MPI_Type_indexed(3, (int[]){1, 1, -3}, (int[]){0, 2, 4}, MPI_INT, &type), "MPI_Type_indexed: ", "block length 2 ");
    says(MPI_Type_create_subarray(2, (int[]){4, -1}, (int[]){1, 1}, (int[]){0, 0}, MPI_ORDER_C, MPI_INT, &type),
         "MPI_Type_create_subarray: ", "size 1 ");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    envelopes();
    handles();
    collectives();
    constructors();
    if (strict)
        texts();
    int sum = 0, mine = 1;
    OK(MPI_Sendrecv_replace(&mine, 1, MPI_INT, (my_rank + 1) % n_ranks, 1, (my_rank + n_ranks - 1) % n_ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == n_ranks, "sum %d after all these errors", sum);
    return finish();
}

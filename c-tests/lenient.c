/* Claim: what MPICH lets through goes through here and does what was meant: a root that gathers less from itself than it
 * has room for, however the gather goes; an exchange between places of one array; no datatype where there is nothing to
 * transfer; a user function that asks about a datatype which has been freed since; a buffer that is detached although there
 * is none; a program that reads MPI_ERROR of statuses. MPI_Startall starts all or none, MPI_Dims_create divides by what is
 * given, negative colors are colors where errors end the job, and a structure of blocks of one datatype has no padding. The argument `strict` adds long gathers, and that what is
 * longer than its room in a gather is truncated. */
#include "check.h"

/* Everybody but the root sends `count` integers. */
static void gathers(int count)
{
    int root = n_ranks - 1, mine = my_rank == root ? 0 : count;
    int *out = malloc(count * sizeof *out), *all = malloc((size_t)n_ranks * count * sizeof *all);
    MPI_Request requests[2];
    fill(out, count * sizeof *out, my_rank);
    for (int way = 0; way < 3; way++) {
        memset(all, 0x5a, (size_t)n_ranks * count * sizeof *all);
        if (way == 0)
            OK(MPI_Gather(out, mine, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD));
        if (way == 1)
            OK(MPI_Igather(out, mine, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD, &requests[0]));
        if (way == 2) {
            OK(MPI_Gather_init(out, mine, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
            OK(MPI_Start(&requests[0]));
        }
        if (way > 0)
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        if (way == 2)
            OK(MPI_Request_free(&requests[0]));
        for (int rank = 0; rank < n_ranks && my_rank == root; rank++)
            if (rank != root)
                CHECK(first_difference(all + (size_t)rank * count, count * sizeof *all, rank) < 0, "way %d, %d of rank %d", way, count, rank);
            else
                CHECK(all[(size_t)rank * count] == 0x5a5a5a5a, "the root's own block was written");
    }
    free(out), free(all);
}

/* From the first half of an array to the second. */
static void in_one_array(void)
{
    int *a = malloc(2 * n_ranks * sizeof *a), *ones = malloc(n_ranks * sizeof *ones), *also = malloc(n_ranks * sizeof *also);
    int *from = malloc(n_ranks * sizeof *from), *to = malloc(n_ranks * sizeof *to);
    MPI_Datatype *types = malloc(n_ranks * sizeof *types);
    for (int way = 0; way < 2; way++) {
        int scale = way ? sizeof *a : 1;
        for (int i = 0; i < n_ranks; i++) {
            a[i] = my_rank * 100 + i, a[n_ranks + i] = -1;
            ones[i] = also[i] = 1, from[i] = i * scale, to[i] = (n_ranks + i) * scale, types[i] = MPI_INT;
        }
        if (way)
            OK(MPI_Alltoallw(a, ones, from, types, a, also, to, types, MPI_COMM_WORLD));
        else
            OK(MPI_Alltoallv(a, ones, from, MPI_INT, a, also, to, MPI_INT, MPI_COMM_WORLD));
        for (int i = 0; i < n_ranks; i++)
            CHECK(a[i] == my_rank * 100 + i && a[n_ranks + i] == i * 100 + my_rank, "%d and %d", a[i], a[n_ranks + i]);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoallv(a, ones, from, MPI_INT, a, ones, from, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    free(a), free(ones), free(also), free(from), free(to), free(types);
}

static void without_type(void)
{
    int *none = calloc(n_ranks, sizeof *none), *also = calloc(n_ranks, sizeof *also);
    MPI_Datatype *types = malloc(n_ranks * sizeof *types);
    char out = 1, in = 2;
    for (int i = 0; i < n_ranks; i++)
        types[i] = MPI_DATATYPE_NULL;
    OK(MPI_Bcast(NULL, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Alltoallw(&out, none, none, types, &in, also, none, types, MPI_COMM_WORLD));
    CHECK(in == 2, "%d", in);
    /* One pair of ranks exchanges something. */
    if (my_rank == 0)
        none[n_ranks - 1] = 1, types[n_ranks - 1] = MPI_CHAR;
    if (my_rank == n_ranks - 1)
        also[0] = 1;
    MPI_Datatype *theirs = malloc(n_ranks * sizeof *theirs);
    for (int i = 0; i < n_ranks; i++)
        theirs[i] = also[i] ? MPI_CHAR : MPI_DATATYPE_NULL;
    int *places = calloc(n_ranks, sizeof *places);
    OK(MPI_Alltoallw(&out, none, places, types, &in, also, places, theirs, MPI_COMM_WORLD));
    CHECK(in == (my_rank == n_ranks - 1 ? 1 : 2), "%d", in);
    free(none), free(also), free(types), free(theirs), free(places);
}

static int asked;

static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    OK(MPI_Type_get_extent(*type, &lb, &extent));
    CHECK(extent == 2 * sizeof(int), "extent %ld", (long)extent);
    asked++;
    for (int i = 0; i < *count * 2; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static void freed_type(void)
{
    int out[6], in[6] = {0};
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Request request;
    OK(MPI_Op_create(sum, 1, &op));
    for (int i = 0; i < 6; i++)
        out[i] = my_rank + i;
    for (int way = 0; way < 2; way++) {
        OK(MPI_Type_contiguous(2, MPI_INT, &pair));
        OK(MPI_Type_commit(&pair));
        if (way == 0)
            OK(MPI_Iallreduce(out, in, 3, pair, op, MPI_COMM_WORLD, &request));
        else {
            OK(MPI_Allreduce_init(out, in, 3, pair, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            OK(MPI_Start(&request));
        }
        OK(MPI_Type_free(&pair));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (way == 1)
            OK(MPI_Request_free(&request));
        for (int i = 0; i < 6; i++)
            CHECK(in[i] == n_ranks * (n_ranks - 1) / 2 + n_ranks * i, "[%d] = %d", i, in[i]);
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &asked, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(asked > 0 || n_ranks == 1, "nobody called the function");
    OK(MPI_Op_free(&op));
}

static void statuses(void)
{
    int out = 1, in = 0;
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    for (int i = 0; i < 3; i++)
        statuses[i].MPI_ERROR = 777;
    OK(MPI_Wait(&requests[0], &statuses[0]));
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS, "the empty status has error %d", statuses[0].MPI_ERROR);
    statuses[0].MPI_ERROR = 777;
    OK(MPI_Irecv(&in, 1, MPI_INT, my_rank, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&out, 1, MPI_INT, my_rank, 0, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(3, requests, statuses));
    for (int i = 0; i < 3; i++)
        CHECK(statuses[i].MPI_ERROR == MPI_SUCCESS, "status %d has error %d", i, statuses[i].MPI_ERROR);
}

static void starts(void)
{
    int out = 1, in, flag;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    OK(MPI_Send_init(&out, 1, MPI_INT, my_rank, 5, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_REQUEST, MPI_Startall(2, requests));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Iprobe(my_rank, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "one was started");
    OK(MPI_Start(&requests[0]));
    OK(MPI_Recv(&in, 1, MPI_INT, my_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&requests[0]));
}

static void bounds(void)
{
    MPI_Datatype record, packed, types[2] = {MPI_INT, MPI_CHAR}, made;
    MPI_Aint lb, extent;
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 4}, types, &record));
    OK(MPI_Type_create_resized(record, 0, 5, &packed));
    for (int count = 1; count <= 3; count++) {
        OK(MPI_Type_create_struct(1, &count, (MPI_Aint[]){0}, &packed, &made));
        OK(MPI_Type_get_extent(made, &lb, &extent));
        CHECK(lb == 0 && extent == 5 * count, "%d records have extent %ld", count, (long)extent);
        OK(MPI_Type_free(&made));
    }
    types[1] = packed;
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 4}, types, &made));
    OK(MPI_Type_get_extent(made, &lb, &extent));
    CHECK(extent == 12, "an integer and a record have extent %ld", (long)extent);
    OK(MPI_Type_free(&made));
    OK(MPI_Type_free(&packed));
    OK(MPI_Type_free(&record));

    void *address = &lb;
    int size = 7, dims[2] = {1, 2};
    OK(MPI_Buffer_detach(&address, &size));
    CHECK(size == 0 && !address, "%d bytes at %p", size, address);
    OK(MPI_Dims_create(8, 2, dims));
    CHECK(dims[0] == 1 && dims[1] == 2, "%d x %d", dims[0], dims[1]);
}

static void truncated(void)
{
    int data[200] = {0}, *all = malloc(100 * n_ranks * sizeof *all);
    for (int count = 1; count <= 100; count *= 10) {
        MPI_Comm comm; /* Not freed: its members do not agree any more. */
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        if (my_rank == 0)
            FAILS(MPI_ERR_TRUNCATE, MPI_Gather(MPI_IN_PLACE, 0, MPI_INT, all, count, MPI_INT, 0, comm));
        else
            OK(MPI_Gather(data, 2 * count, MPI_INT, NULL, 0, MPI_INT, 0, comm));
    }
    free(all);
}

static void negative_colors(void)
{
    MPI_Comm part;
    int size, color = my_rank ? -1 : -5;
    OK(MPI_Comm_split(MPI_COMM_WORLD, color, -my_rank, &part));
    OK(MPI_Comm_size(part, &size));
    CHECK(size == (my_rank ? n_ranks - 1 : 1), "%d ranks of color %d", size, color);
    OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    negative_colors();
    statuses();
    starts();
    bounds();
    for (int count = 1; count <= (argc > 1 ? 1 << 20 : 256); count *= 16)
        gathers(count);
    in_one_array();
    without_type();
    freed_type();
    if (argc > 1)
        truncated();
    return finish();
}

/* Claim: a wrong argument gives the same error class here as in MPICH, call by call. Prints an answer for each call, to
 * be compared between libraries; with "strict" tries those that crash MPICH or that it does not see. */
#include "check.h"

static void say(const char *name, int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    if (my_rank == 0)
        printf("answer: classes %s %d\n", name, class);
    fflush(stdout);
}
#define TRY(name, call) say(name, call)

static MPI_Comm world = MPI_COMM_WORLD;

static void messages(void)
{
    int b[8] = {0}, flag;
    MPI_Request r;
    MPI_Status s;
    MPI_Message m;
    MPI_Datatype raw;
    OK(MPI_Type_contiguous(3, MPI_INT, &raw));
    TRY("send count", MPI_Send(b, -1, MPI_INT, 0, 0, world));
    TRY("send type null", MPI_Send(b, 1, MPI_DATATYPE_NULL, 0, 0, world));
    TRY("send type not committed", MPI_Send(b, 1, raw, MPI_PROC_NULL, 0, world));
    TRY("send rank high", MPI_Send(b, 1, MPI_INT, 99, 0, world));
    TRY("send rank low", MPI_Send(b, 1, MPI_INT, -77, 0, world));
    TRY("send to any", MPI_Send(b, 1, MPI_INT, MPI_ANY_SOURCE, 0, world));
    TRY("send tag", MPI_Send(b, 1, MPI_INT, 0, -77, world));
    TRY("send any tag", MPI_Send(b, 1, MPI_INT, 0, MPI_ANY_TAG, world));
    TRY("send comm null", MPI_Send(b, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    TRY("send buffer null", MPI_Send(NULL, 4, MPI_INT, MPI_PROC_NULL, 0, world));
    TRY("ssend rank", MPI_Ssend(b, 1, MPI_INT, 99, 0, world));
    TRY("bsend rank", MPI_Bsend(b, 1, MPI_INT, 99, 0, world));
    TRY("rsend tag", MPI_Rsend(b, 1, MPI_INT, 0, -5, world));
    TRY("isend count", MPI_Isend(b, -1, MPI_INT, 0, 0, world, &r));
    TRY("isend request null", MPI_Isend(b, 1, MPI_INT, MPI_PROC_NULL, 0, world, NULL));
    TRY("issend rank", MPI_Issend(b, 1, MPI_INT, 99, 0, world, &r));
    TRY("irsend type", MPI_Irsend(b, 1, MPI_DATATYPE_NULL, 0, 0, world, &r));
    TRY("ibsend tag", MPI_Ibsend(b, 1, MPI_INT, 0, -4, world, &r));
    TRY("send_init tag", MPI_Send_init(b, 1, MPI_INT, 0, -4, world, &r));
    TRY("recv_init rank", MPI_Recv_init(b, 1, MPI_INT, 99, 0, world, &r));
    TRY("recv rank", MPI_Recv(b, 1, MPI_INT, 99, 0, world, &s));
    TRY("recv tag", MPI_Recv(b, 1, MPI_INT, 0, -77, world, &s));
    TRY("recv count", MPI_Recv(b, -1, MPI_INT, 0, 0, world, &s));
    TRY("irecv type", MPI_Irecv(b, 1, MPI_DATATYPE_NULL, 0, 0, world, &r));
    TRY("sendrecv tag", MPI_Sendrecv(b, 1, MPI_INT, 0, -9, b + 4, 1, MPI_INT, 0, 0, world, &s));
    TRY("sendrecv_replace count", MPI_Sendrecv_replace(b, -1, MPI_INT, 0, 0, 0, 0, world, &s));
    TRY("probe rank", MPI_Probe(42, 0, world, &s));
    TRY("iprobe flag null", MPI_Iprobe(MPI_ANY_SOURCE, 0, world, NULL, &s));
    TRY("mprobe tag", MPI_Mprobe(0, -9, world, &m, &s));
    TRY("improbe rank", MPI_Improbe(99, 0, world, &flag, &m, &s));
    TRY("get_count type", MPI_Get_count(&s, MPI_DATATYPE_NULL, b));
    r = MPI_REQUEST_NULL;
    TRY("request_free null", MPI_Request_free(&r));
    TRY("cancel null", MPI_Cancel(&r));
    TRY("start null", MPI_Start(&r));
    TRY("waitall count", MPI_Waitall(-1, &r, MPI_STATUSES_IGNORE));
    TRY("waitall array null", MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE));
    TRY("waitany count", MPI_Waitany(-1, &r, &flag, &s));
    TRY("testsome count", MPI_Testsome(-1, &r, &flag, b, MPI_STATUSES_IGNORE));
    TRY("wait null", MPI_Wait(NULL, &s));
    TRY("test flag null", MPI_Test(&r, NULL, &s));
    r = 0x4badbad0;
    TRY("wait garbage", MPI_Wait(&r, &s));
    OK(MPI_Type_free(&raw));
}

static void collectives(void)
{
    int b[64] = {0}, c[64] = {0}, one = 1;
    MPI_Op op;
    MPI_Request r;
    TRY("bcast root high", MPI_Bcast(b, 1, MPI_INT, 9, world));
    TRY("bcast root low", MPI_Bcast(b, 1, MPI_INT, -9, world));
    TRY("bcast count", MPI_Bcast(b, -1, MPI_INT, 0, world));
    TRY("bcast type", MPI_Bcast(b, 1, MPI_DATATYPE_NULL, 0, world));
    TRY("bcast comm", MPI_Bcast(b, 1, MPI_INT, 0, MPI_COMM_NULL));
    TRY("barrier comm", MPI_Barrier(MPI_COMM_NULL));
    TRY("gather root", MPI_Gather(b, 1, MPI_INT, c, 1, MPI_INT, 77, world));
    TRY("gather count", MPI_Gather(b, -1, MPI_INT, c, 1, MPI_INT, 0, world));
    TRY("scatter root", MPI_Scatter(b, 1, MPI_INT, c, 1, MPI_INT, -7, world));
    TRY("allgather type", MPI_Allgather(b, 1, MPI_DATATYPE_NULL, c, 1, MPI_INT, world));
    TRY("alltoall count", MPI_Alltoall(b, 1, MPI_INT, c, -1, MPI_INT, world));
    TRY("reduce root", MPI_Reduce(b, c, 1, MPI_INT, MPI_SUM, 99, world));
    TRY("reduce op null", MPI_Reduce(b, c, 1, MPI_INT, MPI_OP_NULL, 0, world));
    TRY("allreduce op and type", MPI_Allreduce(b, c, 1, MPI_DOUBLE, MPI_BAND, world));
    TRY("allreduce one buffer", MPI_Allreduce(b, b, 1, MPI_INT, MPI_SUM, world));
    TRY("exscan op", MPI_Exscan(b, c, 1, MPI_INT, MPI_OP_NULL, world));
    TRY("reduce_local op", MPI_Reduce_local(b, c, 1, MPI_INT, MPI_OP_NULL));
    TRY("ibarrier comm", MPI_Ibarrier(MPI_COMM_NULL, &r));
    TRY("ibcast root", MPI_Ibcast(b, 1, MPI_INT, 99, world, &r));
    TRY("ireduce op", MPI_Ireduce(b, c, 1, MPI_INT, MPI_OP_NULL, 0, world, &r));
    op = MPI_SUM;
    TRY("op_free builtin", MPI_Op_free(&op));
    op = MPI_OP_NULL;
    TRY("op_free null", MPI_Op_free(&op));
    TRY("op_commutative null", MPI_Op_commutative(MPI_OP_NULL, &one));
}

static void communicators(void)
{
    int i, range[1][3] = {{0, 0, 0}}, far = 55, flag;
    void *value;
    MPI_Comm comm = world;
    MPI_Group group, other;
    OK(MPI_Comm_group(world, &group));
    TRY("comm_rank comm", MPI_Comm_rank(MPI_COMM_NULL, &i));
    TRY("comm_rank pointer", MPI_Comm_rank(world, NULL));
    TRY("comm_rank garbage", MPI_Comm_rank(0x4badbad0, &i));
    TRY("comm_size comm", MPI_Comm_size(MPI_COMM_NULL, &i));
    TRY("comm_dup pointer", MPI_Comm_dup(world, NULL));
    TRY("comm_dup comm", MPI_Comm_dup(MPI_COMM_NULL, &comm));
    TRY("intercomm_create leader", MPI_Intercomm_create(MPI_COMM_SELF, 7, world, 0, 0, &comm));
    comm = MPI_COMM_NULL;
    TRY("comm_free null", MPI_Comm_free(&comm));
    TRY("comm_create group", MPI_Comm_create(world, MPI_GROUP_NULL, &comm));
    TRY("comm_split_type", MPI_Comm_split_type(world, -77, 0, MPI_INFO_NULL, &comm));
    TRY("comm_set_name null", MPI_Comm_set_name(MPI_COMM_NULL, "x"));
    TRY("comm_get_attr keyval", MPI_Comm_get_attr(world, MPI_KEYVAL_INVALID, &value, &flag));
    TRY("comm_set_attr predefined", MPI_Comm_set_attr(world, MPI_TAG_UB, &i));
    i = MPI_KEYVAL_INVALID;
    TRY("comm_free_keyval", MPI_Comm_free_keyval(&i));
    TRY("group_incl rank", MPI_Group_incl(group, 1, &far, &other));
    TRY("group_excl rank", MPI_Group_excl(group, 1, &far, &other));
    TRY("group_range_incl stride", MPI_Group_range_incl(group, 1, range, &other));
    TRY("group_size null", MPI_Group_size(MPI_GROUP_NULL, &i));
    TRY("group_union null", MPI_Group_union(group, MPI_GROUP_NULL, &other));
    TRY("group_translate", MPI_Group_translate_ranks(group, 1, &far, group, &i));
    other = MPI_GROUP_NULL;
    TRY("group_free null", MPI_Group_free(&other));
    OK(MPI_Group_free(&group));
}

static void types(void)
{
    int b[8], length = -1, position = 0;
    MPI_Aint at = 0;
    MPI_Datatype type, old = MPI_INT;
    TRY("type_contiguous count", MPI_Type_contiguous(-2, MPI_INT, &type));
    TRY("type_contiguous old", MPI_Type_contiguous(2, MPI_DATATYPE_NULL, &type));
    TRY("type_vector count", MPI_Type_vector(-2, 1, 1, MPI_INT, &type));
    TRY("type_vector block", MPI_Type_vector(2, -1, 1, MPI_INT, &type));
    TRY("type_indexed null", MPI_Type_indexed(2, NULL, NULL, MPI_INT, &type));
    TRY("type_create_struct block", MPI_Type_create_struct(1, &length, &at, &old, &type));
    TRY("type_create_resized", MPI_Type_create_resized(MPI_DATATYPE_NULL, 0, 4, &type));
    type = MPI_INT;
    TRY("type_free builtin", MPI_Type_free(&type));
    type = MPI_DATATYPE_NULL;
    TRY("type_free null", MPI_Type_free(&type));
    TRY("type_commit null", MPI_Type_commit(&type));
    TRY("type_size pointer", MPI_Type_size(MPI_INT, NULL));
    TRY("type_size garbage", MPI_Type_size(0x4badbad0, b));
    TRY("type_match_size class", MPI_Type_match_size(99, 4, &type));
    TRY("pack count", MPI_Pack(b, -1, MPI_INT, b, 8, &position, world));
    TRY("pack type", MPI_Pack(b, 1, MPI_DATATYPE_NULL, b, 8, &position, world));
    TRY("pack_size comm", MPI_Pack_size(1, MPI_INT, MPI_COMM_NULL, b));
    TRY("get_elements type", MPI_Get_elements(&(MPI_Status){0}, MPI_DATATYPE_NULL, b));
}

static void the_rest(void)
{
    int b[8], two[2] = {50, 50}, closed[2] = {0, 0}, flag;
    char text[MPI_MAX_ERROR_STRING], key[400], value[2000];
    MPI_Comm comm;
    MPI_Info info;
    void *memory;
    OK(MPI_Info_create(&info));
    memset(key, 'k', sizeof key);
    key[399] = 0;
    memset(value, 'v', sizeof value);
    value[1999] = 0;
    TRY("info_set key", MPI_Info_set(info, key, "v"));
    TRY("info_set value", MPI_Info_set(info, "k", value));
    TRY("info_set empty key", MPI_Info_set(info, "", "v"));
    TRY("info_set null", MPI_Info_set(MPI_INFO_NULL, "k", "v"));
    TRY("info_delete", MPI_Info_delete(info, "no such key"));
    TRY("info_get_nthkey", MPI_Info_get_nthkey(info, 3, key));
    TRY("info_get length", MPI_Info_get(info, "k", -1, value, &flag));
    OK(MPI_Info_free(&info));
    TRY("info_free null", MPI_Info_free(&(MPI_Info){MPI_INFO_NULL}));
    TRY("cart_create dims", MPI_Cart_create(world, 2, two, closed, 0, &comm));
    TRY("cart_coords", MPI_Cart_coords(world, 0, 1, b));
    TRY("cart_rank", MPI_Cart_rank(world, closed, b));
    TRY("cart_shift", MPI_Cart_shift(world, 0, 1, b, b + 1));
    TRY("cartdim_get", MPI_Cartdim_get(world, b));
    TRY("graph_neighbors_count", MPI_Graph_neighbors_count(world, 0, b));
    TRY("graphdims_get", MPI_Graphdims_get(world, b, b + 1));
    TRY("dist_graph_neighbors_count", MPI_Dist_graph_neighbors_count(world, b, b + 1, b + 2));
    TRY("dims_create", MPI_Dims_create(4, 2, (int[]){3, 0}));
    TRY("dims_create negative", MPI_Dims_create(4, 2, (int[]){-1, 0}));
    TRY("neighbor_allgather", MPI_Neighbor_allgather(b, 1, MPI_INT, b + 4, 1, MPI_INT, world));
    TRY("errhandler_free null", MPI_Errhandler_free(&(MPI_Errhandler){MPI_ERRHANDLER_NULL}));
    TRY("comm_set_errhandler null", MPI_Comm_set_errhandler(world, MPI_ERRHANDLER_NULL));
    TRY("error_class pointer", MPI_Error_class(0, NULL));
    TRY("error_string pointer", MPI_Error_string(1, NULL, b));
    TRY("add_error_string", MPI_Add_error_string(MPI_ERR_RANK, "x"));
    TRY("alloc_mem size", MPI_Alloc_mem(-5, MPI_INFO_NULL, &memory));
    TRY("get_processor_name", MPI_Get_processor_name(NULL, b));
    (void)text;
}

/* Where MPICH 5.0.2 crashes or sees nothing. */
static void strict(void)
{
    int b[8] = {0}, i, two[2] = {0, 0}, size = 4, sub = 9, start = 0, closed[1] = {0};
    MPI_Comm comm;
    MPI_Group group, other;
    MPI_Datatype type;
    void *memory;
    OK(MPI_Comm_group(world, &group));
    FAILS(MPI_ERR_BUFFER, MPI_Exscan(b, b, 1, MPI_INT, MPI_SUM, world));
    FAILS(MPI_ERR_COUNT, MPI_Scan(b, b + 4, -1, MPI_INT, MPI_SUM, world));
    FAILS(MPI_ERR_COMM, MPI_Comm_remote_size(world, &i));
    FAILS(MPI_ERR_COMM, MPI_Comm_remote_group(world, &other));
    FAILS(MPI_ERR_COMM, MPI_Intercomm_merge(world, 0, &comm));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(group, 2, two, &other));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(1, &size, &sub, &start, MPI_ORDER_C, MPI_INT, &type));
    FAILS(MPI_ERR_DIMS, MPI_Cart_create(world, 1, (int[]){-1}, closed, 0, &comm));
    FAILS(MPI_ERR_NO_MEM, MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &memory));
    OK(MPI_Group_free(&group));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    if (argc > 1) {
        strict();
    } else {
        messages();
        collectives();
        communicators();
        types();
        the_rest();
    }
    OK(MPI_Comm_free(&world));
    return finish();
}

/* Claim: under either ABI its own constants count, and what means something in the other one only is an error of the class that
 * any nonsense is; handles become integers and come back; call-backs are given handles and numbers of the program's ABI. */
#include "io.h"

#ifdef MPI_ABI /* the others: those of MPICH's ABI */
#define OTHER(standard, mpich) (mpich)
#else
#define OTHER(standard, mpich) (standard)
#endif

static void nonsense(void)
{
    int value = 7, size = 0, positions[2] = {0, 0}, sizes[2] = {4, 4}, parts[2] = {2, 2};
    MPI_Datatype type;
    MPI_Win win;
    FAILS(MPI_ERR_COMM, MPI_Comm_rank((MPI_Comm)(intptr_t)OTHER(0x101, 0x44000000), &size));
    FAILS(MPI_ERR_TYPE, MPI_Type_size((MPI_Datatype)(intptr_t)OTHER(0x209, 0x4c000405), &size));
    FAILS(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, OTHER(-3, -1), 0, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TAG, MPI_Recv(&value, 1, MPI_INT, 0, OTHER(-2, -1), MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sizes, parts, positions, OTHER(12, 56), MPI_INT, &type));
    FAILS(MPI_ERR_ARG, MPI_Comm_split_type(MPI_COMM_WORLD, OTHER(221, 1), 0, MPI_INFO_NULL, &(MPI_Comm){MPI_COMM_NULL}));
    char *commands[1] = {"none"};
    int counts[1] = {1}, codes[1] = {7};
    MPI_Info infos[1] = {MPI_INFO_NULL};
    MPI_Comm none;
    FAILS(MPI_ERR_COUNT, MPI_Comm_spawn_multiple(-1, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_SELF, &none, codes));
    CHECK(codes[0] == 7, "an error code of nobody: %d", codes[0]);
    OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_LOCKTYPE, MPI_Win_lock(OTHER(302, 235), 0, 0, win));
    OK(MPI_Win_free(&win));
}

/* The numbers of distributions are sizes where they stand for one. */
static void arrays(void)
{
    int size = 0, sizes[1] = {600}, ways[1] = {MPI_DISTRIBUTE_CYCLIC}, ranks[1] = {2};
    int args[] = {16, 17, 18, 20, 121, 122, 123, MPI_DISTRIBUTE_DFLT_DARG};
    for (int i = 0; i < 8; i++) {
        int block = args[i] == MPI_DISTRIBUTE_DFLT_DARG ? 1 : args[i], mine = 0, made[8];
        for (int at = 0; at < 600; at++)
            mine += at / block % 2 == 0;
        MPI_Datatype type, of;
        MPI_Aint none;
        OK(MPI_Type_create_darray(2, 0, 1, sizes, ways, args + i, ranks, MPI_ORDER_FORTRAN, MPI_SHORT_INT, &type));
        OK(MPI_Type_size(type, &size));
        CHECK(size == mine * (int)(sizeof(short) + sizeof(int)), "blocks of %d: %d bytes", block, size);
        OK(MPI_Type_get_contents(type, 8, 0, 1, made, &none, &of));
        CHECK(made[4] == MPI_DISTRIBUTE_CYCLIC && made[5] == args[i] && made[7] == MPI_ORDER_FORTRAN && of == MPI_SHORT_INT,
              "made with %d %d %d", made[4], made[5], made[7]);
        OK(MPI_Type_free(&type));
    }
    MPI_Datatype both[2] = {MPI_INT, MPI_DOUBLE}, got[3] = {MPI_BYTE, MPI_BYTE, MPI_BYTE}, type;
    int one[2] = {1, 1}, integers[3];
    MPI_Aint at[2] = {0, 8}, places[2];
    OK(MPI_Type_create_struct(2, one, at, both, &type));
    OK(MPI_Type_get_contents(type, 3, 2, 3, integers, places, got));
    CHECK(got[0] == MPI_INT && got[1] == MPI_DOUBLE && got[2] == MPI_BYTE, "other datatypes");
    OK(MPI_Type_free(&type));
}

static void requests(void)
{
    static const MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; /* which nobody may write to */
    int index = 0, flag = 0, count = 0, indices[2];
    OK(MPI_Request_get_status_any(2, (MPI_Request *)none, &index, &flag, MPI_STATUS_IGNORE));
    CHECK(flag && index == MPI_UNDEFINED, "index %d", index);
    OK(MPI_Request_get_status_some(2, (MPI_Request *)none, &count, indices, MPI_STATUSES_IGNORE));
    CHECK(count == MPI_UNDEFINED, "count %d", count);
    MPI_Status status;
    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_source(&status, -2));
    OK(MPI_Status_set_tag(&status, 7));
    OK(MPI_Status_set_error(&status, 70));
    OK(MPI_Status_set_elements(&status, MPI_INT, 3));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 3 && status.MPI_SOURCE == -2 && status.MPI_TAG == 7 && status.MPI_ERROR == 70, "%d of %d", count, status.MPI_SOURCE);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_SELF, &flag, &status));
    CHECK(!flag && status.MPI_SOURCE == -2, "found nothing from %d", status.MPI_SOURCE);
}

static void integers(void)
{
    MPI_Comm dup;
    MPI_Datatype pair;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Type_contiguous(2, MPI_DOUBLE, &pair));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD, "MPI_COMM_WORLD is another");
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(dup)) == dup, "a communicator is another");
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_FLOAT_INT)) == MPI_FLOAT_INT, "MPI_FLOAT_INT is another");
    CHECK(MPI_Type_fromint(MPI_Type_toint(pair)) == pair, "a datatype is another");
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL, "MPI_FILE_NULL is another");
    MPI_File one, two;
    enter();
    OK(MPI_File_open(MPI_COMM_SELF, name(own("data")), MADE, MPI_INFO_NULL, &one));
    OK(MPI_File_open(MPI_COMM_SELF, name(own("data")), PASSING, MPI_INFO_NULL, &two));
    CHECK(MPI_File_fromint(MPI_File_toint(one)) == one && MPI_File_fromint(MPI_File_toint(two)) == two, "a file is another");
    MPI_File wrong = MPI_FILE_NULL;
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_SELF, name("none"), MPI_MODE_RDONLY, MPI_INFO_NULL, &wrong));
    CHECK(wrong == MPI_FILE_NULL, "a file that was not opened has a handle");
    int mode = 0;
    OK(MPI_File_get_amode(two, &mode));
    CHECK(mode == PASSING, "opened with %d", mode);
    OK(MPI_File_close(&one));
    OK(MPI_File_close(&two));
    leave();
    CHECK(one == MPI_FILE_NULL && two == MPI_FILE_NULL, "closed files have handles");
    OK(MPI_Type_free(&pair));
    OK(MPI_Comm_free(&dup));
    CHECK(dup == MPI_COMM_NULL && pair == MPI_DATATYPE_NULL, "freed objects have handles");
}

static MPI_Comm called_on;
static int called_with, called, calls, instead = -1;

static void handler(MPI_Comm *comm, int *code, ...)
{
    called++;
    called_on = *comm;
    OK(MPI_Error_class(*code, &called_with));
    if (instead >= 0)
        *code = instead;
}

static void no_error(MPI_File *file, int *code, ...)
{
    CHECK(*file == MPI_FILE_NULL, "called on another file");
    *code = MPI_SUCCESS;
}

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    CHECK(comm == MPI_COMM_SELF && extra == &calls && keyval != MPI_KEYVAL_INVALID, "not the key's arguments");
    calls++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return calls++ < 2 ? 70 : MPI_SUCCESS; /* a code of the program's own, which is a class of MPICH's */
}

static void largest(void *in, void *inout, int *count, MPI_Datatype *type)
{
    CHECK(*type == MPI_INT && *count == 3, "called with %d of another datatype", *count);
    for (int i = 0; i < *count; i++)
        if (((int *)in)[i] > ((int *)inout)[i])
            ((int *)inout)[i] = ((int *)in)[i];
}

static void callbacks(void)
{
    MPI_Errhandler mine;
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
    int code = MPI_Send(&calls, 1, MPI_INT, 5, 0, MPI_COMM_SELF);
    CHECK(code != MPI_SUCCESS && called_on == MPI_COMM_SELF && called_with == MPI_ERR_RANK, "class %d", called_with);
    instead = MPI_ERR_TAG;
    CHECK(MPI_Send(&calls, 1, MPI_INT, 5, 0, MPI_COMM_SELF) == MPI_ERR_TAG, "the handler's code is not returned");
    instead = MPI_SUCCESS;
    OK(MPI_Send(&calls, 1, MPI_INT, 5, 0, MPI_COMM_SELF));
    instead = -1;
    MPI_Errhandler of_files;
    MPI_File none;
    OK(MPI_File_create_errhandler(no_error, &of_files));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, of_files));
    OK(MPI_File_open(MPI_COMM_SELF, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&of_files));
    OK(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_REQUEST));
    CHECK(called_with == MPI_ERR_REQUEST, "class %d", called_with);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
    called = 0;
    int zeros[64] = {0};
    MPI_Datatype types[64];
    for (int i = 0; i < 64; i++)
        types[i] = MPI_INT;
    FAILS(MPI_ERR_COMM, MPI_Alltoallw(zeros, zeros, zeros, types, zeros, zeros, zeros, types, MPI_COMM_NULL));
    CHECK(called == 1, "one error, %d calls", called);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine));

    int key, plain, flag = 0, *value = NULL;
    MPI_Comm dup;
    OK(MPI_Comm_create_keyval(copy, refuse, &key, &calls));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &key));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, plain, &plain));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    OK(MPI_Comm_get_attr(dup, key, &value, &flag));
    CHECK(flag && value == &key && calls == 1, "%d calls", calls);
    OK(MPI_Comm_get_attr(dup, plain, &value, &flag));
    CHECK(flag && value == &plain, "MPI_COMM_DUP_FN has copied nothing");
    code = MPI_Comm_delete_attr(dup, key);
    CHECK(code == 70, "the delete function returned 70, the call %d", code);
    OK(MPI_Comm_delete_attr(dup, key));
    OK(MPI_Comm_delete_attr(MPI_COMM_SELF, key));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID, "a freed key is %d", key);

    MPI_Op op;
    int in[3] = {my_rank, -my_rank, 4}, out[3];
    OK(MPI_Op_create(largest, 1, &op));
    OK(MPI_Allreduce(in, out, 3, MPI_INT, op, MPI_COMM_WORLD));
    CHECK(out[0] == n_ranks - 1 && out[1] == 0 && out[2] == 4, "%d %d %d", out[0], out[1], out[2]);
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL, "a freed operation has a handle");
}

int main(int argc, char **argv)
{
    int provided = -1, version = 0, subversion = 0, major = 0, minor = 0;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(provided == MPI_THREAD_MULTIPLE, "provided is %d", provided);
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION, "the library has %d.%d, the header %d.%d", version, subversion, MPI_VERSION, MPI_SUBVERSION);
    OK(MPI_Abi_get_version(&major, &minor));
#ifdef MPI_ABI
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION, "%d.%d", major, minor);
#else
    CHECK(major == -1 && minor == -1, "%d.%d", major, minor);
#endif
    nonsense();
    arrays();
    requests();
    integers();
    callbacks();
    return finish();
}

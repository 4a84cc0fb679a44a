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
    FAILS(MPI_ERR_RANK, MPI_Send(&value, 1, MPI_INT, -2 - OTHER(2, 0), 0, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TAG, MPI_Recv(&value, 1, MPI_INT, 0, OTHER(-2, -1), MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(2, sizes, parts, positions, OTHER(12, 56), MPI_INT, &type));
    FAILS(MPI_ERR_ARG, MPI_Comm_split_type(MPI_COMM_WORLD, OTHER(221, 1), 0, MPI_INFO_NULL, &(MPI_Comm){MPI_COMM_NULL}));
    OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_LOCKTYPE, MPI_Win_lock(OTHER(302, 235), 0, 0, win));
    OK(MPI_Win_free(&win));
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
static int called_with, calls;

static void handler(MPI_Comm *comm, int *code, ...)
{
    called_on = *comm;
    OK(MPI_Error_class(*code, &called_with));
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
    return calls++ < 2 ? MPI_ERR_KEYVAL : MPI_SUCCESS;
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
    OK(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_REQUEST));
    CHECK(called_with == MPI_ERR_REQUEST, "class %d", called_with);
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
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(dup, key));
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
    integers();
    callbacks();
    return finish();
}

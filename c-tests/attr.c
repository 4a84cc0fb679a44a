/* Claim: attributes of communicators and datatypes are copied and deleted by the program's own functions, which may call
 * MPI themselves; predefined attributes have the values the standard promises. Runs on 1 rank or more. */
#include "check.h"

static int copies, deletes, fail_copy, fail_delete, order[8];
static char extra;

static int copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    int size;
    CHECK(state == &extra && keyval != MPI_KEYVAL_INVALID, "arguments of a copy function");
    OK(MPI_Comm_size(comm, &size));
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return fail_copy;
}

static int drop(MPI_Comm comm, int keyval, void *value, void *state)
{
    int size;
    CHECK(state == &extra, "arguments of a delete function");
    OK(MPI_Comm_size(comm, &size));
    order[deletes++ % 8] = (int)(intptr_t)value;
    return fail_delete ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int keyval, void *state, void *in, void *out, int *flag)
{
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int drop_type(MPI_Datatype type, int keyval, void *value, void *state)
{
    deletes++;
    return MPI_SUCCESS;
}

static int at_end(MPI_Comm comm, int keyval, void *value, void *state)
{
    /* MPI still works here. */
    int flag = -1;
    OK(MPI_Finalized(&flag));
    CHECK(comm == MPI_COMM_SELF && flag == 0, "called when MPI is over");
    deletes++;
    return MPI_SUCCESS;
}

static intptr_t value_of(MPI_Comm comm, int key, int expected)
{
    void *value = NULL;
    int flag = -1;
    OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(flag == expected, "flag %d, expected %d", flag, expected);
    return (intptr_t)value;
}

static void predefined(void)
{
    int *value, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && *value >= 32767, "TAG_UB");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag));
    CHECK(flag && (*value == 0 || *value == 1), "WTIME_IS_GLOBAL");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &value, &flag));
    CHECK(flag && (*value == MPI_PROC_NULL || (*value >= 0 && *value < n_ranks)), "HOST");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag));
    CHECK(flag && *value == MPI_ANY_SOURCE, "IO");
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    CHECK(!flag || *value >= n_ranks, "UNIVERSE_SIZE %d", *value);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
    CHECK(!flag || *value == 0, "APPNUM %d", *value);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag && *value >= MPI_ERR_LASTCODE, "LASTUSEDCODE");
    int class;
    OK(MPI_Add_error_class(&class));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag && *value >= class, "LASTUSEDCODE after an added class");
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &class));
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB));
}

static void of_communicators(void)
{
    MPI_Comm comm, dup;
    int one, two, silent, dup_fn, gone;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_create_keyval(copy, drop, &one, &extra));
    OK(MPI_Comm_create_keyval(copy, drop, &two, &extra));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &silent, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &dup_fn, NULL));
    value_of(comm, one, 0);
    OK(MPI_Comm_set_attr(comm, one, (void *)10));
    OK(MPI_Comm_set_attr(comm, two, (void *)20));
    OK(MPI_Comm_set_attr(comm, silent, (void *)30));
    OK(MPI_Comm_set_attr(comm, dup_fn, (void *)40));
    OK(MPI_Comm_set_attr(comm, one, (void *)11));
    CHECK(deletes == 1 && order[0] == 10, "replacing deletes the old value");
    OK(MPI_Comm_dup(comm, &dup));
    CHECK(copies == 2, "%d copies", copies);
    CHECK(value_of(dup, one, 1) == 12 && value_of(dup, two, 1) == 21, "copied values");
    CHECK(value_of(dup, dup_fn, 1) == 40, "MPI_COMM_DUP_FN");
    value_of(dup, silent, 0);
    CHECK(value_of(comm, one, 1) == 11, "the original changed");

    OK(MPI_Comm_delete_attr(dup, one));
    CHECK(deletes == 2 && order[1] == 12, "delete");
    value_of(dup, one, 0);
    gone = two;
    OK(MPI_Comm_free_keyval(&gone));
    CHECK(gone == MPI_KEYVAL_INVALID, "a freed key is not invalid");
    FAILS(MPI_ERR_KEYVAL, MPI_Comm_free_keyval(&gone));
    OK(MPI_Comm_free(&dup));
    CHECK(deletes == 3 && order[2] == 21, "freed with the value of a freed key");

    OK(MPI_Add_error_code(MPI_ERR_OTHER, &fail_copy));
    int code = MPI_Comm_dup(comm, &dup);
    CHECK(code == fail_copy && dup == MPI_COMM_NULL, "a copy function returned %d, MPI_Comm_dup %d", fail_copy, code);
    fail_copy = 0;
    fail_delete = 1;
    dup = comm;
    code = MPI_Comm_free(&dup);
    CHECK(code != MPI_SUCCESS && dup == comm, "a failing delete function goes unnoticed");
    OK(MPI_Comm_free(&comm)); /* All were told, so nothing stands in the way now. */
    fail_delete = 0;
    OK(MPI_Comm_free_keyval(&one));
    OK(MPI_Comm_free_keyval(&silent));
    OK(MPI_Comm_free_keyval(&dup_fn));
}

static void of_datatypes(void)
{
    int key, flag;
    void *value;
    MPI_Datatype type, dup;
    copies = deletes = 0;
    OK(MPI_Type_create_keyval(copy_type, drop_type, &key, NULL));
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    OK(MPI_Type_set_attr(type, key, (void *)5));
    OK(MPI_Type_dup(type, &dup));
    OK(MPI_Type_get_attr(dup, key, &value, &flag));
    CHECK(copies == 1 && flag && (intptr_t)value == 6, "copy of a datatype has %p", value);
    OK(MPI_Type_delete_attr(dup, key));
    CHECK(deletes == 1, "%d deletes", deletes);
    OK(MPI_Type_free(&dup));
    OK(MPI_Type_free(&type));
    CHECK(deletes == 2, "%d deletes", deletes);
    OK(MPI_Type_free_keyval(&key));
}

/* A key that was freed names its values as long as there are any, and may be freed again. */
static void freed_while_in_use(void)
{
    int key, saved, other, flag;
    void *value;
    MPI_Comm dup;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
    OK(MPI_Comm_create_keyval(copy, drop, &key, &extra));
    saved = other = key;
    OK(MPI_Comm_set_attr(dup, key, (void *)5));
    OK(MPI_Comm_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID, "a freed key is %d", key);
    OK(MPI_Comm_get_attr(dup, saved, &value, &flag));
    CHECK(flag && value == (void *)5, "a value under a freed key");
    OK(MPI_Comm_free_keyval(&other));
    deletes = 0;
    OK(MPI_Comm_delete_attr(dup, saved));
    CHECK(deletes == 1, "%d values deleted", deletes);
    OK(MPI_Comm_free(&dup));
}

/* With an argument: MPI ends all the same, and tells the error. */
static int refuses(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    predefined();
    of_communicators();
    of_datatypes();
    freed_while_in_use();
    int key, stuck;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuses, &stuck, NULL));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &key));
    if (argc > 1)
        OK(MPI_Comm_set_attr(MPI_COMM_WORLD, stuck, NULL));
    deletes = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int code = MPI_Finalize(), over = 0;
    OK(MPI_Finalized(&over));
    CHECK(over && deletes == 1, "MPI_Finalize deleted %d attributes of MPI_COMM_SELF, over %d", deletes, over);
    if (argc > 1)
        FAILS(MPI_ERR_OTHER, code);
    else
        OK(code);
    return 0;
}

/* Claim: a communicator tells the state of every promise of MPI-4.1 §7.4.4 and the kinds of memory it takes, keeps the
 * hints it was given when it is asked, and a duplicate starts without them; MPI_INFO_ENV tells how the job was started.
 * With "check" (NEARMPI_CHECK) a broken promise is an error. */
#include "check.h"

static const char *const promises[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length",
                                       "mpi_assert_allow_overtaking"};

static void expect(MPI_Comm comm, const char *key, const char *expected)
{
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL] = "";
    int flag = 0;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get(info, key, sizeof value - 1, value, &flag));
    CHECK(flag && !strcmp(value, expected), "%s is \"%s\", expected \"%s\"", key, flag ? value : "(none)", expected);
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    int strict = argc > 1 && !strcmp(argv[1], "check");
    if (strict)
        setenv("NEARMPI_CHECK", "1", 1);
    start(&argc, &argv);
    for (int i = 0; i < 4; i++)
        expect(MPI_COMM_WORLD, promises[i], "false");
    expect(MPI_COMM_WORLD, "mpi_memory_alloc_kinds", "mpi,system");
    MPI_Info info;
    MPI_Comm promised, again;
    OK(MPI_Info_create(&info));
    for (int i = 0; i < 2; i++)
        OK(MPI_Info_set(info, promises[i], "true"));
    OK(MPI_Info_set(info, promises[2], "perhaps"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &promised));
    OK(MPI_Info_free(&info));
    expect(promised, promises[0], "true");
    expect(promised, promises[1], "true");
    expect(promised, promises[2], "false");
    OK(MPI_Comm_dup(promised, &again));

    if (strict) {
        int buffer = 0;
        MPI_Request request;
        OK(MPI_Comm_set_errhandler(promised, MPI_ERRORS_RETURN));
        FAILS(MPI_ERR_TAG, MPI_Irecv(&buffer, 1, MPI_INT, 0, MPI_ANY_TAG, promised, &request));
        FAILS(MPI_ERR_RANK, MPI_Irecv(&buffer, 1, MPI_INT, MPI_ANY_SOURCE, 0, promised, &request));
        OK(MPI_Sendrecv(&my_rank, 1, MPI_INT, my_rank, 4, &buffer, 1, MPI_INT, my_rank, 4, promised, MPI_STATUS_IGNORE));
        MPI_Comm told;
        OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_ENV, &told));
        OK(MPI_Comm_free(&told));
        const char *keys[] = {"command", "maxprocs", "host", "wdir", "arch", "thread_level"};
        char value[MPI_MAX_INFO_VAL];
        for (int i = 0, flag = 0; i < 6; i++) {
            OK(MPI_Info_get(MPI_INFO_ENV, keys[i], sizeof value - 1, value, &flag));
            CHECK(flag, "MPI_INFO_ENV has no %s", keys[i]);
            CHECK(strcmp(keys[i], "maxprocs") || atoi(value) == n_ranks, "maxprocs is %s", value);
        }
    }
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&promised));
    return finish();
}

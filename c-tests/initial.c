/* Claim: what MPI_COMM_WORLD does with errors at first is what `mpirun -initial-errhandler` says, or, in processes that are
 * started later, the key mpi_initial_errhandler (MPI-4.1 §11.8.4). Errors without a communicator go the same way.
 * MPI_INFO_ENV tells the number of processes that were started together (MPI-4.1 §11.2.1). */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Errhandler got;
    MPI_Comm parent, started;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the handler at the start is %x", (unsigned)got);
    FAILS(MPI_ERR_RANK, MPI_Send(NULL, 0, MPI_INT, 999, 1, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TYPE, MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL}));
    char value[MPI_MAX_INFO_VAL] = "";
    int flag;
    OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", sizeof value - 1, value, &flag));
    CHECK(flag && atoi(value) == n_ranks, "maxprocs is %s of %d", value, n_ranks);
    OK(MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL) {
        MPI_Info info;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "mpi_initial_errhandler", "mpi_errors_return"));
        OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 3, info, 0, MPI_COMM_WORLD, &started, MPI_ERRCODES_IGNORE));
        OK(MPI_Info_free(&info));
        OK(MPI_Comm_disconnect(&started));
    } else {
        OK(MPI_Comm_disconnect(&parent));
    }
    return finish();
}

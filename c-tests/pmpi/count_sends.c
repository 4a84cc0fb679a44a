/* A profiling tool for c-tests/profiled.c: preloaded, it counts MPI_Send and passes it on; it also sees MPI_Init and
 * MPI_Finalize. */
#include <mpi.h>

int tool_sends, tool_inits, tool_barriers;

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    tool_sends++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Init(int *argc, char ***argv)
{
    tool_inits++;
    return PMPI_Init(argc, argv);
}

int MPI_Barrier(MPI_Comm comm)
{
    tool_barriers++;
    return PMPI_Barrier(comm);
}

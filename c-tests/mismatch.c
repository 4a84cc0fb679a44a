/* Ranks that call different collective operations, or the same with other arguments, are told so; ranks that wait for
   each other and for ever are ended by mpirun. The argument says what is wrong; a right program would exit with 0.
   What is only untidy is told with NEARMPI_CHECK, which a second argument sets. */
#include "check.h"

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "none";
    if (argc > 2)
        setenv("NEARMPI_CHECK", "1", 1);
    int rank, size, wrong = 0, from[8] = {0}, to[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(what, "receives"))
        MPI_Recv(from, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(what, "sends"))
        MPI_Ssend(from, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "missing") && rank != 1)
        wrong |= MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(what, "root"))
        wrong |= MPI_Bcast(from, 8, MPI_INT, rank == 1, MPI_COMM_WORLD);
    if (!strcmp(what, "op"))
        wrong |= MPI_Allreduce(from, to, 8, MPI_INT, rank == 1 ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(what, "type"))
        wrong |= MPI_Allreduce(from, to, 8, rank == 1 ? MPI_FLOAT : MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(what, "same_type")) /* Equal in all that counts. */
        wrong |= MPI_Allreduce(from, to, 8, rank == 1 ? MPI_UNSIGNED : MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(what, "count"))
        wrong |= MPI_Allreduce(from, to, rank == 1 ? 4 : 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(what, "barrier_bcast"))
        wrong |= rank == 1 ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Bcast(from, 8, MPI_INT, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "nonblocking")) {
        MPI_Request request;
        wrong |= rank == 1 ? MPI_Ibarrier(MPI_COMM_WORLD, &request)
                           : MPI_Iallreduce(from, to, 8, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        wrong |= MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (!strcmp(what, "unreceived") && rank == 1)
        wrong |= MPI_Send(from, 8, MPI_INT, 0, 9, MPI_COMM_WORLD);
    if (!strcmp(what, "leak")) {
        MPI_Request request;
        wrong |= MPI_Irecv(from, 8, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &request);
    }
    wrong |= MPI_Finalize();
    return wrong != 0;
}

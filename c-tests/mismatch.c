/* Ranks that call different collective operations, or the same with other arguments, are told so; ranks that wait for
   each other and for ever are ended by mpirun. The argument says what is wrong; a right program would exit with 0.
   What is only untidy is told with NEARMPI_CHECK, which a second argument sets. */
#include "check.h"

/* A rank that has more or less for itself than it takes is told so before anybody has waited for it, unless it is the root
   of an MPI_Gather and has less. */
static void own_blocks(void)
{
    int from[64] = {0}, to[64], two[8], four[8], at[8], bytes[8];
    MPI_Datatype ints[8];
    MPI_Request request;
    for (int rank = 0; rank < 8; rank++) {
        two[rank] = 2, four[rank] = 4, at[rank] = 4 * rank, bytes[rank] = 16 * rank;
        ints[rank] = MPI_INT;
    }
    MPI_Comm comm = MPI_COMM_WORLD;
    for (int less = 0; less < 2; less++) {
        int sends = less ? 2 : 4, takes = less ? 4 : 2, *send = less ? two : four, *take = less ? four : two;
        int class = less ? MPI_ERR_OTHER : MPI_ERR_TRUNCATE;
        FAILS(class, MPI_Allgather(from, sends, MPI_INT, to, takes, MPI_INT, comm));
        FAILS(class, MPI_Iallgather(from, sends, MPI_INT, to, takes, MPI_INT, comm, &request));
        FAILS(class, MPI_Allgather_init(from, sends, MPI_INT, to, takes, MPI_INT, comm, MPI_INFO_NULL, &request));
        FAILS(class, MPI_Allgatherv(from, sends, MPI_INT, to, take, at, MPI_INT, comm));
        FAILS(class, MPI_Alltoall(from, sends, MPI_INT, to, takes, MPI_INT, comm));
        FAILS(class, MPI_Alltoallv(from, send, at, MPI_INT, to, take, at, MPI_INT, comm));
        FAILS(class, MPI_Alltoallw(from, send, bytes, ints, to, take, bytes, ints, comm));
        if (less) /* As under MPICH. */
            OK(MPI_Gather(from, sends, MPI_INT, to, takes, MPI_INT, 0, MPI_COMM_SELF));
        else
            FAILS(class, MPI_Gather(from, sends, MPI_INT, to, takes, MPI_INT, 0, MPI_COMM_SELF));
        FAILS(class, MPI_Gatherv(from, sends, MPI_INT, to, take, at, MPI_INT, 0, MPI_COMM_SELF));
        FAILS(class, MPI_Scatter(from, sends, MPI_INT, to, takes, MPI_INT, 0, MPI_COMM_SELF));
        FAILS(class, MPI_Scatterv(from, send, at, MPI_INT, to, takes, MPI_INT, 0, MPI_COMM_SELF));
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "none";
    if (argc > 2)
        setenv("NEARMPI_CHECK", "1", 1);
    int rank, size, wrong = 0, from[8] = {0}, to[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    my_rank = rank;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(what, "own")) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        own_blocks();
    }
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
    if (!strcmp(what, "empty") && rank != 1) {
        wrong |= MPI_Barrier(MPI_COMM_WORLD);
        /* Who ends ends the job: first rank 1 has its say. */
        OK(MPI_Recv(to, 0, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (!strcmp(what, "empty")) { /* It waits for the others, though nothing is moved. */
        FAILS(MPI_ERR_OTHER, MPI_Allgather(from, 0, MPI_INT, to, 0, MPI_INT, MPI_COMM_WORLD));
        puts("an empty call is told");
        fflush(stdout);
        OK(MPI_Send(from, 0, MPI_INT, 0, 9, MPI_COMM_WORLD));
        OK(MPI_Send(from, 0, MPI_INT, 2, 9, MPI_COMM_WORLD));
    }
    MPI_Datatype mine = rank == 1 ? MPI_FLOAT : MPI_INT;
    if (!strcmp(what, "bcast_type"))
        wrong |= MPI_Bcast(from, 8, mine, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "gather_type"))
        wrong |= MPI_Gather(from, 2, mine, to, 2, mine, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "scatter_type"))
        wrong |= MPI_Scatter(from, 2, mine, to, 2, mine, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "allgather_type"))
        wrong |= MPI_Allgather(from, 2, mine, to, 2, mine, MPI_COMM_WORLD);
    if (!strcmp(what, "alltoall_type")) {
        MPI_Request request;
        wrong |= MPI_Ialltoall(from, 2, mine, to, 2, mine, MPI_COMM_WORLD, &request);
        wrong |= MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (!strcmp(what, "own_type")) /* All ranks alike. */
        FAILS(MPI_ERR_TYPE, MPI_Allgather(from, 2, MPI_INT, to, 2, MPI_FLOAT, MPI_COMM_WORLD));
    if (!strcmp(what, "described")) { /* The same values in other words. */
        MPI_Datatype pair;
        MPI_Type_contiguous(2, rank == 1 ? MPI_INT : MPI_INT32_T, &pair);
        MPI_Type_commit(&pair);
        wrong |= MPI_Bcast(from, rank == 1 ? 1 : 2, rank == 1 ? pair : MPI_INT, 0, MPI_COMM_WORLD);
        wrong |= MPI_Allgather(from, 1, pair, to, 2, MPI_INT, MPI_COMM_WORLD);
        wrong |= MPI_Gather(from, 2, MPI_INT, to, 1, pair, 0, MPI_COMM_WORLD);
        MPI_Type_free(&pair);
    }
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

/* Claim: MPICH's extensions for fault tolerance answer for a job in which nobody has failed: all agree, nobody is
 * among the failed, and the shrunk communicator has everybody in order; a request can be asked whether it is over. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int flag = ~(1 << my_rank), expected = ~((1 << n_ranks) - 1), rank, size;
    MPI_Comm shrunk, half, inter;
    MPI_Group failed;
    MPI_Request request;
    OK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag));
    CHECK(flag == expected, "agreed on %x", flag);
    OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
    OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed));
    OK(MPI_Group_size(failed, &size));
    CHECK(size == 0, "%d processes have failed", size);
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &shrunk));
    OK(MPI_Comm_rank(shrunk, &rank));
    OK(MPI_Comm_size(shrunk, &size));
    CHECK(rank == my_rank && size == n_ranks, "rank %d of %d", rank, size);
    OK(MPI_Irecv(&flag, 1, MPI_INT, my_rank, 0, shrunk, &request));
    CHECK(!MPIX_Request_is_complete(request), "over without a message");
    OK(MPI_Send(&size, 1, MPI_INT, my_rank, 0, shrunk));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(MPIX_Request_is_complete(request), "a null request is over");
    OK(MPI_Comm_free(&shrunk));
    if (argc > 1 && n_ranks > 1) { /* both groups of an intercommunicator */
        OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, 0, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - my_rank % 2, 3, &inter));
        flag = ~(1 << my_rank);
        OK(MPIX_Comm_agree(inter, &flag));
        CHECK(flag == expected, "agreed on %x", flag);
        OK(MPIX_Comm_get_failed(inter, &failed));
        OK(MPI_Group_size(failed, &size));
        CHECK(size == 0, "%d processes have failed", size);
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    return finish();
}

/* Claim: communicators do not mix: a message sent in one is never received, probed or matched in another with the
 * same group, whatever its tag, and MPI_ANY_SOURCE keeps to its communicator. With the argument `ahead`: as many duplicates as one likes
 * are made and freed one after the other without waiting, though one rank may be ahead of the others. */
#include "check.h"

static void ahead(void)
{
    for (int round = 0; round < 70000; round++) {
        MPI_Comm next;
        MPI_Request request;
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &next, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&next));
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc > 1) {
        ahead();
        return finish();
    }
    MPI_Comm twin, other;
    int peer = 1 - my_rank, found = 1, value;
    MPI_Status status;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -my_rank, &other)); /* ranks reversed */
    for (int round = 0; round < 100; round++) {
        if (my_rank == 0) {
            int a = 1000 + round, b = 2000 + round, c = 3000 + round;
            OK(MPI_Send(&a, 1, MPI_INT, peer, 5, twin));
            OK(MPI_Send(&b, 1, MPI_INT, 0, 5, other)); /* world rank 1 */
            OK(MPI_Send(&c, 1, MPI_INT, peer, 5, MPI_COMM_WORLD));
            OK(MPI_Recv(&a, 1, MPI_INT, peer, 6, twin, &status)); /* or the next round's would be found */
        } else {
            OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            CHECK(value == 3000 + round && status.MPI_SOURCE == 0, "world got %d from %d", value, status.MPI_SOURCE);
            OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status));
            CHECK(!found, "world sees a message of another communicator");
            OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &status));
            CHECK(value == 2000 + round && status.MPI_SOURCE == 1, "other got %d from %d", value, status.MPI_SOURCE);
            OK(MPI_Recv(&value, 1, MPI_INT, 0, 5, twin, &status));
            CHECK(value == 1000 + round && status.MPI_SOURCE == 0, "twin got %d from %d", value, status.MPI_SOURCE);
            OK(MPI_Send(&value, 1, MPI_INT, peer, 6, twin));
        }
    }
    /* Point-to-point wildcards do not catch the messages of collectives. */
    MPI_Request request;
    value = -1;
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
    for (int round = 0; round < 50; round++) {
        int sum = 0;
        OK(MPI_Allreduce(&my_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == 1, "sum %d", sum);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Test(&request, &found, MPI_STATUS_IGNORE));
    CHECK(!found, "a wildcard receive caught something of a collective");
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the send of a rank that is ahead may be found, too */
    int mine = 70 + my_rank;
    OK(MPI_Send(&mine, 1, MPI_INT, peer, 1, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(value == 70 + peer, "got %d", value);
    OK(MPI_Comm_free(&twin));
    OK(MPI_Comm_free(&other));
    return finish();
}

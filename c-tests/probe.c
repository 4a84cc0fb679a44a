/* Claim: Probe and Iprobe find the first matching message and tell source, tag and length without receiving it;
 * Iprobe finds nothing where nothing matches. */
#include "check.h"

static unsigned char bytes[200000], in[200000];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static const int sizes[] = {0, 8, 4000, 200000};
    MPI_Status status;
    int found = 1, count = -1;
    if (my_rank == 0) {
        for (int i = 0; i < 100; i++) {
            OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status));
            CHECK(!found, "something found before anything was sent");
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int round = 0; round < 4 * (n_ranks - 1); round++) {
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            int from = status.MPI_SOURCE, tag = status.MPI_TAG;
            OK(MPI_Get_count(&status, MPI_BYTE, &count));
            CHECK(count == sizes[tag - 10], "count %d for tag %d", count, tag);
            do {
                OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &found, &status));
            } while (!found);
            CHECK_STATUS(status, from, tag, MPI_BYTE, count);
            OK(MPI_Iprobe(from, 99, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
            CHECK(!found, "no such tag was sent");
            OK(MPI_Recv(in, count, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, from, tag, MPI_BYTE, count);
            CHECK_BYTES(in, count, from * 100 + tag);
        }
        OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status));
        CHECK(!found, "something left over");
        OK(MPI_Barrier(MPI_COMM_WORLD));
        /* The probed message is the one that the next matching receive takes. */
        for (int i = 0; i < 20; i++) {
            int value = -1;
            OK(MPI_Probe(1, 5, MPI_COMM_WORLD, &status));
            OK(MPI_Recv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &status));
            CHECK(value == i, "message %d came as number %d", value, i);
        }
    } else {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 4; i++) {
            fill(bytes, sizes[i], my_rank * 100 + 10 + i);
            OK(MPI_Send(bytes, sizes[i], MPI_BYTE, 0, 10 + i, MPI_COMM_WORLD));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; my_rank == 1 && i < 20; i++)
            OK(MPI_Send(&i, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* A probe of nobody returns at once. */
    OK(MPI_Probe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
    found = 0;
    OK(MPI_Iprobe(MPI_PROC_NULL, 4, MPI_COMM_WORLD, &found, &status));
    CHECK(found, "MPI_PROC_NULL has always something");
    return finish();
}

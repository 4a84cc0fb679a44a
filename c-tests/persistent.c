/* Claim: persistent requests can be started again and again with new data, singly and by Startall, in lists with
 * others; an inactive one completes at once with the empty status and stays allocated until it is freed. */
#include "check.h"

enum { N = 6, ROUNDS = 200, LARGEST = 100000 };
static const int sizes[N] = {1, 8, 64, 4096, 20000, LARGEST};
static unsigned char out[N][LARGEST], in[N][LARGEST];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Request requests[2 * N], copy[2 * N];
    MPI_Status statuses[2 * N];
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks, flag, index, count, indices[2 * N];
    for (int i = 0; i < N; i++) {
        OK(MPI_Recv_init(in[i], LARGEST, MPI_BYTE, i % 2 ? left : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[i]));
        OK((i % 3 ? MPI_Send_init : MPI_Ssend_init)(out[i], sizes[i], MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[N + i]));
    }
    memcpy(copy, requests, sizeof copy);
    for (int i = 0; i < 2 * N; i++) {
        OK(MPI_Wait(&requests[i], &statuses[0]));
        CHECK_STATUS(statuses[0], MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_BYTE, 0);
        flag = 0;
        OK(MPI_Test(&requests[i], &flag, &statuses[0]));
        CHECK(flag, "an inactive request is complete");
    }
    OK(MPI_Waitany(2 * N, requests, &index, &statuses[0]));
    CHECK(index == MPI_UNDEFINED, "inactive list gave index %d", index);
    OK(MPI_Waitsome(2 * N, requests, &count, indices, statuses));
    CHECK(count == MPI_UNDEFINED, "inactive list gave count %d", count);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            fill(out[i], sizes[i], round * 100 + i * 10 + my_rank);
        if (round % 2) {
            OK(MPI_Startall(2 * N, requests));
        } else {
            for (int i = 0; i < 2 * N; i++)
                OK(MPI_Start(&requests[i]));
        }
        for (int done = 0; round % 3 == 0 && done < 2 * N; done += count) {
            OK(MPI_Waitsome(2 * N, requests, &count, indices, MPI_STATUSES_IGNORE));
            CHECK(count > 0, "count %d", count);
        }
        OK(MPI_Waitall(2 * N, requests, statuses));
        CHECK(memcmp(copy, requests, sizeof copy) == 0, "a persistent handle changed");
        for (int i = 0; i < N; i++) {
            if (round % 3)
                CHECK_STATUS(statuses[i], left, i, MPI_BYTE, sizes[i]);
            CHECK_BYTES(in[i], sizes[i], round * 100 + i * 10 + left);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* the wildcard must not take the next round's message of a faster rank */
    }
    for (int i = 0; i < 2 * N; i++) {
        OK(MPI_Request_free(&requests[i]));
        CHECK(requests[i] == MPI_REQUEST_NULL, "handle not null after free");
    }
    return finish();
}

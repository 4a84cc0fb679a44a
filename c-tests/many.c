/* Claim: 10,000 receives and 10,000 sends may be outstanding at once, in both directions, and all complete right. */
#include "check.h"

enum { N = 10000, LENGTH = 100 };
static unsigned char out[N][LENGTH], in[N][LENGTH];
static MPI_Request requests[2 * N];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int peer = 1 - my_rank;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            fill(out[i], LENGTH, round * 7 + i * 2 + my_rank);
        for (int i = 0; i < N && round == 0; i++)
            OK(MPI_Irecv(in[i], LENGTH, MPI_BYTE, peer, i % 10, MPI_COMM_WORLD, &requests[i]));
        for (int i = 0; i < N; i++)
            OK(MPI_Isend(out[i], LENGTH, MPI_BYTE, peer, i % 10, MPI_COMM_WORLD, &requests[N + i]));
        for (int i = 0; i < N && round == 1; i++)
            OK(MPI_Irecv(in[i], LENGTH, MPI_BYTE, peer, i % 10, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            CHECK_BYTES(in[i], LENGTH, round * 7 + i * 2 + peer);
    }
    return finish();
}

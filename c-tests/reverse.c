/* Claim: 512 receives posted in the reverse order of the sends, and 512 messages received in reverse order, all find
 * their partner by tag. */
#include "check.h"

enum { N = 512, LENGTH = 1024 };
static unsigned char out[LENGTH], in[N][LENGTH];
static MPI_Request requests[N];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int round = 0; round < 20; round++) {
        if (my_rank == 0) {
            OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, N, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < N; i++) {
                fill(out, LENGTH, i + round);
                OK(MPI_Send(out, LENGTH, MPI_BYTE, 1, i, MPI_COMM_WORLD));
            }
            for (int i = N - 1; i >= 0; i--) {
                OK(MPI_Recv(in[i], LENGTH, MPI_BYTE, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_BYTES(in[i], LENGTH, i + round);
            }
        } else {
            for (int i = N - 1; i >= 0; i--)
                OK(MPI_Irecv(in[i], LENGTH, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]));
            OK(MPI_Send(NULL, 0, MPI_BYTE, 0, N, MPI_COMM_WORLD));
            OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < N; i++) {
                CHECK_BYTES(in[i], LENGTH, i + round);
                OK(MPI_Isend(in[i], LENGTH, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]));
            }
            OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        }
    }
    return finish();
}

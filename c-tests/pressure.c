/* Claim: when one rank is slow to receive, senders of many messages wait or queue but nothing is lost or reordered,
 * and two ranks that both send more than any queue holds before receiving make progress with nonblocking sends. */
#include "check.h"

enum { MESSAGES = 1500, LENGTH = 8000 };
static unsigned char *in, *out;
static MPI_Request requests[MESSAGES];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    in = need(LENGTH);
    out = need((size_t)MESSAGES * LENGTH);
    if (my_rank == 0) {
        for (int i = MESSAGES - 1; i >= 0; i--) /* the last tag first: all others are unexpected */
            for (int from = 1; from < n_ranks; from++) {
                OK(MPI_Recv(in, LENGTH, MPI_BYTE, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_BYTES(in, LENGTH, i * 3 + from);
            }
    } else {
        for (int i = 0; i < MESSAGES; i++) {
            fill(out + (size_t)i * LENGTH, LENGTH, i * 3 + my_rank);
            OK(MPI_Isend(out + (size_t)i * LENGTH, LENGTH, MPI_BYTE, 0, i, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks;
    for (int i = 0; i < MESSAGES; i++) {
        fill(out + (size_t)i * LENGTH, LENGTH, i + my_rank);
        OK(MPI_Isend(out + (size_t)i * LENGTH, LENGTH, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = 0; i < MESSAGES; i++) {
        OK(MPI_Recv(in, LENGTH, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_BYTES(in, LENGTH, i + left);
    }
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    return finish();
}

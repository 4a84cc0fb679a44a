/* Claim: an active send request may be freed: the message still arrives whole. */
#include "check.h"

enum { LARGEST = 500000 };
static unsigned char out[LARGEST], in[LARGEST];

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int round = 0; round < 50; round++)
        for (int size = 10; size <= LARGEST; size = size * 7 + 1) {
            int token;
            MPI_Request request;
            if (my_rank == 0) {
                fill(out, size, round);
                OK(MPI_Isend(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
                OK(MPI_Request_free(&request));
                CHECK(request == MPI_REQUEST_NULL, "handle not null after free");
                OK(MPI_Recv(&token, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Recv(in, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_BYTES(in, size, round);
                OK(MPI_Send(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
            }
        }
    return finish();
}

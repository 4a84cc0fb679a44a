/* Claim: an active send request may be freed: the message still arrives whole. With an argument: MPI_Finalize ends, however
 * many messages the receiver has taken of a sender that has not called MPI since. */
#include "check.h"

enum { LARGEST = 500000 };
static unsigned char out[LARGEST], in[LARGEST];

/* Whether the process sleeps. */
static int sleeps(int pid)
{
    char name[64], state = 0;
    sprintf(name, "/proc/%d/stat", pid);
    FILE *stat = fopen(name, "r");
    CHECK(stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1, "no %s", name);
    fclose(stat);
    return state == 'S';
}

/* The sender never calls MPI but to send: it waits for the receiver to have nothing left to do. */
static void ahead(void)
{
    enum { MESSAGES = 2000, AT_A_TIME = 200, BYTES = 100000 };
    int pid = getpid();
    MPI_Request request;
    if (my_rank == 1) {
        OK(MPI_Send(&pid, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        for (int i = 0; i < MESSAGES; i++)
            OK(MPI_Recv(in, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Recv(&pid, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < MESSAGES; i++) {
            OK(MPI_Isend(out, BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request));
            OK(MPI_Request_free(&request));
            while (i % AT_A_TIME == AT_A_TIME - 1 && !sleeps(pid))
                usleep(100);
        }
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (argc > 1) {
        ahead();
        OK(MPI_Finalize());
        return 0;
    }
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

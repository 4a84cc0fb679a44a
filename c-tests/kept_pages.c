/* Claim: messages that come before their receives are kept in memory that earlier ones were kept in. The kernel makes
 * no new pages for each window of them, as it would if their memory went back to it in between. */
#include "check.h"
#include <sys/resource.h>

enum { MANY = 64, LONGEST = 65536, ROUNDS = 50 };

static long new_pages(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* A window that rank 1 begins to receive when all of it has come. */
static void window(unsigned char *bytes, int many, int length, int round)
{
    MPI_Request requests[MANY];
    char all_sent = 0;
    if (my_rank == 0) {
        for (int i = 0; i < many; i++) {
            fill(bytes + i * LONGEST, length, round + i);
            OK(MPI_Isend(bytes + i * LONGEST, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Send(&all_sent, 1, MPI_BYTE, 1, MANY, MPI_COMM_WORLD));
        OK(MPI_Waitall(many, requests, MPI_STATUSES_IGNORE));
    } else {
        OK(MPI_Recv(&all_sent, 1, MPI_BYTE, 0, MANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < many; i++) {
            OK(MPI_Recv(bytes, length, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK(first_difference(bytes, length, round + i) < 0, "message %d of %d bytes", i, length);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    static const int windows[][2] = {{16, 2048}, {16, 8192}, {MANY, 16384}, {16, 32768}, {16, LONGEST}};
    start(&argc, &argv);
    unsigned char *bytes = need(MANY * LONGEST);
    memset(bytes, 0, MANY * LONGEST);
    for (unsigned i = 0; i < sizeof windows / sizeof *windows; i++) {
        int many = windows[i][0], length = windows[i][1];
        for (int round = 0; round < 5; round++)
            window(bytes, many, length, round);
        long before = new_pages(), most = (long)ROUNDS * many * length / 4096 / 10;
        for (int round = 0; round < ROUNDS; round++)
            window(bytes, many, length, round);
        long made = new_pages() - before;
        CHECK(made <= most + 100, "%d messages of %d bytes: %ld new pages in %d rounds", many, length, made, ROUNDS);
    }
    free(bytes);
    return finish();
}

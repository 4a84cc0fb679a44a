/* Claim: a program that has all its memory locked (mlockall) does not make the machine keep what nearmpi has only reserved. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

enum { BYTES = 1 << 21 };

static long locked_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "VmLck: %ld", &kib);
    if (status)
        fclose(status);
    return kib;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int may = mlockall(MCL_CURRENT | MCL_FUTURE) == 0, all;
    OK(MPI_Allreduce(&may, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (all) {
        unsigned char *out, *in;
        int peer = n_ranks - 1 - my_rank;
        MPI_Win window;
        OK(MPI_Alloc_mem(BYTES, MPI_INFO_NULL, &out));
        OK(MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &in, &window));
        fill(out, BYTES, my_rank);
        OK(MPI_Win_fence(0, window));
        OK(MPI_Put(out, BYTES, MPI_BYTE, peer, 0, BYTES, MPI_BYTE, window));
        OK(MPI_Win_fence(0, window));
        CHECK_BYTES(in, BYTES, peer);
        OK(MPI_Sendrecv(out, BYTES, MPI_BYTE, peer, 1, in, BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_BYTES(in, BYTES, peer);
        CHECK(locked_kib() < 1 << 20, "%ld KiB are locked", locked_kib());
        OK(MPI_Win_free(&window));
        OK(MPI_Free_mem(out));
    }
    return finish();
}

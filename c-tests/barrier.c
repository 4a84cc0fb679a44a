/* Claim: nobody leaves a barrier before everybody has entered it, and consecutive barriers do not mix. */
#include "check.h"
#include <time.h>

int main(int argc, char **argv)
{
    start(&argc, &argv);
    uint32_t state = 7 + my_rank;
    /* Each rank says when it entered; the clock is the machine's, the same for all ranks. */
    for (int round = 0; round < 200; round++) {
        struct timespec time;
        if (next_random(&state) % 4 == 0)
            usleep(next_random(&state) % 3000);
        clock_gettime(CLOCK_MONOTONIC, &time);
        double entered = time.tv_sec + 1e-9 * time.tv_nsec, last = 0;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        clock_gettime(CLOCK_MONOTONIC, &time);
        double left = time.tv_sec + 1e-9 * time.tv_nsec;
        OK(MPI_Allreduce(&entered, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        CHECK(left >= last, "round %d: left %.9f s before the last entered", round, last - left);
    }
    return finish();
}

/* Claim: Wtime never goes back, runs with the machine's clock at a tick that Wtick tells, and where
 * MPI_WTIME_IS_GLOBAL is true all ranks read the same clock; the processor has a name. */
#include "check.h"
#include <time.h>

int main(int argc, char **argv)
{
    start(&argc, &argv);
    double before = MPI_Wtime(), tick = MPI_Wtick();
    CHECK(tick > 0 && tick <= 1e-6, "a tick of %g s", tick);
    for (int i = 0; i < 100000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= before, "the clock went back by %g s", before - now);
        before = now;
    }
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    double begin = MPI_Wtime();
    usleep(50000);
    double passed = MPI_Wtime() - begin;
    clock_gettime(CLOCK_MONOTONIC, &b);
    double real = (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
    CHECK(passed >= 0.049 && passed <= real * 1.001 + 1e-4, "%g s by Wtime, %g s by the system", passed, real);
    int *global, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &global, &flag));
    if (flag && *global) {
        double mine = MPI_Wtime(), latest;
        OK(MPI_Allreduce(&mine, &latest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        CHECK(MPI_Wtime() >= latest, "another rank's clock is ahead");
    }
    char name[MPI_MAX_PROCESSOR_NAME], host[256] = "";
    int length = 0;
    OK(MPI_Get_processor_name(name, &length));
    gethostname(host, sizeof host - 1);
    CHECK(length > 0 && length == (int)strlen(name), "name '%s', length %d", name, length);
    CHECK(!strncmp(name, host, strcspn(host, ".")), "name '%s', host '%s'", name, host);
    int *tag_ub;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag));
    CHECK(flag && *tag_ub >= 32767, "TAG_UB %d", flag ? *tag_ub : -1);
    OK(MPI_Sendrecv_replace(&length, 1, MPI_INT, my_rank, *tag_ub, my_rank, *tag_ub, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return finish();
}

/* Claim: a million unexpected 8-byte messages cost the receiver at most 100 MB and arrive in order. */
#include "check.h"

enum { MESSAGES = 1000000 };

static long resident_kib(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*s %ld", &pages) == 1, "cannot read statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int64_t value;
    if (my_rank == 0) {
        for (value = 0; value < MESSAGES; value++)
            OK(MPI_Send(&value, 1, MPI_INT64_T, 1, 3, MPI_COMM_WORLD));
        OK(MPI_Send(&value, 1, MPI_INT64_T, 1, 4, MPI_COMM_WORLD));
    } else {
        long before = resident_kib();
        OK(MPI_Recv(&value, 1, MPI_INT64_T, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); /* behind the whole flood */
        long growth = resident_kib() - before;
        for (int64_t i = 0; i < MESSAGES; i++) {
            OK(MPI_Recv(&value, 1, MPI_INT64_T, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK(value == i, "message %lld where %lld belongs", (long long)value, (long long)i);
        }
        printf("flood: %ld KiB for %d messages\n", growth, MESSAGES);
        CHECK(growth <= 100000000 / 1024, "the flood cost %ld KiB", growth);
    }
    return finish();
}

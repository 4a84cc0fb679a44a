/* Memory of each rank against the number of ranks, KiB of Pss: after MPI_Init, and after every rank has sent to every
 * other (8 bytes and 16 KiB by MPI_Alltoall, 64 KiB by MPI_Sendrecv), and how much of that is shared memory. The
 * program's own buffers are gone by then. */
#include "memory.h"
#include <sys/mman.h>

/* Memory straight from the kernel, so that giving it back shows. */
static void *pages(size_t length)
{
    void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return at;
}

static void everybody(size_t block)
{
    size_t length = block * (size_t)ranks;
    void *out = pages(length), *in = pages(length);
    MPI_Alltoall(out, (int)block, MPI_CHAR, in, (int)block, MPI_CHAR, MPI_COMM_WORLD);
    munmap(out, length);
    munmap(in, length);
}

static void pairwise(size_t block)
{
    void *out = pages(block), *in = pages(block);
    for (int i = 1; i < ranks; i++)
        MPI_Sendrecv(out, (int)block, MPI_CHAR, (rank + i) % ranks, 1, in, (int)block, MPI_CHAR, (rank + ranks - i) % ranks, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    munmap(out, block);
    munmap(in, block);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Memory Test, Pss per rank", "Ranks      After init(KiB)  After traffic(KiB)   Thereof shared(KiB)", NULL, "", {.min = 0}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    double mine[3], values[3];
    MPI_Barrier(MPI_COMM_WORLD);
    mine[0] = proportional();
    MPI_Barrier(MPI_COMM_WORLD);
    everybody(8);
    everybody(16 << 10);
    pairwise(64 << 10);
    MPI_Barrier(MPI_COMM_WORLD);
    mine[1] = proportional();
    mine[2] = smaps("Pss_Shmem:");
    MPI_Reduce(mine, values, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        values[i] /= ranks;
    row((size_t)ranks, values, 3);
    return end();
}

/* Bandwidth of the first and the last rank sending to each other at once, message by message, the others idle; all
 * caches flushed before each size: Ekman, Mucci, Parrott and Brantley 2005, figures 1 to 4 (there mpi_bench -d -i1000
 * -e1 -f -F). The paper starts it 40 times and plots mean and standard deviation. MB/s, both directions together. */
#include "common.h"

static void flush(char *memory, size_t length)
{
    for (size_t i = 0; i < length; i += 16)
        memory[i]++;
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Bi-Directional Exchange Test, caches flushed", "Size      Bandwidth (MB/s)", "MPI_CHAR", "mixc",
        {.min = 1, .max = 4 << 20, .iterations = 1000, .iterations_large = 200, .warmup = 0}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks < 2)
        refuse("needs at least two ranks");
    int last = ranks - 1, active = rank == 0 || rank == last, peer = last - rank;
    size_t trash_size = 2 * largest_cache();
    char *out = buffer(options.max), *in = buffer(options.max), *trash = active ? buffer(trash_size) : NULL;
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        int skip = warmup(size), n = iterations(size);
        double from = 0;
        if (active)
            flush(trash, trash_size);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < skip + n && active; i++) {
            MPI_Request both[2];
            if (i == skip)
                from = MPI_Wtime();
            if (options.validate)
                fill(out, size, (unsigned)(2 * i + (rank != 0)));
            MPI_Irecv(in, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &both[0]);
            MPI_Isend(out, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &both[1]);
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
            if (options.validate)
                check(in, size, (unsigned)(2 * i + (rank == 0)));
        }
        double rate = 2.0 * (double)size * n / 1e6 / (MPI_Wtime() - from);
        row(size, &rate, 1);
    }
    return end();
}

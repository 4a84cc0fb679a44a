/* Ping-pong of many pairs at once: rank r of the first half with rank r of the second half; the mean latency. */
#include "common.h"

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Multi Latency Test", "Size          Latency (us)", "MPI_CHAR", "mixc",
        {.min = 1, .max = 4 << 20, .iterations = 10000, .iterations_large = 1000, .warmup = 100, .warmup_large = 10}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks % 2) {
        if (rank == 0)
            fprintf(stderr, "multi_lat: needs an even number of ranks\n");
        MPI_Finalize();
        return 1;
    }
    int pairs = ranks / 2, first = rank < pairs, peer = first ? rank + pairs : rank - pairs;
    char *out = buffer(options.max), *in = buffer(options.max);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        int skip = warmup(size), n = iterations(size);
        double from = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < skip + n; i++) {
            if (i == skip)
                from = MPI_Wtime();
            if (options.validate)
                fill(out, size, (unsigned)(i * ranks + rank));
            if (first)
                MPI_Send(out, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(in, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (!first)
                MPI_Send(out, (int)size, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
            if (options.validate)
                check(in, size, (unsigned)(i * ranks + peer));
        }
        double took = (MPI_Wtime() - from) * 1e6 / (2.0 * n), sum = 0;
        MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        sum /= ranks;
        row(size, &sum, 1);
    }
    return end();
}

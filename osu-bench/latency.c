/* Ping-pong between ranks 0 and 1: half the round trip, in microseconds. */
#include "common.h"

static char *out, *in;

static void send(size_t size, unsigned seed)
{
    if (options.validate)
        fill(out, size, seed);
    else if (options.fresh)
        memset(out, (int)seed, size);
    MPI_Send(out, (int)size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD);
}

static void receive(size_t size, unsigned seed)
{
    MPI_Recv(in, (int)size, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (options.validate)
        check(in, size, seed);
    else if (options.fresh)
        consume(in, size);
}

/* With -c filling and checking are timed as well: it is a test then, not a measurement. */
static double ping_pong(size_t size)
{
    double from = 0;
    int skip = warmup(size), n = iterations(size);
    for (int i = 0; i < skip + n; i++) {
        if (i == skip)
            from = MPI_Wtime();
        if (rank == 0) {
            send(size, 2u * (unsigned)i);
            receive(size, 2u * (unsigned)i + 1);
        } else {
            receive(size, 2u * (unsigned)i);
            send(size, 2u * (unsigned)i + 1);
        }
    }
    return (MPI_Wtime() - from) * 1e6 / (2.0 * n);
}

int main(int argc, char **argv)
{
    static const char *behind = "0";
    static const Extra extra[] = {
        THREAD_LEVEL,
        {"behind", "BYTES", "messages come to so many bytes behind the beginning of a page, as with malloc (16)", &behind},
        {0}};
    static const Benchmark benchmark = {
        "MPI Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixcF",
        {.min = 1, .max = 4 << 20, .iterations = 10000, .iterations_large = 1000, .warmup = 100, .warmup_large = 10,
         .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks != 2) {
        if (rank == 0)
            fprintf(stderr, "latency: needs exactly two ranks\n");
        MPI_Finalize();
        return 1;
    }
    out = buffer(options.max);
    size_t shift = (size_t)number(behind, 0);
    in = (char *)buffer(options.max + shift) + shift;
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        MPI_Barrier(MPI_COMM_WORLD);
        double took = ping_pong(size);
        row(size, &took, 1);
    }
    return end();
}

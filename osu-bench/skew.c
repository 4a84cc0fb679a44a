/* A producer and a slower consumer: Chai, Lai, Jin and Panda 2008, section 3.4, figures 6 and 7. Rank 0 computes for
 * --produce us and sends with MPI_Isend, a window of messages, then waits for all; rank 1 receives each with MPI_Recv and
 * works on it for c2 us. How long the producer is held up (c3) against c2: mean of the windows, and the first window,
 * before a library can have adapted. */
#include "common.h"

static const char *size_text = "16384", *produce_text = "1";
static MPI_Request *requests;
static char *memory;
static size_t size;

static void compute(double us)
{
    double from = MPI_Wtime();
    while ((MPI_Wtime() - from) * 1e6 < us)
        ;
}

/* One window; how long it kept this rank, in us. */
static double window(double c1, double c2, unsigned seed)
{
    double from = MPI_Wtime();
    for (int i = 0; i < options.window; i++) {
        char *at = memory + size * (size_t)i;
        if (rank == 0) {
            compute(c1);
            if (options.validate)
                fill(at, size, seed + (unsigned)i);
            MPI_Isend(at, (int)size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Recv(memory, (int)size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (options.validate)
                check(memory, size, seed + (unsigned)i);
            compute(c2);
        }
    }
    if (rank == 0)
        MPI_Waitall(options.window, requests, MPI_STATUSES_IGNORE);
    return (MPI_Wtime() - from) * 1e6;
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"size", "BYTES", "of a message (default 16384)", &size_text},
                                  {"produce", "US", "what rank 0 computes before each send (default 1)", &produce_text},
                                  {0}};
    static const Benchmark benchmark = {
        "MPI Producer and Consumer Test", "c2 (us)     Producer c3 (us)  First window (us)", "MPI_CHAR", "mixcW",
        {.min = 1, .max = 64, .iterations = 20, .iterations_large = 20, .warmup = 0, .window = 64,
         .unit = "us that the consumer works on a message", .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks != 2)
        refuse("needs exactly two ranks");
    size = (size_t)number(size_text, 0);
    double c1 = (double)number(produce_text, 0);
    memory = buffer(size * (size_t)options.window);
    requests = malloc(sizeof *requests * (size_t)options.window);
    for (size_t c2 = options.min; c2 <= options.max; c2 = next_size(c2)) {
        double values[2] = {0};
        int skip = warmup(c2), n = iterations(c2);
        for (int i = 0; i < skip + n; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double took = window(c1, (double)c2, (unsigned)(i * options.window));
            if (i == 0)
                values[1] = took;
            if (i >= skip)
                values[0] += took / n;
        }
        row(c2, values, 2);
    }
    return end();
}

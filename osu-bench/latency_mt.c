/* Ping-pong with MPI_THREAD_MULTIPLE: rank 0 sends from one thread, rank 1 answers from several (-t), which all
 * receive with the same tag; the mean latency that rank 0 sees. */
#include "common.h"
#include <pthread.h>

typedef struct { size_t size; int messages; } Share;

static void *respond(void *argument)
{
    const Share *share = argument;
    char *bytes = buffer(share->size);
    for (int i = 0; i < share->messages; i++) {
        MPI_Recv(bytes, (int)share->size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(bytes, (int)share->size, MPI_CHAR, 0, 2, MPI_COMM_WORLD);
    }
    free(bytes);
    return NULL;
}

/* Rank 1: the threads share the messages of one size. */
static void serve(size_t size, int messages)
{
    pthread_t *threads = malloc(sizeof *threads * (size_t)options.threads);
    Share *shares = malloc(sizeof *shares * (size_t)options.threads);
    for (int i = 0; i < options.threads; i++) {
        shares[i] = (Share){size, messages / options.threads + (i < messages % options.threads)};
        pthread_create(&threads[i], NULL, respond, &shares[i]);
    }
    for (int i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    free(shares);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Multi-threaded Latency Test", "Size          Latency (us)", "MPI_CHAR", "mixct",
        {.min = 1, .max = 4 << 20, .iterations = 1000, .iterations_large = 100, .warmup = 50, .warmup_large = 10, .threads = 2}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_MULTIPLE);
    if (ranks != 2) {
        if (rank == 0)
            fprintf(stderr, "latency_mt: needs exactly two ranks\n");
        MPI_Finalize();
        return 1;
    }
    char *bytes = buffer(options.max);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        int skip = warmup(size), n = iterations(size);
        double from = 0, took = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            serve(size, skip + n);
        for (int i = 0; rank == 0 && i < skip + n; i++) {
            if (i == skip)
                from = MPI_Wtime();
            if (options.validate)
                fill(bytes, size, (unsigned)i);
            MPI_Send(bytes, (int)size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
            if (options.validate)
                memset(bytes, 0, size);
            MPI_Recv(bytes, (int)size, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (options.validate)
                check(bytes, size, (unsigned)i);
        }
        took = (MPI_Wtime() - from) * 1e6 / (2.0 * n);
        row(size, &took, 1);
    }
    return end();
}

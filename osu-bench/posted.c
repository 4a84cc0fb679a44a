/* Posted receives: rank 1 posts N receives with tags of their own, rank 0 sends the N messages in the same order, or
 * with --reverse the other way round. Microseconds a message, from the go-ahead to the last completion. */
#include "common.h"

static const char *reverse, *size_text = "8";

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"reverse", NULL, "the receive posted last is matched first", &reverse},
                                  {"size", "BYTES", "of a message (default 8)", &size_text},
                                  {0}};
    static const Benchmark benchmark = {
        "MPI Posted Receives Test", "Receives   Per message(us)", "MPI_CHAR", "mixc",
        {.min = 1, .max = 512, .iterations = 200, .iterations_large = 20, .warmup = 10, .warmup_large = 2,
         .unit = "receives posted at once", .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks != 2)
        refuse("needs exactly two ranks");
    size_t size = (size_t)number(size_text, 0);
    char *memory = buffer(size * options.max), go = 0;
    MPI_Request *requests = malloc(sizeof *requests * (options.max + 1));
    for (size_t depth = options.min; depth <= options.max; depth = next_size(depth)) {
        int skip = warmup(depth), n = iterations(depth);
        double took = 0;
        for (int i = 0; i < skip + n; i++) {
            for (size_t k = 0; k < depth; k++) {
                size_t tag = rank == 0 && reverse ? depth - 1 - k : k;
                char *at = memory + size * tag;
                if (rank == 1) {
                    MPI_Irecv(at, (int)size, MPI_CHAR, 0, (int)tag, MPI_COMM_WORLD, &requests[k]);
                    continue;
                }
                if (options.validate)
                    fill(at, size, (unsigned)(i + (int)tag));
                if (k == 0)
                    MPI_Recv(&go, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Isend(at, (int)size, MPI_CHAR, 1, (int)tag, MPI_COMM_WORLD, &requests[k]);
            }
            double from = MPI_Wtime();
            if (rank == 1 && depth)
                MPI_Send(&go, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
            MPI_Waitall((int)depth, requests, MPI_STATUSES_IGNORE);
            if (i >= skip)
                took += MPI_Wtime() - from;
            for (size_t k = 0; k < depth && rank == 1 && options.validate; k++)
                check(memory + size * k, size, (unsigned)(i + (int)k));
        }
        took = depth ? took * 1e6 / n / (double)depth : 0;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
        row(depth, &took, 1);
    }
    return end();
}

/* A flood of unexpected messages: rank 0 sends N messages with tags of their own before rank 1 posts a receive; then
 * rank 1 receives them in the same order, with --reverse the last first, with --shuffled in no order. Microseconds a
 * receive, and what the flood took in memory, Pss of both ranks in bytes a message. */
#include "common.h"
#include "memory.h"

static const char *reverse, *shuffled, *size_text = "8", *one_tag;

/* The same order for everybody, without any pattern. */
static void shuffle(size_t *order, size_t count)
{
    unsigned long long state = 88172645463325252ULL;
    for (size_t k = 0; k < count; k++)
        order[k] = k;
    for (size_t k = count; k > 1; k--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t other = state % k, kept = order[k - 1];
        order[k - 1] = order[other];
        order[other] = kept;
    }
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"reverse", NULL, "the message that came last is received first", &reverse},
                                  {"shuffled", NULL, "they are received in no order", &shuffled},
                                  {"size", "BYTES", "of a message (default 8)", &size_text},
                                  {"one-tag", NULL, "all messages have the same tag", &one_tag},
                                  {0}};
    static const Benchmark benchmark = {
        "MPI Unexpected Messages Test", "Messages   Per receive(us)   Memory(B/message)", "MPI_CHAR", "mixc",
        {.min = 1, .max = 16384, .iterations = 20, .iterations_large = 3, .warmup = 2, .warmup_large = 1,
         .unit = "messages", .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks != 2)
        refuse("needs exactly two ranks");
    if ((reverse || shuffled) && one_tag)
        refuse("--reverse and --shuffled need tags that differ");
    if (reverse && shuffled)
        refuse("either --reverse or --shuffled");
    size_t size = (size_t)number(size_text, 0);
    char *memory = buffer(size ? size : 1), end_of_flood = 0;
    MPI_Request *requests = malloc(sizeof *requests * options.max);
    size_t *order = malloc(sizeof *order * options.max);
    memset(requests, 0, sizeof *requests * options.max);
    MPI_Barrier(MPI_COMM_WORLD);
    double base = proportional();
    for (size_t count = options.min; count <= options.max; count = next_size(count)) {
        int skip = warmup(count), n = iterations(count);
        double took = 0, used = 0, values[2];
        shuffle(order, count);
        for (int i = 0; i < skip + n; i++) {
            if (rank == 0) {
                for (size_t k = 0; k < count; k++) {
                    if (options.validate && k == 0)
                        fill(memory, size, (unsigned)i);
                    MPI_Isend(memory, (int)size, MPI_CHAR, 1, one_tag ? 1 : (int)k + 2, MPI_COMM_WORLD, &requests[k]);
                }
                MPI_Send(&end_of_flood, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            } else {
                MPI_Recv(&end_of_flood, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            }
            if (i == skip + n - 1) /* the answer is late for rank 0, which has nothing to do */
                used = proportional() - base;
            double from = MPI_Wtime();
            for (size_t k = 0; k < count && rank == 1; k++) {
                size_t tag = one_tag ? 1 : (shuffled ? order[k] : reverse ? count - 1 - k : k) + 2;
                MPI_Recv(memory, (int)size, MPI_CHAR, 0, (int)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (options.validate)
                    check(memory, size, (unsigned)i);
            }
            if (i >= skip)
                took += MPI_Wtime() - from;
            if (rank == 0)
                MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        took = count ? took * 1e6 / n / (double)count : 0;
        used = count ? used * 1024 / (double)count : 0;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
        values[0] = took;
        MPI_Reduce(&used, &values[1], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        row(count, values, 2);
    }
    return end();
}

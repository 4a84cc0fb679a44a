/* Bandwidth and message rate of many pairs at once: rank r of the first half sends to rank r of the second half. */
#include "window.h"

int main(int argc, char **argv)
{
    static const Extra extra[] = {THREAD_LEVEL, {0}};
    static const Benchmark benchmark = {
        "MPI Multiple Bandwidth / Message Rate Test", "", "MPI_CHAR", "mixcWF", {WINDOW_VALUES, .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    int pairs = ranks / 2, idle = rank >= 2 * pairs, sends = rank < pairs, peer = sends ? rank + pairs : rank - pairs;
    if (pairs == 0) {
        fprintf(stderr, "mbw_mr: needs at least two ranks\n");
        MPI_Finalize();
        return 1;
    }
    if (rank == 0) {
        printf("# [ pairs: %d ] [ window size: %d ]\n# Size                  MB/s        Messages/s%s\n", pairs, options.window,
               options.validate ? "        Validation" : "");
        fflush(stdout);
    }
    Window w = window();
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        int skip = warmup(size), n = iterations(size);
        double from = 0;
        for (int i = 0; i < skip + n; i++) {
            if (i == skip) {
                MPI_Barrier(MPI_COMM_WORLD);
                from = MPI_Wtime();
            }
            if (idle)
                continue;
            if (sends) {
                post_sends(&w, size, peer, (unsigned)i);
                wait_sends(&w);
                await_answer(peer);
            } else {
                post_receives(&w, size, peer);
                wait_receives(&w, size, (unsigned)i);
                answer(peer);
            }
        }
        double took = sends ? MPI_Wtime() - from : 0, sum = 0;
        MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        double messages = (double)n * options.window * pairs / (sum / pairs);
        row(size, (double[]){messages * (double)size / 1e6, messages}, 2);
    }
    return end();
}

/* Bandwidth of ranks 0 and 1 sending to each other at once, both directions together, in MB/s. */
#include "window.h"

static double stream(const Window *w, size_t size)
{
    double from = 0;
    int skip = warmup(size), n = iterations(size), peer = 1 - rank;
    for (int i = 0; i < skip + n; i++) {
        if (i == skip)
            from = MPI_Wtime();
        post_receives(w, size, peer);
        post_sends(w, size, peer, (unsigned)i);
        wait_sends(w);
        wait_receives(w, size, (unsigned)i);
        if (rank == 0) {
            await_answer(1);
        } else {
            answer(0);
        }
    }
    return 2.0 * (double)size * n * options.window / 1e6 / (MPI_Wtime() - from);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Bi-Directional Bandwidth Test", "Size      Bandwidth (MB/s)", "MPI_CHAR", "mixcWF", WINDOW_DEFAULTS};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    need_two("bibw");
    Window w = window();
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        MPI_Barrier(MPI_COMM_WORLD);
        double rate = stream(&w, size);
        row(size, &rate, 1);
    }
    return end();
}

/* Bandwidth from rank 0 to rank 1: windows of nonblocking sends, each window answered, in MB/s (10^6 bytes). */
#include "window.h"

static double stream(const Window *w, size_t size)
{
    double from = 0;
    int skip = warmup(size), n = iterations(size);
    for (int i = 0; i < skip + n; i++) {
        if (i == skip)
            from = MPI_Wtime();
        if (rank == 0) {
            post_sends(w, size, 1, (unsigned)i);
            wait_sends(w);
            await_answer(1);
        } else {
            post_receives(w, size, 0);
            wait_receives(w, size, (unsigned)i);
            answer(0);
        }
    }
    return (double)size * n * options.window / 1e6 / (MPI_Wtime() - from);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Bandwidth Test", "Size      Bandwidth (MB/s)", "MPI_CHAR", "mixcWF", WINDOW_DEFAULTS};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    need_two("bw");
    Window w = window();
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        MPI_Barrier(MPI_COMM_WORLD);
        double rate = stream(&w, size);
        row(size, &rate, 1);
    }
    return end();
}

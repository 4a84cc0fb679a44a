/* Prefix sums of floats: rank r gets the sum over ranks 0 to r; the size is the bytes of one rank. */
#include "common.h"

static void call(const Run *run)
{
    MPI_Scan(run->send, run->receive, (int)(run->bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void verify(const Run *run, unsigned seed)
{
    const float *got = run->receive;
    for (size_t i = 0; i < run->bytes / sizeof(float); i++) {
        float sum = 0;
        for (int r = 0; r <= rank; r++)
            sum += term(r, i, seed);
        if (got[i] != sum) {
            if (!wrong++)
                fprintf(stderr, "rank %d: element %zu is %g, not %g\n", rank, i, got[i], sum);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Scan Latency Test", "Size       Avg Latency(us)", "MPI_FLOAT", "mixcfwF", COLLECTIVE_DEFAULTS(4)},
        1, 1, sizeof(float), call, put_terms, verify, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

/* Prefix sums of floats: rank r gets the sum over ranks 0 to r, with --exclusive to r - 1; the size is the bytes of one
 * rank. */
#include "common.h"

static const char *exclusive;

static void call(const Run *run)
{
    (exclusive ? MPI_Exscan : MPI_Scan)(run->send, run->receive, (int)(run->bytes / sizeof(float)), MPI_FLOAT, MPI_SUM,
                                        MPI_COMM_WORLD);
}

static void verify(const Run *run, unsigned seed) { (exclusive ? verify_exscan : verify_scan)(run, seed); }

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"exclusive", NULL, "MPI_Exscan", &exclusive}, {0}};
    static const Collective collective = {
        {"MPI Scan Latency Test", "Size       Avg Latency(us)", "MPI_FLOAT", "mixcfwF",
         COLLECTIVE_DEFAULTS(4, .extra = extra)},
        1, 1, sizeof(float), call, put_terms, verify, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

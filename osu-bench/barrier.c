/* Barrier of all ranks. */
#include "common.h"

static void call(const Run *run)
{
    (void)run;
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const Collective collective = {
        {"MPI Barrier Latency Test", "Avg Latency(us)", NULL, "ixf",
         COLLECTIVE_DEFAULTS(0)},
        1, -1, 0, call, NULL, NULL, EVERYBODY, EVERYBODY};
    return collective_main(argc, argv, &collective);
}

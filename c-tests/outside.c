/* Claim: a call before Init or after Finalize ends the program with an error and a sentence, it does not go on.
 * Argument: `before`, `after` or `twice` (Init called twice). The runner expects a failure. */
#include "check.h"

int main(int argc, char **argv)
{
    int rank = -1;
    const char *when = argc > 1 ? argv[1] : "";
    if (strcmp(when, "before"))
        MPI_Init(&argc, &argv);
    if (!strcmp(when, "after"))
        MPI_Finalize();
    if (!strcmp(when, "twice"))
        MPI_Init(&argc, &argv);
    else
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "outside: still running, rank %d\n", rank);
    return 0;
}

/* Claim: MPI_Abort by one rank ends the whole job at once, and its code is the launcher's exit status; a rank that
 * dies or leaves without Finalize ends the job too. Argument: `abort` (and its code, if not 42), `kill`, `exit`, `error` (a fatal MPI error), `class`
 * (one of a class that the program has added). */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *how = argc > 1 ? argv[1] : "";
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == n_ranks - 1) {
        if (!strcmp(how, "abort"))
            MPI_Abort(MPI_COMM_WORLD, argc > 2 ? atoi(argv[2]) : 42);
        if (!strcmp(how, "kill"))
            raise(SIGKILL);
        if (!strcmp(how, "exit"))
            _exit(3);
        if (!strcmp(how, "error")) /* errors are fatal unless somebody asks otherwise */
            MPI_Send(how, 1, MPI_CHAR, n_ranks + 5, 1, MPI_COMM_WORLD);
        if (!strcmp(how, "class")) {
            int added;
            OK(MPI_Add_error_class(&added));
            MPI_Comm_call_errhandler(MPI_COMM_WORLD, added);
        }
    }
    MPI_Recv(&argc, 1, MPI_INT, n_ranks - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* never sent */
    fprintf(stderr, "abort: still running\n");
    return 0;
}

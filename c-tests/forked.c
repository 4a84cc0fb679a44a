/* A child that a rank makes by fork is no rank: MPI looks finalized there and a call ends it with a sentence, while
   the rank goes on. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, finalized = 0, status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    pid_t child = fork();
    if (child == 0) {
        MPI_Finalized(&finalized);
        if (!finalized)
            _exit(7);
        if (!freopen("/dev/null", "w", stderr))
            _exit(8);
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(9);
    }
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 1) {
        fprintf(stderr, "the child ended with status %x\n", status);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

/* A child that a rank makes by fork is no rank: MPI looks finalized there and a call ends it with a sentence, while
   the rank goes on. It may ask which rank made it, of how many, and where it runs. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

/* What a child asks that MPI answers. */
static int asks(int rank, int size)
{
    int mine = -1, ranks = 0, length = 0, level = -1, finalized = 0;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Finalized(&finalized);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);
    MPI_Query_thread(&level);
    return finalized && mine == rank && ranks == size && length > 0 && level == MPI_THREAD_SINGLE ? 0 : 7;
}

static void child_ends_with(int code, int talks)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (!talks)
            _exit(asks(my_rank, n_ranks));
        if (!freopen("/dev/null", "w", stderr))
            _exit(8);
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(9);
    }
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code, "the child ended with status %x", status);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    child_ends_with(0, 0);
    child_ends_with(1, 1);
    return finish();
}

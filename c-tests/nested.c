/* Claim: a program that a rank starts, by system(3) say, and that uses MPI is a job of its own, of one process, and the rank's job
 * goes on. With the argument `again`: a rank that has been in MPI and runs another MPI program in its place is told that this
 * cannot be; `twice`: so is the later one of two programs that were started as the same rank. */
#include "check.h"
#include <sys/wait.h>

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    char command[4096];
    if (!strcmp(mode, "twice"))
        for (int i = 0; i < 2; i++)
            if (fork() == 0) {
                usleep(i * 300000);
                execl(argv[0], argv[0], "late", (char *)NULL);
            }
    if (!strcmp(mode, "twice")) {
        int failures = 0;
        for (int status; wait(&status) > 0;)
            failures += status != 0;
        return failures;
    }
    start(&argc, &argv);
    if (!strcmp(mode, "late"))
        usleep(1000000);
    int sum = 0, one = 1, inner = !strcmp(mode, "inner");
    CHECK(!inner || n_ranks == 1, "%d ranks", n_ranks);
    for (int round = 0; round < 20; round++) {
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == n_ranks, "%d of %d", sum, n_ranks);
        if (round == 10 && !*mode) {
            snprintf(command, sizeof command, "'%s' inner", argv[0]);
            int status = system(command);
            CHECK(status == 0, "the program within ended with status %x", status);
        }
    }
    if (strcmp(mode, "again"))
        return finish();
    OK(MPI_Finalize());
    execl(argv[0], argv[0], (char *)NULL);
    return 9;
}

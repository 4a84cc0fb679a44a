/* How jobs end that have started processes (MPI-4.1 §11.10): whoever dies takes those with it that it is connected to, on either
 * side, waiting in MPI or not; who has disconnected goes on, and mpirun ends when the last of them does. Both sides may wait for
 * each other for ever, too, which takes more than that all sleep while the new ones are on their way. */
#include "check.h"
#include <signal.h>

static int is(const char *one, const char *other) { return strcmp(one, other) == 0; }

static void end_of_children(char *program, const char *how, MPI_Comm parent)
{
    int one = 1;
    if (is(how, "child-dies") || is(how, "busy")) {
        if (my_rank == 1)
            raise(SIGKILL);
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE));
    }
    if (is(how, "child-aborts")) {
        if (my_rank == 1)
            MPI_Abort(MPI_COMM_WORLD, 9);
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE));
    }
    if (is(how, "child-leaves")) {
        if (my_rank == 1)
            _exit(0);
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE));
    }
    if (is(how, "parent-dies") || is(how, "parent-aborts"))
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE));
    if (is(how, "apart-dies")) {
        OK(MPI_Comm_disconnect(&parent));
        if (my_rank == 1)
            raise(SIGKILL);
    }
    if (is(how, "apart-goes-on")) {
        OK(MPI_Comm_disconnect(&parent));
        sleep(1);
        if (my_rank == 1)
            printf("the last one\n");
    }
    if (is(how, "launcher-dies")) {
        if (my_rank == 1)
            kill(getppid(), SIGKILL);
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE));
    }
    if (is(how, "grandchild")) {
        char *words[] = {"apart-goes-on", NULL};
        MPI_Comm inter;
        OK(MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_disconnect(&inter));
        OK(MPI_Comm_disconnect(&parent));
    }
    if (is(how, "stuck")) /* as the parents are: everybody waits for rank 0 of the other side */
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 7, parent, MPI_STATUS_IGNORE));
    if (is(how, "slow-to-come") && my_rank == 0)
        OK(MPI_Send(&one, 1, MPI_INT, 0, 7, parent));
    if (is(how, "replacement")) {
        int sum;
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent));
        OK(MPI_Comm_disconnect(&parent));
    }
    if (is(how, "unread")) {
        /* Read when this process is gone. */
        static char bytes[1 << 20];
        for (int i = 0; i < 100; i++)
            OK(MPI_Send(bytes, 1000, MPI_BYTE, 0, 5, parent));
    }
    MPI_Finalize();
}

/* Who survives starts others in place of the dead (mpirun -keep-going). */
static int after_a_death(char *program)
{
    char *words[] = {"replacement", NULL};
    MPI_Comm survivors, inter;
    int one = 1, sum = 0, size;
    if (my_rank == n_ranks - 1)
        raise(SIGKILL);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Recv(&one, 1, MPI_INT, n_ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &survivors));
    OK(MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, survivors, &inter, MPI_ERRCODES_IGNORE));
    OK(MPI_Comm_size(survivors, &size));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK(size == n_ranks - 1 && sum == 2, "%d survivors, %d new ones", size, sum);
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Comm_free(&survivors));
    printf("rank %d has got a replacement\n", my_rank);
    MPI_Finalize();
    return 0;
}

/* Rank 2 dies while the others wait for those who are started, of whom none can be joined then. */
static int death_meanwhile(char *program)
{
    char number[20];
    char *words[] = {"kills", number, NULL};
    MPI_Comm inter;
    int pid = getpid();
    OK(MPI_Bcast(&pid, 1, MPI_INT, 2, MPI_COMM_WORLD));
    sprintf(number, "%d", pid);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPIX_ERR_PROC_FAILED,
          MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    printf("rank %d goes on\n", my_rank);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    if (argc > 2 && is(argv[1], "kills")) {
        kill(atoi(argv[2]), SIGKILL);
        usleep(100000);
    }
    /* Longer than the ranks of a job may all sleep. */
    if (argc > 2 && is(argv[2], "later"))
        sleep(8);
    start(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    const char *how = argc > 1 ? argv[1] : "";
    if (parent != MPI_COMM_NULL) {
        end_of_children(argv[0], how, parent);
        return 0;
    }
    if (is(how, "after-a-death"))
        return after_a_death(argv[0]);
    if (is(how, "death-meanwhile"))
        return death_meanwhile(argv[0]);
    char *words[] = {argv[1], is(how, "slow-to-come") ? "later" : NULL, NULL};
    int one = 1;
    OK(MPI_Comm_spawn(argv[0], words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    if (is(how, "parent-dies") && my_rank == 0)
        raise(SIGKILL);
    if (is(how, "parent-aborts") && my_rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (is(how, "busy"))
        sleep(60);
    if (is(how, "apart-dies") || is(how, "apart-goes-on") || is(how, "grandchild")) {
        OK(MPI_Comm_disconnect(&inter));
        sleep(is(how, "apart-dies"));
        printf("parent %d goes on\n", my_rank);
        return finish();
    }
    if (is(how, "stuck"))
        OK(MPI_Recv(&one, 1, MPI_INT, 0, 7, inter, MPI_STATUS_IGNORE));
    if (is(how, "slow-to-come")) {
        if (my_rank == 0)
            OK(MPI_Recv(&one, 1, MPI_INT, 0, 7, inter, MPI_STATUS_IGNORE));
        return finish();
    }
    if (is(how, "unread")) {
        static char bytes[1 << 20];
        sleep(1);
        for (int i = 0; i < 200 && my_rank == 0; i++)
            OK(MPI_Recv(bytes, sizeof bytes, MPI_BYTE, i % 2, 5, inter, MPI_STATUS_IGNORE));
        return finish();
    }
    OK(MPI_Recv(&one, 1, MPI_INT, 1, 0, inter, MPI_STATUS_IGNORE));
    return finish();
}

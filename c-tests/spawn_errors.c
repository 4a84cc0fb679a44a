/* What cannot be started (MPI-4.1 §11.8.2): an error of class MPI_ERR_SPAWN, on all ranks, with a code for each process, and the
 * program goes on. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    int codes[2] = {0, 0}, class;
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    const char *commands[] = {"./no-such-program", "/", "/bin/true", "/bin/false"};
    for (int i = 0; i < 4; i++) {
        FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn(commands[i], MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &inter, codes));
        CHECK(inter == MPI_COMM_NULL, "a handle");
        OK(MPI_Error_class(my_rank ? MPI_ERR_SPAWN : codes[1], &class));
        CHECK(class == MPI_ERR_SPAWN, "code %d", codes[1]);
    }
    /* Whoever watches over them may die, too. */
    char *words[] = {"-c", "kill -9 $PPID; sleep 9", NULL};
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("/bin/sh", words, 2, info, 0, MPI_COMM_WORLD, &inter, codes));
    OK(MPI_Info_set(info, "wdir", "/no-such-folder"));
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes));
    OK(MPI_Info_set(info, "wdir", "/"));
    OK(MPI_Info_set(info, "host", "far-away"));
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes));
    OK(MPI_Info_free(&info));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return finish();
}

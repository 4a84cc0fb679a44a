/* What cannot be started (MPI-4.1 §11.8.2): an error of class MPI_ERR_SPAWN, on all ranks, with a code for each process, and the
 * program goes on. So it is where a process has no addresses left for the memory of others. */
#include "check.h"
#include <sys/resource.h>

/* This process may map no more than what it has and a little. */
static void fill_up(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1, "no size");
    fclose(file);
    struct rlimit limit = {pages * sysconf(_SC_PAGESIZE) + (30l << 20), RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "no limit");
}

/* One of the ranks has no room: the root, another member, or one that has nothing to do with it. */
static void without_room(void)
{
    static char here[8000], there[8000];
    MPI_Comm inter;
    int up = (my_rank + 1) % n_ranks, down = (my_rank + n_ranks - 1) % n_ranks;
    if (my_rank == 1)
        fill_up();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int root = 0; root < n_ranks; root++)
        FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter,
                                            MPI_ERRCODES_IGNORE));
    if (my_rank == 2)
        FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter,
                                            MPI_ERRCODES_IGNORE));
    for (int i = 0; i < 300; i++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Sendrecv(here, sizeof here, MPI_CHAR, up, 0, there, sizeof there, MPI_CHAR, down, 0, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm inter = MPI_COMM_WORLD;
    int codes[2] = {0, 0}, class;
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (argc > 1) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
        without_room();
        return finish();
    }
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

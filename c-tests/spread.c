/* Claim: two pairs of ranks that talk move apart (NEARMPI_SPREAD) when all were put on one CPU of two, and with `mates` when
 * each pair was put on one: some bind themselves to the other CPU and then allow themselves all again. With `mates` no rank
 * is on the CPU of its mate afterwards. Of pairs that were put apart and send each other `windows` of short messages, or `long`
 * ones in turns, all are on their mate's CPU then. `off`: with NEARMPI_SPREAD=0 none moves. The library's calls of
 * sched_setaffinity are caught by standing in for it. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sys/syscall.h>

static cpu_set_t before;
static int first = -1, second = -1; /* the CPUs */
static int moves, released, astray;

static int bind_me(const cpu_set_t *cpus)
{
    return (int)syscall(SYS_sched_setaffinity, 0, sizeof *cpus, cpus);
}

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *cpus)
{
    int result = (int)syscall(SYS_sched_setaffinity, pid, size, cpus);
    if (first < 0)
        return result;
    if (CPU_COUNT_S(size, cpus) == 1) {
        moves++;
        astray += !CPU_ISSET_S(sched_getcpu(), size, cpus);
    } else {
        released++;
    }
    return result;
}

enum { WINDOW = 64, LONG = 8192 };

/* Exchanges messages of `length` bytes in turns with the other rank of the pair. */
static void talk(int messages, int length)
{
    static char word[LONG];
    int peer = my_rank ^ 1;
    for (int i = 0; i < messages; i++) {
        if (my_rank < peer)
            OK(MPI_Send(word, length, MPI_CHAR, peer, 1, MPI_COMM_WORLD));
        OK(MPI_Recv(word, length, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (my_rank > peer)
            OK(MPI_Send(word, length, MPI_CHAR, peer, 1, MPI_COMM_WORLD));
    }
}

/* The lower rank of a pair sends windows of messages, which say where it is, and the other one answers each window: whether it was on
 * the same CPU for most of the second half of them. Now and then the pairs wait for each other: alone, one has two CPUs. */
static int pour(int windows)
{
    MPI_Request request[WINDOW];
    int peer = my_rank ^ 1, word[WINDOW], together = 0;
    for (int i = 0; i < windows; i++) {
        if (i % (windows / 16) == 0)
            OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int j = 0; j < WINDOW; j++) {
            word[j] = sched_getcpu();
            if (my_rank < peer)
                OK(MPI_Isend(&word[j], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &request[j]));
            else
                OK(MPI_Irecv(&word[j], 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &request[j]));
        }
        OK(MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE));
        together += i >= windows / 2 && word[0] == sched_getcpu();
        if (my_rank > peer)
            OK(MPI_Send(&word, 1, MPI_INT, peer, 2, MPI_COMM_WORLD));
        else
            OK(MPI_Recv(&word, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    return my_rank < peer || together > windows / 4;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int off = 0, mates = 0, windows = 0, length = sizeof(int), all = 0, sum[3] = {0};
    for (int i = 1; i < argc; i++) {
        off |= strcmp(argv[i], "off") == 0;
        mates |= strcmp(argv[i], "mates") == 0;
        windows |= strcmp(argv[i], "windows") == 0;
        length = strcmp(argv[i], "long") == 0 ? LONG : length;
    }
    int together = windows || length == LONG;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0 && CPU_COUNT(&before) == 2, "wants two CPUs, has %d", CPU_COUNT(&before));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before))
            *(first < 0 ? &first : &second) = cpu;
    cpu_set_t one;
    int here = (mates && my_rank > 1) || (together && my_rank % 2) ? second : first;
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    /* The kernel may move some before we do: again then. */
    int round;
    for (round = 0; round < (off ? 5 : 100) && !all; round++) {
        CHECK(bind_me(&one) == 0 && sched_getcpu() == here, "cannot go to CPU %d", here);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(bind_me(&before) == 0, "cannot leave CPU %d", here);
        int poured = windows && pour(8000);
        if (!windows)
            talk(5000, length);
        int cpu = sched_getcpu(), other, right;
        OK(MPI_Sendrecv(&cpu, 1, MPI_INT, my_rank ^ 1, 2, &other, 1, MPI_INT, my_rank ^ 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        right = windows ? poured : together ? cpu == other : !mates || cpu != other;
        OK(MPI_Allreduce(&moves, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        OK(MPI_Allreduce(MPI_IN_PLACE, &right, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
        all = right ? all : 0;
    }
    cpu_set_t after;
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after), "other CPUs than before");
    int mine[3] = {moves, released, astray};
    OK(MPI_Allreduce(mine, sum, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (my_rank == 0)
        printf("spread: %d moves, round %d\n", sum[0], round);
    CHECK(off ? sum[0] == 0 : all > 0, "%d moves in %d rounds", sum[0], round);
    CHECK(sum[1] == sum[0] && sum[2] == 0, "%d moves, %d of them undone, %d elsewhere", sum[0], sum[1], sum[2]);
    return finish();
}

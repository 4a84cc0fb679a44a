/* Claim: two ranks that run on one CPU, though there is one for each, take turns within microseconds: whoever waits gives way. A
 * library that polls until its time on the CPU is over needs milliseconds for each message. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

enum { TIMES = 300 };

static char byte;

static void receive_from(int source)
{
    if (my_rank == 0)
        OK(MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
    OK(MPI_Recv(&byte, 1, MPI_CHAR, source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (my_rank == 1)
        OK(MPI_Send(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD));
}

static void named(int i)
{
    (void)i;
    receive_from(1 - my_rank);
}

static void any(int i)
{
    (void)i;
    receive_from(MPI_ANY_SOURCE);
}

static void barrier(int i)
{
    (void)i;
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void test(int i)
{
    MPI_Request request;
    if (my_rank == i % 2)
        OK(MPI_Isend(&byte, 1, MPI_CHAR, 1 - my_rank, 0, MPI_COMM_WORLD, &request));
    else
        OK(MPI_Irecv(&byte, 1, MPI_CHAR, 1 - my_rank, 0, MPI_COMM_WORLD, &request));
    for (int done = 0; !done;)
        OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
}

static void probe(int i)
{
    if (my_rank == i % 2)
        OK(MPI_Send(&byte, 1, MPI_CHAR, 1 - my_rank, 0, MPI_COMM_WORLD));
    else {
        for (int there = 0; !there;)
            OK(MPI_Iprobe(1 - my_rank, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&byte, 1, MPI_CHAR, 1 - my_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

static void started(int i)
{
    int64_t mine = i + my_rank, sum;
    MPI_Request request;
    OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(sum == 2 * i + 1, "%lld in call %d", (long long)sum, i);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    cpu_set_t may, one;
    CHECK(sched_getaffinity(0, sizeof may, &may) == 0, "no affinity");
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &may))
            CPU_SET(cpu, &one);
    /* Where mpirun has bound them, both are to get the first rank's CPU. */
    OK(MPI_Bcast(&one, sizeof one, MPI_BYTE, 0, MPI_COMM_WORLD));
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "not moved");
    struct {
        const char *name;
        void (*once)(int);
    } ways[] = {{"named", named}, {"any", any}, {"barrier", barrier}, {"test", test}, {"probe", probe}, {"started", started}};
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        ways[way].once(0);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        double from = MPI_Wtime();
        for (int i = 0; i < TIMES; i++)
            ways[way].once(i);
        double took = (MPI_Wtime() - from) / TIMES * 1e6;
        if (my_rank == 0)
            printf("confined: %s %.1f us\n", ways[way].name, took);
        CHECK(took < 500, "%s took %.0f us", ways[way].name, took);
    }
    return finish();
}

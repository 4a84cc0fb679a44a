/* What the fault tests run: `victim WHERE HOW` brings all ranks to WHERE and lets the last one end in the way HOW.
 *
 *   WHERE  early (before MPI_Init), barrier, recv, large, compute, sleep, stubborn (asleep, without SIGTERM), late
 *          (after MPI_Finalize)
 *   HOW    kill, segv, abort, exit0, exit3, fast0 (_exit), mpi7 (MPI_Abort), stop, child (a child keeps stdout open
 *          while the rank is killed), wait (does nothing: the test strikes from outside), fork (children come and go)
 *
 * `victim junk PART` has the last rank write over the memory of the job; `victim data` sends messages of all sizes round a ring and checks every byte; `victim times` prints the time of a
 * barrier in microseconds; `victim flood` has rank 0 swallow a million messages and prints what it grew by, in MB;
 * `victim stdin` counts what each rank can read. */
#include "../check.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Writes junk over the job's memory: over a PART of it (header, low, all), most of its words or some. */
static void scribble(const char *part)
{
    char line[512];
    unsigned char *from = NULL, *to = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    uint32_t state = (uint32_t)getpid();
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:nearmpi") && sscanf(line, "%p-%p", (void **)&from, (void **)&to) == 2)
            break;
    if (maps)
        fclose(maps);
    CHECK(from != NULL, "the job's memory is not to be found");
    size_t len = (size_t)(to - from), most = !strcmp(part, "header") ? 4096 : !strcmp(part, "low") ? 1 << 20 : 16 << 20;
    unsigned step = !strcmp(part, "all") ? 100 : 3;
    for (size_t i = 0; i + 8 <= len && i < most; i += 8)
        if (next_random(&state) % step == 0)
            *(volatile uint64_t *)(from + i) = (uint64_t)next_random(&state) << 40 | next_random(&state);
}

static void end(const char *how)
{
    if (!strcmp(how, "kill"))
        kill(getpid(), SIGKILL);
    else if (!strcmp(how, "segv"))
        *(volatile int *)16 = 1;
    else if (!strcmp(how, "abort"))
        abort();
    else if (!strcmp(how, "exit0"))
        exit(0);
    else if (!strcmp(how, "exit3"))
        exit(3);
    else if (!strcmp(how, "fast0"))
        _exit(0);
    else if (!strcmp(how, "mpi7"))
        MPI_Abort(MPI_COMM_WORLD, 7);
    else if (!strcmp(how, "child")) {
        if (fork() == 0) {
            sleep(1000);
            _exit(0);
        }
        kill(getpid(), SIGKILL);
    } else if (!strcmp(how, "stop")) {
        if (fork() == 0) {
            usleep(300000);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        kill(getpid(), SIGSTOP);
        return;
    } else if (!strcmp(how, "fork")) {
        for (int i = 0; i < 20; i++) {
            pid_t child = fork();
            if (child == 0)
                i % 2 ? exit(0) : _exit(0);
            waitpid(child, NULL, 0);
        }
        return;
    } else if (!strcmp(how, "wait")) {
        return;
    }
    pause();
}

static void data(void)
{
    static const size_t sizes[] = {0, 1, 48, 49, 1000, 8192, 8193, 16384, 32768, 32769, 65536, 70000, 1 << 20, 5000001};
    int next = (my_rank + 1) % n_ranks, previous = (my_rank + n_ranks - 1) % n_ranks;
    unsigned char *out = need(5000001), *in = need(5000001);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            MPI_Status status;
            fill(out, sizes[i], round + i + (unsigned)my_rank);
            OK(MPI_Sendrecv(out, (int)sizes[i], MPI_BYTE, next, (int)i, in, (int)sizes[i], MPI_BYTE, previous, (int)i,
                            MPI_COMM_WORLD, &status));
            CHECK_BYTES(in, sizes[i], round + i + (unsigned)previous);
            int sum = my_rank;
            OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            CHECK(sum == n_ranks * (n_ranks - 1) / 2, "sum %d", sum);
        }
    if (my_rank == 0)
        puts("data ok");
}

static void times(void)
{
    int count = n_ranks > 32 ? 200 : 1000;
    for (int i = 0; i < 20; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    double begin = now();
    for (int i = 0; i < count; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0)
        printf("%.1f\n", (now() - begin) / count * 1e6);
}

static long resident(void)
{
    long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void flood(void)
{
    enum { COUNT = 1000000 };
    char message[64] = "";
    if (my_rank == 0) {
        long before = resident();
        OK(MPI_Recv(message, 64, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        printf("%ld\n", (resident() - before) >> 20);
        for (int i = 0; i < COUNT; i++)
            OK(MPI_Recv(message, 64, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        for (int i = 0; i < COUNT; i++)
            OK(MPI_Send(message, 64, MPI_CHAR, 0, 0, MPI_COMM_WORLD));
        OK(MPI_Send(message, 64, MPI_CHAR, 0, 1, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    const char *where = argc > 1 ? argv[1] : "", *how = argc > 2 ? argv[2] : "";
    if (!strcmp(where, "early")) {
        const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");
        if (rank && size && atoi(rank) == atoi(size) - 1) {
            usleep(100000);
            end(how);
        }
    }
    if (!strcmp(where, "stubborn"))
        signal(SIGTERM, SIG_IGN);
    start(&argc, &argv);
    if (!strcmp(where, "data"))
        return data(), finish();
    if (!strcmp(where, "times"))
        return times(), finish();
    if (!strcmp(where, "flood"))
        return flood(), finish();
    if (!strcmp(where, "stdin")) {
        long count = 0;
        while (getchar() != EOF)
            count++;
        printf("%d %ld\n", my_rank, count);
        return finish();
    }
    if (!strcmp(where, "junk")) {
        int in, next = (my_rank + 1) % n_ranks, previous = (my_rank + n_ranks - 1) % n_ranks;
        for (int i = 0;; i++) {
            if (i == 1000 && my_rank == n_ranks - 1)
                scribble(how);
            MPI_Sendrecv(&i, 1, MPI_INT, next, 1, &in, 1, MPI_INT, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(in == i, "wrong data: %d", in);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0) {
        fputs("ready\n", stdout);
        fflush(stdout);
    }
    int is_last = my_rank == n_ranks - 1, value = 0;
    if (!strcmp(where, "late")) {
        OK(MPI_Finalize());
        if (is_last)
            end(how);
        return 0;
    }
    if (is_last) {
        usleep(100000);
        end(how);
        if (!strcmp(how, "stop") || !strcmp(how, "fork"))
            return data(), finish();
    } else if (!strcmp(how, "stop") || !strcmp(how, "fork")) {
        return data(), finish();
    }
    char *large = need(1 << 24);
    for (;;) {
        if (!strcmp(where, "barrier"))
            MPI_Barrier(MPI_COMM_WORLD);
        else if (!strcmp(where, "recv"))
            MPI_Recv(&value, 1, MPI_INT, (my_rank + 1) % n_ranks, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (!strcmp(where, "large"))
            MPI_Sendrecv_replace(large, 1 << 24, MPI_CHAR, (my_rank + 1) % n_ranks, 3, (my_rank + n_ranks - 1) % n_ranks, 3,
                                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else if (!strcmp(where, "compute"))
            for (volatile long i = 0; i < 100000000; i++)
                ;
        else
            sleep(1);
    }
}

/* What a rank has begun goes on while it does not call MPI, if NEARMPI_ASYNC_PROGRESS is 1: receives of long messages, nonblocking
 * collectives, access to its window by others. Without arguments. Elsewhere nothing moves then; but a program with MPI_THREAD_MULTIPLE
 * can have such a thread for a while (MPIX_Start_progress_thread; argument `for-a-while`), and one without is told what it needs
 * (`single`). The thread takes none of the program's signals, does not change the level of thread support, runs functions of the
 * program without losing sight of other operations, and is gone after MPI_Finalize, even if one of them has ended it. */
#include "check.h"
#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

enum { LENGTH = 2 << 20, COUNT = 1 << 18 };

static unsigned char bytes[LENGTH];
static double numbers[2 * COUNT], sums[2 * COUNT];

static void compute(void)
{
    struct timespec left = {1, 0};
    while (nanosleep(&left, &left) != 0)
        ;
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; /* . and .. */
    CHECK(tasks != NULL, "no /proc");
    while (readdir(tasks) != NULL)
        count++;
    closedir(tasks);
    return count;
}

/* One that has ended may be seen for a moment. */
static void check_threads(int expected)
{
    struct timespec moment = {0, 1000000};
    for (int turn = 0; turn < 1000 && count_threads() != expected; turn++)
        nanosleep(&moment, NULL);
    CHECK(count_threads() == expected, "%d threads", count_threads());
}

/* All are here; rank 1 does not call MPI for a second from now on, and rank 0 begins when that has left the barrier for certain. */
static double begin(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0)
        usleep(50000);
    return MPI_Wtime();
}

/* `from`: when rank 0 began what has ended now. */
static void judge(const char *what, double from, int moves)
{
    double spent = MPI_Wtime() - from;
    CHECK(moves ? spent < 0.5 : spent > 0.6, "%s: %f s", what, spent);
}

/* A message, synchronous or longer than what is kept for a late receiver. */
static void message(int synchronous, int moves)
{
    int length = synchronous ? 100000 : LENGTH;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0) {
        fill(bytes, length, 7);
        double from = begin();
        OK((synchronous ? MPI_Ssend : MPI_Send)(bytes, length, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
        judge("message", from, moves);
    } else {
        MPI_Request request;
        MPI_Status status;
        OK(MPI_Irecv(bytes, length, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request));
        begin();
        compute();
        OK(MPI_Wait(&request, &status));
        CHECK_STATUS(status, 0, 5, MPI_BYTE, length);
        CHECK_BYTES(bytes, length, 7);
    }
}

static MPI_Comm other; /* for collectives that rank 1 begins before a barrier and rank 0 behind it */
static long main_thread;
static _Atomic int elsewhere; /* times that `add` ran in another thread than the program's */
static useconds_t delay;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    elsewhere += syscall(SYS_gettid) != main_thread;
    usleep(delay);
    for (int i = 0; i < *count; i++)
        ((double *)inout)[i] += ((double *)in)[i];
}

/* An allreduce by an operation of MPI or of the program; a long one goes by messages. */
static void collective(int count, MPI_Op op, int moves)
{
    MPI_Request request;
    for (int i = 0; i < count; i++)
        numbers[i] = i + my_rank;
    if (my_rank == 1) /* it is first, and waits for the other */
        OK(MPI_Iallreduce(numbers, sums, count, MPI_DOUBLE, op, other, &request));
    double from = begin();
    if (my_rank == 1)
        compute();
    else
        OK(MPI_Iallreduce(numbers, sums, count, MPI_DOUBLE, op, other, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (my_rank == 0)
        judge("allreduce", from, moves);
    for (int i = 0; i < count; i++)
        CHECK(sums[i] == 2.0 * i + 1, "sum %d is %f", i, sums[i]);
}

/* Two at a time: while the operation of one runs in whatever thread moves it, the other goes on. */
static void together(MPI_Op sum)
{
    uint32_t random = 5;
    for (int turn = 0; turn < 60; turn++) {
        int counts[2] = {COUNT / 2 + next_random(&random) % (COUNT / 4), COUNT / 2 + next_random(&random) % (COUNT / 4)};
        useconds_t late[2] = {next_random(&random) % 3000, next_random(&random) % 3000};
        MPI_Request requests[2];
        delay = next_random(&random) % 3000;
        for (int i = 0; i < counts[0] + counts[1]; i++)
            numbers[i] = i + my_rank;
        usleep(late[my_rank]);
        for (int i = 0, at = 0; i < 2; at += counts[i++])
            OK(MPI_Iallreduce(numbers + at, sums + at, counts[i], MPI_DOUBLE, sum, MPI_COMM_WORLD, &requests[i]));
        usleep(late[!my_rank]);
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < counts[0] + counts[1]; i++)
            CHECK(sums[i] == 2.0 * i + 1, "sum %d is %f", i, sums[i]);
    }
    delay = 0;
}

/* Rank 0 adds to the memory of rank 1, which has to do it itself where the kernel lets nobody in. */
static void window(int moves)
{
    static long cells[4];
    long one = 1, before = -1;
    MPI_Win win;
    memset(cells, 0, sizeof cells);
    OK(MPI_Win_create(cells, sizeof cells, sizeof *cells, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    double from = begin();
    if (my_rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        OK(MPI_Get_accumulate(&one, 1, MPI_LONG, &before, 1, MPI_LONG, 1, 2, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Win_unlock(1, win));
        judge("window", from, moves);
        CHECK(before == 0, "it was %ld", before);
    } else {
        compute();
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(my_rank == 0 || cells[2] == 1, "it is %ld", cells[2]);
    OK(MPI_Win_free(&win));
}

static volatile sig_atomic_t taken;

static void take(int number)
{
    (void)number;
    taken += syscall(SYS_gettid) == main_thread ? 1 : 100;
}

static void signals(void)
{
    signal(SIGUSR2, take);
    for (int i = 0; i < 50; i++)
        kill(getpid(), SIGUSR2);
    CHECK(taken >= 1 && taken <= 50, "the handler has counted %d", (int)taken);
}

static volatile int stopped;

/* A task that ends the thread which may be calling it. */
static int stop(MPIX_Async_thing thing)
{
    (void)thing;
    if (syscall(SYS_gettid) == main_thread)
        return MPIX_ASYNC_NOPROGRESS;
    OK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL));
    stopped = 1;
    return MPIX_ASYNC_DONE;
}

int main(int argc, char **argv)
{
    int for_a_while = argc > 1 && strcmp(argv[1], "for-a-while") == 0, single = argc > 1 && strcmp(argv[1], "single") == 0;
    int asked = for_a_while ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED, level;
    main_thread = syscall(SYS_gettid);
    check_threads(1);
    OK(MPI_Init_thread(&argc, &argv, asked, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(level == asked, "level %d", level);
    OK(MPI_Query_thread(&level));
    CHECK(level == asked, "level %d", level);
    MPI_Op sum;
    OK(MPI_Op_create(add, 1, &sum));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    if (single) {
        FAILS(MPI_ERR_OTHER, MPIX_Start_progress_thread(MPIX_STREAM_NULL));
        OK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL));
    } else if (for_a_while) {
        FAILS(MPI_ERR_ARG, MPIX_Start_progress_thread(17));
        FAILS(MPI_ERR_ARG, MPIX_Stop_progress_thread(17));
        FAILS(MPI_ERR_ARG, MPIX_Stream_progress(17));
        OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
        message(1, 0);
        collective(COUNT, MPI_SUM, 0);
        window(0);
        for (int turn = 0; turn < 2; turn++)
            OK(MPIX_Start_progress_thread(MPIX_STREAM_NULL));
        check_threads(2);
        message(0, 1);
        OK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL));
        check_threads(1);
        message(0, 0);
        OK(MPIX_Start_progress_thread(MPIX_STREAM_NULL));
        OK(MPIX_Async_start(stop, NULL, MPIX_STREAM_NULL));
        while (!stopped)
            ;
        check_threads(1);
        OK(MPIX_Start_progress_thread(MPIX_STREAM_NULL));
        check_threads(2);
    } else {
        check_threads(2);
        signals();
        message(0, 1);
        message(1, 1);
        collective(COUNT, MPI_SUM, 1);
        for (int count = 100; count <= COUNT; count += COUNT - 100) {
            elsewhere = 0;
            collective(count, sum, 1);
            CHECK(my_rank == 0 || elsewhere > 0, "%d: the operation ran in the program's thread", count);
        }
        window(1);
        together(sum);
    }
    OK(MPI_Comm_free(&other));
    OK(MPI_Op_free(&sum));
    OK(MPI_Finalize());
    check_threads(1);
    return 0;
}

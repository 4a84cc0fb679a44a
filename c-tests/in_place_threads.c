/* Claim: threads that reduce in place, each on a communicator of its own, get the sums of their own operands, however many bytes
 * those are: no thread's operand is overwritten while another one of its process shows something. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, LOOPS = 200, MOST = 8000 };

static MPI_Comm comms[THREADS];

static void look(const char *call, int thread, int loop, int i, int got, int expected)
{
    CHECK(got == expected, "%s, thread %d, loop %d, element %d: %d, not %d", call, thread, loop, i, got, expected);
}

/* Element i of this rank, and of ranks 0 to n - 1 together. */
static int element(int thread, int loop, int rank, int i)
{
    return (thread + 1) * 1000000 + loop * 1000 + rank + i;
}

static int sum(int thread, int loop, int n, int i)
{
    return n * element(thread, loop, 0, i) + n * (n - 1) / 2;
}

static void *reduce(void *which)
{
    int thread = *(int *)which, buffer[MOST];
    MPI_Comm comm = comms[thread];
    for (int loop = 0; loop < LOOPS; loop++)
        for (int what = 0; what < 3; what++) {
            int count = (int[]){100, 342, 1044, MOST}[(loop + what) % 4], root = loop % n_ranks;
            for (int i = 0; i < count; i++)
                buffer[i] = element(thread, loop, my_rank, i);
            int n = what == 1 ? my_rank + 1 : n_ranks;
            if (what == 0) OK(MPI_Allreduce(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, comm));
            if (what == 1) OK(MPI_Scan(MPI_IN_PLACE, buffer, count, MPI_INT, MPI_SUM, comm));
            if (what == 2) {
                OK(MPI_Reduce(my_rank == root ? MPI_IN_PLACE : buffer, buffer, count, MPI_INT, MPI_SUM, root, comm));
                if (my_rank != root) continue;
            }
            for (int i = 0; i < count; i++)
                look((const char *[]){"MPI_Allreduce", "MPI_Scan", "MPI_Reduce"}[what], thread, loop, i, buffer[i],
                     sum(thread, loop, n, i));
        }
    return NULL;
}

int main(int argc, char **argv)
{
    int level, numbers[THREADS];
    pthread_t threads[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    for (int t = 0; t < THREADS; t++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        if (pthread_create(&threads[t], NULL, reduce, &numbers[t])) return 1;
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++)
        OK(MPI_Comm_free(&comms[t]));
    return finish();
}

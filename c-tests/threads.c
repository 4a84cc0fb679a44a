/* Claim: with MPI_THREAD_MULTIPLE four threads a rank, or as many as the argument says (an even number), may send,
 * receive, probe and wait at once: every message reaches the thread it is for, in order, whole, through tags and
 * through communicators. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 400, LARGEST = 40000 };
static MPI_Comm *twins;

static int size_of(int i) { return i % 50 == 7 ? LARGEST : i % 7 == 3 ? 3000 : 8 + i % 40; }

/* Everybody's thread `id` exchanges with everybody's thread `id`, by tag or by its own communicator. */
static void *storm(void *argument)
{
    int id = (int)(intptr_t)argument, tag = id % 2 ? id : 0;
    MPI_Comm comm = id % 2 ? MPI_COMM_WORLD : twins[id];
    unsigned char *out = need(LARGEST), *in = need((size_t)LARGEST * n_ranks);
    MPI_Request *requests = need(2 * n_ranks * sizeof *requests);
    MPI_Status status;
    for (int i = 0; i < ROUNDS; i++) {
        int size = size_of(i), n = 0;
        fill(out, size, i * 31 + id * 7 + my_rank);
        for (int r = 0; r < n_ranks && i % 3; r++)
            OK(MPI_Irecv(in + (size_t)r * LARGEST, LARGEST, MPI_BYTE, r, tag, comm, &requests[n++]));
        for (int r = 0; r < n_ranks; r++)
            OK(MPI_Isend(out, size, MPI_BYTE, r, tag, comm, &requests[n++]));
        for (int r = 0; r < n_ranks && i % 3 == 0; r++) {
            MPI_Message message;
            OK(MPI_Mprobe(r, tag, comm, &message, &status));
            OK(MPI_Mrecv(in + (size_t)r * LARGEST, LARGEST, MPI_BYTE, &message, &status));
            CHECK_STATUS(status, r, tag, MPI_BYTE, size);
        }
        if (i % 5 == 0) {
            int flag = 0;
            while (!flag)
                OK(MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE));
        } else {
            OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        }
        for (int r = 0; r < n_ranks; r++)
            CHECK_BYTES(in + (size_t)r * LARGEST, size, i * 31 + id * 7 + r);
    }
    /* Threads of one rank wait for each other through MPI: a blocked one must not stop the others. */
    int token = id, got = -1;
    if (id % 2) {
        OK(MPI_Recv(&got, 1, MPI_INT, my_rank, 100 + id, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == id - 1, "thread %d got the token of %d", id, got);
    } else {
        usleep(20000);
        OK(MPI_Ssend(&token, 1, MPI_INT, my_rank, 100 + id + 1, MPI_COMM_WORLD));
    }
    /* And each has its own communicator for collectives. */
    for (int i = 0; i < 50; i++) {
        int sum = 0, mine = my_rank + id;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, twins[id]));
        CHECK(sum == n_ranks * (n_ranks - 1) / 2 + id * n_ranks, "thread %d sum %d", id, sum);
    }
    free(out);
    free(in);
    free(requests);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, is_main;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE, "provided %d", provided);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    OK(MPI_Is_thread_main(&is_main));
    CHECK(is_main, "this is the main thread");
    int n_threads = argc > 1 ? atoi(argv[1]) : 4;
    pthread_t *threads = need(n_threads * sizeof *threads);
    twins = need(n_threads * sizeof *twins);
    for (int i = 0; i < n_threads; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &twins[i]));
    for (intptr_t i = 0; i < n_threads; i++)
        CHECK(pthread_create(&threads[i], NULL, storm, (void *)i) == 0, "pthread_create");
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < n_threads; i++)
        OK(MPI_Comm_free(&twins[i]));
    free(threads);
    free(twins);
    return finish();
}

/* Claim: a datatype that is freed while an operation of the program, in another thread, combines elements of it stays what it is until
 * that returns (MPI-4.1 5.1.9). */
#include "check.h"
#include <pthread.h>

static _Atomic int running, freed;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size = -1, *x = in, *y = inout;
    running = 1;
    for (int wait = 0; !freed && wait < 2000; wait++)
        usleep(1000);
    OK(MPI_Type_size(*type, &size));
    CHECK(size == 8, "%d", size);
    for (int i = 0; i < 2 * *count; i++)
        y[i] += x[i];
}

/* Has the reduction go on until rank 1 - my_rank is done with it. */
static void *wait_for_a_word(void *word)
{
    OK(MPI_Recv(word, 1, MPI_INT, 1 - my_rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return NULL;
}

int main(int argc, char **argv)
{
    int level, word = 0, pair[2] = {1, 2}, sum[2];
    pthread_t other;
    MPI_Datatype ints;
    MPI_Op op;
    MPI_Request request;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Type_contiguous(2, MPI_INT, &ints));
    OK(MPI_Type_commit(&ints));
    OK(MPI_Op_create(add, 1, &op));
    pthread_create(&other, NULL, wait_for_a_word, &word);
    OK(MPI_Iallreduce(pair, sum, 1, ints, op, MPI_COMM_WORLD, &request));
    for (int wait = 0; !running && wait < 300; wait++) /* some ranks may have nothing to combine */
        usleep(1000);
    OK(MPI_Type_free(&ints));
    OK(MPI_Op_free(&op));
    freed = 1;
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(sum[0] == 2 && sum[1] == 4, "%d %d", sum[0], sum[1]);
    OK(MPI_Send(pair, 1, MPI_INT, 1 - my_rank, 7, MPI_COMM_WORLD));
    pthread_join(other, NULL);
    return finish();
}

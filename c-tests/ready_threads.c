/* Claim: a partition that is ready leaves although the threads of its rank that are in MPI sleep: one in MPI_Recv, for something that comes
 * last, looks for messages and sends what is held, as if it were awake. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 10, PARTITIONS = 4, LAST = 99 };

static void *other(void *nothing)
{
    int value;
    OK(MPI_Recv(&value, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return nothing;
}

int main(int argc, char **argv)
{
    int level, value = 0;
    double data[PARTITIONS] = {0}, late = 0;
    pthread_t thread;
    MPI_Request request;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    if (my_rank == 0) {
        if (pthread_create(&thread, NULL, other, NULL)) return 1;
        OK(MPI_Psend_init(data, PARTITIONS, 1, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    } else OK(MPI_Precv_init(data, PARTITIONS, 1, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        OK(MPI_Start(&request));
        if (my_rank == 0) {
            usleep(20000 + round * 7000); /* the other thread sleeps, and wakes ten times a second */
            data[0] = MPI_Wtime();
            OK(MPI_Pready(0, request));
            usleep(120000);
            OK(MPI_Pready_range(1, PARTITIONS - 1, request));
        } else {
            for (int flag = 0; !flag; usleep(flag ? 0 : 200))
                OK(MPI_Parrived(request, 0, &flag));
            late += MPI_Wtime() - data[0]; /* one clock for all */
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK(late < ROUNDS * 0.02, "a partition came %.0f ms late", late / ROUNDS * 1e3);
    if (my_rank == 1) OK(MPI_Send(&value, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD));
    else pthread_join(thread, NULL);
    OK(MPI_Request_free(&request));
    return finish();
}

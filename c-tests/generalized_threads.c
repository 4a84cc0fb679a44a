/* Claim: a generalized request that one thread cancels, and completes from its cancel function, is waited for by another one as if it
 * were alone: query and free functions are called once, though the cancel function still runs (MPI-4.1 §13.2). */
#include "check.h"
#include <pthread.h>

static MPI_Request request;
static volatile int queried, freed, cancelling;

static int query(void *state, MPI_Status *status)
{
    (void)state;
    queried++;
    status->MPI_SOURCE = 3;
    OK(MPI_Status_set_elements(status, MPI_BYTE, 7));
    OK(MPI_Status_set_cancelled(status, 1));
    return MPI_SUCCESS;
}

static int release(void *state)
{
    (void)state;
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *state, int complete)
{
    (void)state;
    CHECK(!complete, "complete before it has been cancelled");
    cancelling = 1;
    OK(MPI_Grequest_complete(request));
    usleep(100000);
    cancelling = 0;
    return MPI_SUCCESS;
}

static void *other(void *nothing)
{
    MPI_Request mine = request;
    usleep(20000); /* until the main thread waits */
    OK(MPI_Cancel(&mine));
    return nothing;
}

int main(int argc, char **argv)
{
    int level, cancelled, count;
    pthread_t thread;
    MPI_Status status;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Grequest_start(query, release, cancel, NULL, &request));
    if (pthread_create(&thread, NULL, other, NULL)) return 1;
    MPI_Request mine = request;
    OK(MPI_Wait(&mine, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(queried == 1 && freed == 1, "queried %d times, freed %d times", queried, freed);
    CHECK(status.MPI_SOURCE == 3 && count == 7 && cancelled, "source %d, %d bytes, cancelled %d", status.MPI_SOURCE, count, cancelled);
    pthread_join(thread, NULL);
    CHECK(freed == 1 && !cancelling, "freed %d times", freed);
    return finish();
}

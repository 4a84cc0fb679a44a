/* Claim: with MPI_THREAD_MULTIPLE a thread's broadcast on one communicator ends though another communicator's readers have
 * not come yet, and never do unless it ends: a root whose long broadcast waits for them has room left for others. */
#include "check.h"
#include <pthread.h>

enum { SHORT = 20000, LONG = 4 << 20, OTHERS = 5 };
static MPI_Comm comms[OTHERS + 1];
static unsigned char *data[OTHERS + 1];

static int size_of(int i) { return i ? SHORT : LONG; }

static void *root(void *argument)
{
    int i = (int)(intptr_t)argument;
    if (i)
        usleep(100000); /* Mostly the long one has taken all the room by now. */
    OK(MPI_Bcast(data[i], size_of(i), MPI_BYTE, 0, comms[i]));
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t threads[OTHERS + 1];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    CHECK(level == MPI_THREAD_MULTIPLE, "level %d", level);
    for (int i = 0; i <= OTHERS; i++) {
        data[i] = need(size_of(i));
        if (my_rank == 0)
            fill(data[i], size_of(i), i);
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    if (my_rank == 0) {
        for (int i = 0; i <= OTHERS; i++)
            CHECK(!pthread_create(&threads[i], NULL, root, (void *)(intptr_t)i), "thread %d", i);
        for (int i = 0; i <= OTHERS; i++)
            pthread_join(threads[i], NULL);
    } else {
        for (int i = OTHERS; i >= 0; i--) { /* The long one last. */
            OK(MPI_Bcast(data[i], size_of(i), MPI_BYTE, 0, comms[i]));
            CHECK_BYTES(data[i], size_of(i), i);
        }
    }
    for (int i = 0; i <= OTHERS; i++) {
        OK(MPI_Comm_free(&comms[i]));
        free(data[i]);
    }
    return finish();
}

/* Claim: a program that looks again and again at its own window, by whichever synchronization, takes part in everything else that is
 * under way meanwhile: a message of which the other rank needs to be rid of before it says so in the window (MPI-4.1 §12.7.3). */
#include "check.h"

enum { LEN = 8 << 20 };
enum { LOCK, ALL, FENCE, SELF, WAYS };

/* The word of this rank's own window. */
static int look(int way, MPI_Win win, MPI_Win own, MPI_Group self, const int *word)
{
    int value = 0;
    switch (way) {
    case LOCK:
        OK(MPI_Win_lock(MPI_LOCK_SHARED, my_rank, 0, win));
        value = *word;
        OK(MPI_Win_unlock(my_rank, win));
        return value;
    case ALL:
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Get(&value, 1, MPI_INT, my_rank, 0, 1, MPI_INT, win));
        OK(MPI_Win_unlock_all(win));
        return value;
    case FENCE:
        OK(MPI_Win_fence(0, own));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, own));
        break;
    default:
        OK(MPI_Win_post(self, 0, own));
        OK(MPI_Win_start(self, 0, own));
        OK(MPI_Win_complete(own));
        OK(MPI_Win_wait(own));
    }
    return *(const volatile int *)word; /* without MPI_Win_sync, which may serve others too */
}

int main(int argc, char **argv)
{
    int one = 1, *word;
    MPI_Win win, own;
    MPI_Group group;
    MPI_Request request;
    start(&argc, &argv);
    char *buffer = calloc(1, LEN);
    OK(MPI_Win_allocate(sizeof *word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &win));
    OK(MPI_Win_create(&one, sizeof one, 1, MPI_INFO_NULL, MPI_COMM_SELF, &own));
    OK(MPI_Win_get_group(own, &group));
    for (int way = LOCK; way < WAYS; way++) {
        *word = 0;
        if (my_rank == 0)
            OK(MPI_Irecv(buffer, LEN, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank == 1) {
            OK(MPI_Send(buffer, LEN, MPI_CHAR, 0, 0, MPI_COMM_WORLD));
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            OK(MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
            OK(MPI_Win_unlock(0, win));
        } else {
            double began = MPI_Wtime();
            while (!look(way, win, own, group, word))
                CHECK(MPI_Wtime() - began < 5, "way %d: nothing moves", way);
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Group_free(&group));
    OK(MPI_Win_free(&own));
    OK(MPI_Win_free(&win));
    free(buffer);
    return finish();
}

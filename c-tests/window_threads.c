/* Claim: a thread that waits in a window's synchronization hears of what it waits for as soon as it comes, though another thread
 * of its process is in MPI_Recv for something that comes last and both have fallen asleep. */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 10, LAST = 99 };

static void *other(void *nothing)
{
    int value;
    OK(MPI_Recv(&value, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return nothing;
}

static void meet(void)
{
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, !my_rank, 1, NULL, 0, MPI_INT, !my_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void compute(int milliseconds)
{
    usleep(milliseconds * 1000);
}

int main(int argc, char **argv)
{
    int level, value = 0;
    pthread_t thread;
    MPI_Win win;
    MPI_Group all, peer;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &(int){!my_rank}, &peer));
    const char *names[] = {"MPI_Win_start", "MPI_Win_wait", "MPI_Win_lock"};
    for (int what = 0; what < 3; what++) {
        double took = 0;
        if (my_rank == 0 && pthread_create(&thread, NULL, other, NULL)) return 1;
        compute(5); /* The other thread shall be the one that polls. */
        for (int i = 0; i < ROUNDS; i++) {
            if (what == 2 && my_rank == 1) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            meet();
            if (my_rank == 1) compute(5); /* Long enough to fall asleep in. */
            double began = MPI_Wtime();
            if (what == 2) {
                if (my_rank == 0) OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
                OK(MPI_Win_unlock(0, win));
            } else if (what == my_rank) {
                OK(MPI_Win_start(peer, 0, win));
                if (my_rank == 1) OK(MPI_Put(&i, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
                OK(MPI_Win_complete(win));
            } else {
                OK(MPI_Win_post(peer, 0, win));
                OK(MPI_Win_wait(win));
                if (my_rank == 0) CHECK(value == i, "%d put in round %d", value, i);
            }
            took += MPI_Wtime() - began;
            if (my_rank == 1) compute(120); /* No message shall wake anybody. */
            meet();
        }
        /* A thread that nobody tells looks ten times a second. */
        CHECK(took < ROUNDS * 0.05, "%s took %.0f ms", names[what], took / ROUNDS * 1e3);
        if (my_rank == 1) OK(MPI_Send(&value, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD));
        else pthread_join(thread, NULL);
    }
    OK(MPI_Group_free(&peer));
    OK(MPI_Group_free(&all));
    OK(MPI_Win_free(&win));
    return finish();
}

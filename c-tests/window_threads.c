/* Claim: a thread that waits in a window's synchronization hears of what it waits for as soon as it comes, though another thread
 * of its process is in MPI_Recv for something that comes last and both have fallen asleep; so it does if it comes from another thread
 * of its own process; and with "often" so it does whenever it comes, be it while the other thread falls asleep. */
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

/* Another thread of the same process exposes the memory, 5 ms after this one waits for it, and waits as long for this one. */
static MPI_Win own_win;
static MPI_Group own;
static double said, was_late;

static void heard(void)
{
    was_late += MPI_Wtime() - said;
}

static void *expose(void *nothing)
{
    compute(5);
    said = MPI_Wtime();
    OK(MPI_Win_post(own, 0, own_win));
    OK(MPI_Win_wait(own_win));
    heard();
    return nothing;
}

static void with_itself(void)
{
    pthread_t thread;
    for (int i = 0; i < ROUNDS; i++) {
        if (pthread_create(&thread, NULL, expose, NULL)) exit(1);
        OK(MPI_Win_start(own, 0, own_win));
        heard();
        compute(5);
        said = MPI_Wtime();
        OK(MPI_Win_complete(own_win));
        pthread_join(thread, NULL);
    }
    CHECK(was_late < ROUNDS * 0.05, "an epoch with itself came %.0f ms late", was_late / ROUNDS * 1e3);
}

/* Rank 1 posts at some time, in most rounds before the other rank's threads sleep. */
static void often(MPI_Win win, MPI_Group peer)
{
    enum { STARTS = 2000, LATE = 5 };
    unsigned some = 7, late = 0;
    pthread_t thread;
    if (my_rank == 0 && pthread_create(&thread, NULL, other, NULL)) exit(1);
    for (int i = 0; i < STARTS; i++) {
        double began = MPI_Wtime();
        some = some * 1103515245 + 12345;
        if (my_rank == 0) {
            OK(MPI_Win_start(peer, 0, win));
            late += MPI_Wtime() - began > 0.05;
            OK(MPI_Win_complete(win));
            continue;
        }
        while (MPI_Wtime() - began < (some >> 8 & 0xff) * 1e-6) {}
        OK(MPI_Win_post(peer, 0, win));
        OK(MPI_Win_wait(win));
    }
    CHECK(late < LATE, "%u of %d starts took more than 50 ms", late, STARTS);
    if (my_rank == 1) {
        compute(120);
        OK(MPI_Send(&late, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD));
    } else pthread_join(thread, NULL);
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
    if (argc > 1) {
        often(win, peer);
        OK(MPI_Win_free(&win));
        return finish();
    }
    own_win = win;
    OK(MPI_Group_incl(all, 1, &my_rank, &own));
    with_itself();
    OK(MPI_Group_free(&own));
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

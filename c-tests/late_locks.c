/* Claim: under MPI_Win_lock_all a member is locked once, whichever threads access it first, and an access to a member that others
 * share goes on although somebody waits to have it alone. Ranks that disagree about alloc_shared_noncontig get a window in a row;
 * memory of no length is attached wherever and however often; what is combined has to be of one predefined type. */
#include "check.h"
#include <pthread.h>

static MPI_Win window;
static int *words;

static void *add(void *one)
{
    OK(MPI_Accumulate(one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window));
    return NULL;
}

/* Rank 0 has its own memory alone when two threads of rank 1 come. */
static void two_threads(void)
{
    int one = 1;
    if (my_rank == 0)
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 1) {
        pthread_t other;
        OK(MPI_Win_lock_all(0, window));
        pthread_create(&other, NULL, add, &one);
        add(&one);
        pthread_join(other, NULL);
        OK(MPI_Win_unlock_all(window));
    } else if (my_rank == 0) {
        usleep(100000);
        OK(MPI_Win_unlock(0, window));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        CHECK(words[0] == 2, "%d", words[0]);
        OK(MPI_Win_unlock(0, window));
    }
}

/* Rank 0 shares rank 3 until rank 1 has accessed it, too, for which rank 2 does not wait. */
static void beside_a_writer(void)
{
    int one = 1;
    if (my_rank < 2)
        OK(MPI_Win_lock_all(0, window));
    if (my_rank == 0) {
        OK(MPI_Put(&one, 1, MPI_INT, 3, 0, 1, MPI_INT, window));
        OK(MPI_Win_flush_all(window));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0)
        OK(MPI_Recv(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (my_rank == 1) {
        usleep(100000);
        OK(MPI_Put(&one, 1, MPI_INT, 3, 1, 1, MPI_INT, window));
        OK(MPI_Win_flush_all(window));
        OK(MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    }
    if (my_rank < 2)
        OK(MPI_Win_unlock_all(window));
    if (my_rank == 2) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 3, 0, window));
        OK(MPI_Put(&one, 1, MPI_INT, 3, 2, 1, MPI_INT, window));
        OK(MPI_Win_unlock(3, window));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 3)
        CHECK(words[0] && words[1] && words[2], "%d %d %d", words[0], words[1], words[2]);
}

static void in_a_row(void)
{
    MPI_Info info;
    MPI_Win shared;
    MPI_Aint size;
    char *own, *first;
    int unit;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "alloc_shared_noncontig", my_rank ? "false" : "true"));
    OK(MPI_Win_allocate_shared(100, 1, info, MPI_COMM_WORLD, &own, &shared));
    OK(MPI_Win_shared_query(shared, 0, &size, &unit, &first));
    CHECK(own == first + 100 * my_rank && size == 100, "%td bytes behind the first", own - first);
    OK(MPI_Win_free(&shared));
    OK(MPI_Info_free(&info));
}

static void arguments(void)
{
    static char memory[200];
    int ints[2] = {1, 1};
    MPI_Win dynamic;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &dynamic));
    for (int again = 0; again < 2; again++) {
        OK(MPI_Win_attach(dynamic, NULL, 0));
        OK(MPI_Win_attach(dynamic, memory, 0));
    }
    OK(MPI_Win_attach(dynamic, memory, 200));
    OK(MPI_Win_attach(dynamic, memory + 50, 0));
    OK(MPI_Win_free(&dynamic));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    OK(MPI_Win_fence(0, window));
    FAILS(MPI_ERR_TYPE, MPI_Accumulate(ints, 2, MPI_INT, my_rank, 0, 1, MPI_DOUBLE, MPI_SUM, window));
    OK(MPI_Win_fence(0, window));
}

int main(int argc, char **argv)
{
    int level;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    OK(MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &words, &window));
    memset(words, 0, 4 * sizeof(int));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    two_threads();
    OK(MPI_Barrier(MPI_COMM_WORLD));
    beside_a_writer();
    in_a_row();
    arguments();
    OK(MPI_Win_free(&window));
    return finish();
}

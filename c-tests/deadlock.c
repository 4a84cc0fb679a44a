/* Claim: a job whose ranks wait for each other is ended with code 86 (nearmpi) by a report that says who waits for
 * whom and names the cycle. Which deadlock: the argument. Above each, what the report must say. A second argument:
 * `messages`: see below; `threads`: with MPI_THREAD_MULTIPLE, which is no reason to think that somebody else may come;
 * `company`: and each rank has a second thread, so that it is one. */
#include "check.h"
#include <pthread.h>

static char big[8 << 20], other[8 << 20];

/* A thread that does not come to MPI before the report is written, and then ends the job. */
static void *late(void *nothing)
{
    sleep(8);
    MPI_Abort(MPI_COMM_WORLD, 3);
    return nothing;
}

int main(int argc, char **argv)
{
    int value = 0, next, previous;
    const char *how = argc > 1 ? argv[1] : "", *what = argc > 2 ? argv[2] : "";
    if (!strcmp(what, "messages")) setenv("NEARMPI_BOARD_RANKS", "0", 1); /* their receivers sleep without a word of the call */
    if (!strcmp(what, "threads") || !strcmp(what, "company")) {
        OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &value));
        CHECK(value == MPI_THREAD_MULTIPLE, "level %d", value);
        OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
        OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    } else
        start(&argc, &argv);
    pthread_t thread;
    if (!strcmp(what, "company")) CHECK(!pthread_create(&thread, NULL, late, NULL), "no thread");
    next = (my_rank + 1) % n_ranks;
    previous = (my_rank + n_ranks - 1) % n_ranks;
    if (!strcmp(how, "send-send")) { /* both send first, too much to be kept */
        OK(MPI_Send(big, sizeof big, MPI_CHAR, next, 3, MPI_COMM_WORLD));
        OK(MPI_Recv(other, sizeof other, MPI_CHAR, previous, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (!strcmp(how, "recv-recv")) { /* a ring in which everybody receives first */
        OK(MPI_Recv(&value, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(&value, 1, MPI_INT, next, 7, MPI_COMM_WORLD));
    } else if (!strcmp(how, "partitions")) { /* one of four is ready, and the sender waits for an answer to all */
        MPI_Request request;
        if (my_rank == 0)
            OK(MPI_Psend_init(big, 4, 16, MPI_CHAR, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        else
            OK(MPI_Precv_init(big, 4, 16, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        if (my_rank == 0) {
            OK(MPI_Pready(2, request));
            OK(MPI_Recv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (!strcmp(how, "tag")) { /* the message has another tag than the receive */
        MPI_Comm named;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &named));
        OK(MPI_Comm_set_name(named, "ocean"));
        if (my_rank == 0) {
            OK(MPI_Send(&value, 1, MPI_INT, 1, 8, named));
            OK(MPI_Recv(&value, 1, MPI_INT, 1, 9, named, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(&value, 1, MPI_INT, 0, 7, named, MPI_STATUS_IGNORE));
            OK(MPI_Send(&value, 1, MPI_INT, 0, 9, named));
        }
    } else if (!strcmp(how, "collective")) { /* the root gathers, the others wait for its broadcast */
        int all[64];
        if (my_rank == 0)
            OK(MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD));
        else
            OK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    } else if (!strcmp(how, "probe")) { /* a probe for what nobody sends, beside a receive that does not count */
        MPI_Request request;
        OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Probe(next, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (!strcmp(how, "lock")) { /* who has the lock waits for the one that wants it */
        MPI_Win win;
        OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        if (my_rank == 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank == 0)
            OK(MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        else
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
    } else if (!strcmp(how, "start") || !strcmp(how, "exposure")) { /* nobody posts; or the one who shall end an access waits for the other */
        MPI_Win win;
        MPI_Group all, other;
        OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_get_group(win, &all));
        OK(MPI_Group_incl(all, 1, &next, &other));
        if (!strcmp(how, "exposure") && my_rank == 1) {
            OK(MPI_Win_post(other, 0, win));
            OK(MPI_Win_wait(win));
        }
        OK(MPI_Win_start(other, 0, win));
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else if (!strcmp(how, "finished")) { /* one waits for a rank that is through */
        if (my_rank == 0)
            OK(MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    return finish();
}

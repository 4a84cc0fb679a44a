/* Claim: MPI calls the poll function of a generalized request until the request is over, also while it waits for it and
 * whatever else it waits for; the wait function is called by MPI_Wait; asynchronous tasks run until they are done and may
 * spawn others; a call-back that cancels may end the request, and what is freed before its end is ended all the same; an
 * error handler with a pointer of the program gets it, and its end is told once. MPICH's extensions. */
#include "check.h"

struct work {
    int polls, needed, queried, freed;
    MPI_Request request;
};

static int query(void *state, MPI_Status *status)
{
    ((struct work *)state)->queried++;
    status->MPI_SOURCE = 77;
    MPI_Status_set_elements(status, MPI_BYTE, 5);
    return MPI_SUCCESS;
}
static int release(void *state) { return ((struct work *)state)->freed++, MPI_SUCCESS; }
static int cancel(void *state, int complete) { return (void)state, (void)complete, MPI_SUCCESS; }
static int poll(void *state, MPI_Status *status)
{
    struct work *work = state;
    (void)status;
    if (++work->polls == work->needed)
        OK(MPI_Grequest_complete(work->request));
    return MPI_SUCCESS;
}
static int wait(int count, void **states, double timeout, MPI_Status *status)
{
    (void)timeout;
    for (int i = 0; i < count; i++)
        for (struct work *work = states[i]; work->polls < work->needed;)
            poll(work, status);
    return MPI_SUCCESS;
}

static void requests(MPIX_Grequest_wait_function *first)
{
    struct work work = {.needed = 50};
    MPI_Status status;
    OK(MPIX_Grequest_start(query, release, cancel, poll, first, &work, &work.request));
    MPI_Request request = work.request;
    OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL && work.polls == 50 && work.queried == 1 && work.freed == 1, "%d polls", work.polls);
    CHECK_STATUS(status, 77, status.MPI_TAG, MPI_BYTE, 5);

    MPIX_Grequest_class class;
    OK(MPIX_Grequest_class_create(query, release, cancel, poll, wait, &class));
    struct work several[3] = {{.needed = 3}, {.needed = 30}, {.needed = 300}};
    MPI_Request all[4];
    for (int i = 0; i < 3; i++) {
        OK(MPIX_Grequest_class_allocate(class, &several[i], &several[i].request));
        all[i] = several[i].request;
    }
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &all[3]));
    OK(MPI_Waitall(4, all, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++)
        CHECK(several[i].polls == several[i].needed && several[i].freed == 1, "%d: %d polls", i, several[i].polls);

    int flag = 0;
    work = (struct work){.needed = 20};
    OK(MPIX_Grequest_start(query, release, cancel, poll, wait, &work, &work.request));
    for (request = work.request; !flag;)
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(work.freed == 1, "freed %d times", work.freed);
}

/* Ends the request where it is cancelled. */
static int ends(void *state, int complete)
{
    struct work *work = state;
    return complete ? MPI_SUCCESS : MPI_Grequest_complete(work->request);
}
static int was_cancelled(void *state, MPI_Status *status)
{
    query(state, status);
    MPI_Status_set_cancelled(status, 1);
    return MPI_SUCCESS;
}

static void ended_early(void)
{
    struct work work = {0};
    MPI_Status status;
    int flag;
    OK(MPI_Grequest_start(was_cancelled, release, ends, &work, &work.request));
    OK(MPI_Cancel(&work.request));
    OK(MPI_Wait(&work.request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag && work.queried == 1 && work.freed == 1, "%d, asked %d times, freed %d", flag, work.queried, work.freed);

    work = (struct work){0};
    OK(MPI_Grequest_start(query, release, cancel, &work, &work.request));
    MPI_Request copy = work.request;
    OK(MPI_Request_free(&work.request));
    CHECK(work.freed == 0, "freed before its end");
    OK(MPI_Grequest_complete(copy));
    CHECK(work.freed == 1 && work.queried == 0, "freed %d times, asked %d", work.freed, work.queried);
}

static int ran, spawned;
static int second(MPIX_Async_thing thing)
{
    return *(int *)MPIX_Async_get_state(thing) -= 1, *(int *)MPIX_Async_get_state(thing) ? MPIX_ASYNC_NOPROGRESS : MPIX_ASYNC_DONE;
}
static int first(MPIX_Async_thing thing)
{
    int *left = MPIX_Async_get_state(thing);
    ran++;
    if (--*left > 0)
        return MPIX_ASYNC_NOPROGRESS;
    MPIX_Async_spawn(thing, second, &spawned, MPIX_STREAM_NULL);
    return MPIX_ASYNC_DONE;
}

static void tasks(void)
{
    int left = 10;
    spawned = 4;
    OK(MPIX_Async_start(first, &left, MPIX_STREAM_NULL));
    while (spawned > 0) {
        int flag;
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
    CHECK(ran == 10 && left == 0, "%d calls", ran);
}

static int seen_class, seen_state, gone;
static void handler(MPI_Comm comm, int code, void *state)
{
    CHECK(comm == MPI_COMM_SELF, "handle %x", comm);
    MPI_Error_class(code, &seen_class);
    seen_state = *(int *)state;
}
static void of_files(MPI_File file, int code, void *state)
{
    CHECK(file == MPI_FILE_NULL, "file %p", (void *)file);
    MPI_Error_class(code, &seen_class);
    seen_state = *(int *)state;
}
static void destructor(void *state) { gone += *(int *)state; }

static void handlers(void)
{
    int state = 5;
    MPI_Errhandler mine;
    OK(MPIX_Comm_create_errhandler_x(handler, destructor, &state, &mine));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
    OK(MPI_Errhandler_free(&mine));
    (void)MPI_Send(&state, 1, MPI_INT, 0, -3, MPI_COMM_SELF); /* MPICH 5.0.2 returns 0 here. */
    CHECK(seen_class == MPI_ERR_TAG && seen_state == 5 && gone == 0, "class %d, state %d, gone %d", seen_class, seen_state, gone);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(gone == 5, "told %d times", gone / 5);

    MPI_File file;
    state = 6;
    OK(MPIX_File_create_errhandler_x(of_files, destructor, &state, &mine));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    OK(MPI_Errhandler_free(&mine));
    (void)MPI_File_open(MPI_COMM_SELF, "/nowhere/at all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK(seen_class == MPI_ERR_NO_SUCH_FILE && seen_state == 6 && gone == 5, "class %d, state %d, gone %d", seen_class, seen_state, gone);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK(gone == 11, "told %d", gone);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    requests(argc > 1 ? NULL : wait); /* MPICH 5.0.2 insists on both functions. */
    if (argc > 1 || n_ranks > 1) /* MPICH 5.0.2 makes no progress in a probe on one rank. */
        tasks();
    ended_early();
    handlers();
    return finish();
}

/* Claim: under `mpirun -keep-going` the death of a rank ends calls to it with MPIX_ERR_PROC_FAILED and nothing else;
 * what it sent before counts, and what was on its way to it takes no room any more; collectives fail at every survivor; revoked communicators end every call on them;
 * agreements and shrunk communicators are the same at all survivors, whoever dies meanwhile,
 * those of intercommunicators too, whose every collective call ends at every survivor. */
#include "check.h"
#include <signal.h>

static char big[1 << 20];

static void die(void)
{
    kill(getpid(), SIGKILL);
    pause();
}

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Rank 1 sends a message and dies; the others find out in every kind of call. */
static void one_dies(void)
{
    int value = 0, size, rank, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Group failed, world;
    MPI_Comm shrunk;
    if (my_rank == 1) {
        value = 77;
        if (n_ranks > 2)
            OK(MPI_Send(&value, 1, MPI_INT, 2, 4, MPI_COMM_WORLD));
        OK(MPI_Send(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD));
        die();
    }
    if (my_rank == 0) {
        /* A wait for the dead, blocking and not. */
        OK(MPI_Irecv(&flag, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request));
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Recv(big, sizeof big, MPI_CHAR, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL, "the request is kept");
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Probe(1, 6, MPI_COMM_WORLD, &status));
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Iprobe(1, 6, MPI_COMM_WORLD, &flag, &status));
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Send(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD));
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Ssend(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD));
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Send(big, sizeof big, MPI_CHAR, 1, 6, MPI_COMM_WORLD));
        /* What it had sent is there. */
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(value == 77, "value %d", value);
        /* Any source: an error until the death is acknowledged. */
        OK(MPI_Irecv(&flag, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &request));
        FAILS(MPIX_ERR_PROC_FAILED_PENDING, MPI_Wait(&request, &status));
        CHECK(request != MPI_REQUEST_NULL, "the request is gone");
        FAILS(MPIX_ERR_PROC_FAILED, MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &status));
        OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed));
        OK(MPI_Group_size(failed, &size));
        CHECK(size == 0, "%d acknowledged", size);
        OK(MPIX_Comm_failure_ack(MPI_COMM_WORLD));
        OK(MPIX_Comm_failure_get_acked(MPI_COMM_WORLD, &failed));
        OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        OK(MPI_Group_translate_ranks(failed, 1, &(int){0}, world, &rank));
        CHECK(rank == 1, "rank %d is dead", rank);
        if (n_ranks > 2) {
            OK(MPI_Send(&value, 1, MPI_INT, 2, 10, MPI_COMM_WORLD));
            OK(MPI_Wait(&request, &status));
            CHECK(status.MPI_SOURCE == 2 && flag == 5, "from %d: %d", status.MPI_SOURCE, flag);
        } else {
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
        }
    } else if (my_rank == 2) {
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&flag, 1, MPI_INT, 0, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        flag = 5;
        OK(MPI_Send(&flag, 1, MPI_INT, 0, 8, MPI_COMM_WORLD));
    }
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Bcast(big, sizeof big, MPI_CHAR, 0, MPI_COMM_WORLD));
    int code = MPI_Iallreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED, "code %d", code);
    OK(MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed));
    OK(MPI_Group_size(failed, &size));
    CHECK(size == 1, "%d are dead", size);
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &shrunk));
    OK(MPI_Comm_size(shrunk, &size));
    OK(MPI_Comm_rank(shrunk, &rank));
    CHECK(size == n_ranks - 1 && rank == (my_rank > 1 ? my_rank - 1 : my_rank), "rank %d of %d", rank, size);
    value = 1;
    OK(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, shrunk));
    CHECK(value == size, "%d of %d", value, size);
    OK(MPI_Comm_free(&shrunk));
}

/* A large message of the dead ends whole or with an error, never with other bytes, never not at all. */
static void dies_sending(void)
{
    MPI_Request request;
    if (my_rank == 1) {
        fill(big, sizeof big, 3);
        for (int i = 0; i < 8; i++)
            OK(MPI_Isend(big, sizeof big, MPI_CHAR, 0, i, MPI_COMM_WORLD, &request));
        die();
    }
    if (my_rank == 0)
        for (int i = 0; i < 8; i++) {
            memset(big, 0, sizeof big);
            int code = MPI_Recv(big, sizeof big, MPI_CHAR, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (code == MPI_SUCCESS)
                CHECK_BYTES(big, sizeof big, 3);
            else
                CHECK(class_of(code) == MPIX_ERR_PROC_FAILED, "code %d", code);
        }
}

/* Rank 1 dies with all that rank 0 has room for underway to it: rank 0 has that room again. */
static void dies_full(void)
{
    enum { MESSAGES = 60, BYTES = 20000 };
    MPI_Request requests[MESSAGES];
    MPI_Status statuses[MESSAGES];
    int pid = getpid(), failed = 0;
    if (my_rank == 1) {
        OK(MPI_Send(&pid, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        for (;;)
            pause();
    }
    if (my_rank == 0) {
        OK(MPI_Recv(&pid, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < MESSAGES; i++)
            OK(MPI_Isend(big + i * BYTES % (sizeof big - BYTES), BYTES, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &requests[i]));
        kill(pid, SIGKILL);
        int code = MPI_Waitall(MESSAGES, requests, statuses);
        CHECK(class_of(code) == MPI_ERR_IN_STATUS, "code %d", code);
        for (int i = 0; i < MESSAGES; i++) {
            failed += statuses[i].MPI_ERROR != MPI_SUCCESS;
            CHECK(statuses[i].MPI_ERROR == MPI_SUCCESS || class_of(statuses[i].MPI_ERROR) == MPIX_ERR_PROC_FAILED,
                  "message %d: code %d", i, statuses[i].MPI_ERROR);
        }
        CHECK(failed > 0, "there was room for all messages");
        fill(big, BYTES, 5);
        OK(MPI_Send(big, BYTES, MPI_CHAR, 2, 3, MPI_COMM_WORLD));
    } else if (my_rank == 2) {
        OK(MPI_Recv(big, BYTES, MPI_CHAR, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_BYTES(big, BYTES, 5);
    }
}

/* Rank 1 dies while it has the last rank's memory alone. */
static void locked(void)
{
    MPI_Win window;
    int *word;
    OK(MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    if (my_rank == 1)
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, n_ranks - 1, 0, window));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 1)
        die();
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Win_lock(MPI_LOCK_SHARED, n_ranks - 1, 0, window));
}

/* What was sent on a communicator that was revoked is never received on one that comes after it. */
static void forgotten(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    for (int turn = 0; turn < 300; turn++) {
        MPI_Comm comm, next;
        int old = -turn, new = turn, got = 7;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        if (my_rank == 0) {
            OK(MPI_Send(&old, 1, MPI_INT, 1, 3, comm));
            OK(MPIX_Comm_revoke(comm));
        }
        MPI_Barrier(comm); /* some are through with it before they hear */
        OK(MPIX_Comm_shrink(comm, &next));
        OK(MPI_Comm_free(&comm));
        OK(MPI_Comm_free(&next));
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &next));
        if (my_rank == 0)
            OK(MPI_Isend(&new, 1, MPI_INT, 1, 3, next, &request));
        if (my_rank == 1)
            OK(MPI_Recv(&got, 1, MPI_INT, 0, 3, next, MPI_STATUS_IGNORE));
        CHECK(my_rank != 1 || got == turn, "got %d, not %d", got, turn);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Comm_free(&next));
    }
}

/* The last rank revokes what the others wait on. */
static void revoked(void)
{
    MPI_Comm comm, shrunk;
    MPI_Message message;
    int value = 0, flag = -1, size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPIX_Comm_is_revoked(comm, &flag));
    CHECK(flag == 0, "revoked from the start");
    if (my_rank == n_ranks - 1) {
        usleep(20000);
        OK(MPIX_Comm_revoke(comm));
    } else if (my_rank % 2) {
        FAILS(MPIX_ERR_REVOKED, MPI_Recv(&value, 1, MPI_INT, n_ranks - 1, 0, comm, MPI_STATUS_IGNORE));
    } else {
        FAILS(MPIX_ERR_REVOKED, MPI_Send(big, sizeof big, MPI_CHAR, n_ranks - 1, 0, comm));
    }
    OK(MPIX_Comm_is_revoked(comm, &flag));
    CHECK(flag == 1, "not revoked");
    FAILS(MPIX_ERR_REVOKED, MPI_Iprobe(0, 99, comm, &flag, MPI_STATUS_IGNORE));
    FAILS(MPIX_ERR_REVOKED, MPI_Improbe(MPI_ANY_SOURCE, 99, comm, &flag, &message, MPI_STATUS_IGNORE));
    FAILS(MPIX_ERR_REVOKED, MPI_Barrier(comm));
    FAILS(MPIX_ERR_REVOKED, MPI_Send(&value, 1, MPI_INT, 0, 0, comm));
    OK(MPIX_Comm_shrink(comm, &shrunk));
    OK(MPI_Comm_size(shrunk, &size));
    CHECK(size == n_ranks, "%d ranks", size);
    OK(MPI_Barrier(shrunk));
    OK(MPI_Comm_free(&shrunk));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Ranks die one after the other in the middle of votes, until two are left. */
static void votes(void)
{
    MPI_Comm comm = MPI_COMM_WORLD, next;
    int round = 0, size = n_ranks, rank = my_rank;
    uint32_t seed = 17u + (uint32_t)my_rank;
    while (size > 2) {
        int flag = ~(1 << rank), all[64][2], mine[2];
        MPI_Request request;
        if (rank == round % (size - 1) + 1 && my_rank != 0) {
            usleep(next_random(&seed) % 2000);
            if (round % 2)
                MPIX_Comm_iagree(comm, &flag, &request);
            die();
        }
        int code;
        if (round % 3 == 2) {
            OK(MPIX_Comm_iagree(comm, &flag, &request));
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            code = MPIX_Comm_agree(comm, &flag);
        }
        CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED, "code %d", code);
        do { /* until nobody is among the members who died before they voted */
            OK(MPIX_Comm_shrink(comm, &next));
            if (comm != MPI_COMM_WORLD)
                OK(MPI_Comm_free(&comm));
            comm = next;
            OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
            mine[0] = flag, mine[1] = code == MPI_SUCCESS;
        } while (MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, comm) != MPI_SUCCESS);
        OK(MPI_Comm_size(comm, &size));
        OK(MPI_Comm_rank(comm, &rank));
        for (int i = 0; i < size; i++)
            CHECK(all[i][0] == flag && all[i][1] == mine[1], "round %d: %x and %x, %d and %d", round, all[i][0], flag,
                  all[i][1], mine[1]);
        round++;
    }
    if (comm != MPI_COMM_WORLD)
        OK(MPI_Comm_free(&comm));
}

/* Between two groups: even and odd ranks; the first odd one dies, then all odd ones do. */
static void between(void)
{
    MPI_Comm side, both, shrunk, none;
    int size, remote, rank, value = 1, other = -1;
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, 0, &side));
    OK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, my_rank % 2 ? 0 : 1, 5, &both));
    OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
    MPI_Barrier(MPI_COMM_WORLD); /* fails where the dead one was faster */
    if (my_rank == 1)
        die();
    int code = MPI_Barrier(both);
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED, "a barrier with the dead: class %d", class_of(code));
    OK(MPIX_Comm_shrink(both, &shrunk));
    OK(MPI_Comm_test_inter(shrunk, &other));
    OK(MPI_Comm_size(shrunk, &size));
    OK(MPI_Comm_rank(shrunk, &rank));
    OK(MPI_Comm_remote_size(shrunk, &remote));
    int even = (n_ranks + 1) / 2, odd = n_ranks / 2 - 1;
    CHECK(other == 1 && size == (my_rank % 2 ? odd : even) && remote == (my_rank % 2 ? even : odd),
          "%d and %d, inter %d", size, remote, other);
    CHECK(rank == my_rank / 2 - my_rank % 2, "rank %d", rank);
    OK(MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_SUM, shrunk));
    CHECK(other == remote, "%d of %d", other, remote);
    /* Both are whole communicators: they can be merged and duplicated. */
    OK(MPI_Intercomm_merge(shrunk, my_rank % 2, &none));
    OK(MPI_Comm_size(none, &size));
    CHECK(size == n_ranks - 1, "%d merged", size);
    OK(MPI_Comm_free(&none));
    MPI_Barrier(shrunk);
    if (my_rank % 2)
        die();
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Barrier(shrunk));
    OK(MPIX_Comm_shrink(shrunk, &none));
    CHECK(none == MPI_COMM_NULL, "a communicator with nobody on the other side");
}

/* A call on an intercommunicator for which members of one group have to talk to each other. */
static int call_across(int which, MPI_Comm both)
{
    MPI_Comm new = MPI_COMM_NULL;
    MPI_Group group;
    int value = 1, values[64];
    switch (which) {
    case 0: return MPI_Intercomm_merge(both, my_rank % 2, &new);
    case 1: return MPI_Comm_dup(both, &new);
    case 2: return MPI_Comm_split(both, 0, my_rank, &new);
    case 3:
        OK(MPI_Comm_group(both, &group));
        int code = MPI_Comm_create(both, group, &new);
        OK(MPI_Group_free(&group));
        return code;
    case 4: return MPI_Barrier(both);
    case 5: return MPI_Bcast(&value, 1, MPI_INT, my_rank % 2 ? 0 : my_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, both);
    case 6: return MPI_Allgather(&value, 1, MPI_INT, values, 1, MPI_INT, both);
    case 7: return MPI_Allreduce(&value, values, 1, MPI_INT, MPI_SUM, both);
    }
    return -1;
}

/* Between even and odd ranks, one of whom is dead or has revoked the communicator: no call leaves anybody waiting, whichever of its
 * group know already. */
static void across(void)
{
    MPI_Comm side, both, other;
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, 0, &side));
    OK(MPI_Intercomm_create(side, 0, MPI_COMM_WORLD, my_rank % 2 ? 0 : 1, 5, &both));
    OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
    for (int which = 0; which < 8; which++) {
        OK(MPI_Comm_dup(both, &other));
        if (my_rank == 0) {
            usleep(20000);
            OK(MPIX_Comm_revoke(other));
        } else {
            int code = call_across(which, other);
            CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_REVOKED, "call %d, revoked: class %d", which, class_of(code));
        }
        OK(MPI_Comm_free(&other));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 1) {
        usleep(20000);
        die();
    }
    for (int which = 0; which < 8; which++) {
        int code = call_across(which, both);
        /* A broadcast may be over at its root, and beside it. */
        CHECK((code == MPI_SUCCESS && which == 5) || class_of(code) == MPIX_ERR_PROC_FAILED, "call %d with the dead: class %d", which,
              class_of(code));
    }
    OK(MPI_Comm_disconnect(&both));
}

/* All others die while rank 0 only shows something to them, in one kind of call: it finds out, too. */
static void showing(const char *kind)
{
    static int words[64 * 4096];
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS, len = strchr(kind, 'l') ? 4096 : 1, starts = strchr(kind, 'i') != NULL, deals = strchr(kind, 's') != NULL;
    if (my_rank != 0 && strchr(kind, 'n'))
        die();
    for (int round = 0; code == MPI_SUCCESS; round++) {
        if (my_rank != 0 && round == 9)
            die();
        if (starts && deals)
            code = MPI_Iscatter(words, len, MPI_INT, my_rank ? words : MPI_IN_PLACE, len, MPI_INT, 0, MPI_COMM_WORLD, &request);
        else if (starts)
            code = MPI_Ibcast(words, len, MPI_INT, 0, MPI_COMM_WORLD, &request);
        else if (deals)
            code = MPI_Scatter(words, len, MPI_INT, my_rank ? words : MPI_IN_PLACE, len, MPI_INT, 0, MPI_COMM_WORLD);
        else
            code = MPI_Bcast(words, len, MPI_INT, 0, MPI_COMM_WORLD);
        if (starts && code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED, "class %d", class_of(code));
}

/* Rank 1 dies in a ring of exposures and accesses: they end everywhere, also those between two who live. */
static void exposed(void)
{
    MPI_Group world, after, before;
    MPI_Win window;
    int *memory, code = MPI_SUCCESS, up = (my_rank + 1) % n_ranks, down = (my_rank + n_ranks - 1) % n_ranks;
    OK(MPI_Win_allocate(sizeof *memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &up, &after));
    OK(MPI_Group_incl(world, 1, &down, &before));
    for (int round = 0; code == MPI_SUCCESS; round++) {
        if (my_rank == 1 && round == 5)
            die();
        code = MPI_Win_post(before, 0, window);
        if (code == MPI_SUCCESS)
            code = MPI_Win_start(after, 0, window);
        if (code == MPI_SUCCESS)
            code = MPI_Win_complete(window);
        if (code == MPI_SUCCESS)
            code = MPI_Win_wait(window);
    }
    CHECK(class_of(code) == MPIX_ERR_PROC_FAILED, "class %d", class_of(code));
}

/* Rank 1 dies with a long message of chars on its way; then rank 0 receives many of another type, from rank 2. */
static void notes(void)
{
    MPI_Request request;
    int value = 3;
    if (my_rank == 1) {
        OK(MPI_Isend(big, sizeof big, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        die();
    }
    if (my_rank == 2) {
        for (int i = 0; i < 200; i++)
            OK(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        return;
    }
    OK(MPI_Recv(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    while (MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS)
        ;
    FAILS(MPIX_ERR_PROC_FAILED, MPI_Recv(big, sizeof big, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 200; i++)
        OK(MPI_Recv(&value, 1, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (!strcmp(how, "one"))
        one_dies();
    else if (!strcmp(how, "sending"))
        dies_sending();
    else if (!strcmp(how, "full"))
        dies_full();
    else if (!strcmp(how, "revoked"))
        revoked();
    else if (!strcmp(how, "locked"))
        locked();
    else if (!strcmp(how, "forgotten"))
        forgotten();
    else if (!strcmp(how, "votes"))
        votes();
    else if (!strcmp(how, "between"))
        between();
    else if (!strcmp(how, "across"))
        across();
    else if (!strcmp(how, "showing"))
        showing(argv[2]);
    else if (!strcmp(how, "exposed"))
        exposed();
    else if (!strcmp(how, "notes"))
        notes();
    OK(MPI_Finalize());
    if (my_rank == 0)
        puts("the survivors are well"); /* the exit code is that of the dead */
    return 0;
}

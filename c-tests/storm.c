/* Claim: with MPI_THREAD_MULTIPLE every kind of call may run in eight threads a rank at once: messages in all modes,
 * probes, cancelled receives, persistent and partitioned operations, collectives in all forms, making and freeing of
 * communicators, types, attributes, groups, handlers, windows of info; with an argument also of sessions. Threads with the same number work together. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, MANY = 3000 };
static int rounds = 60;
static MPI_Comm twins[THREADS];

struct me {
    int id, from, to, round;
    uint32_t random;
    MPI_Comm comm;
    unsigned char *out, *in;
};

static void modes(struct me *me)
{
    static int (*const sends[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Isend};
    int size = next_random(&me->random) % 3 ? next_random(&me->random) % 200 : next_random(&me->random) % MANY * 20;
    int tag = next_random(&me->random) % 100, which = next_random(&me->random) % 4;
    MPI_Request requests[2];
    MPI_Status status;
    if (which == 2)
        size %= 500;
    fill(me->out, size, me->round + me->id);
    OK(sends[which](me->out, size, MPI_BYTE, me->to, tag, me->comm, &requests[0]));
    switch (next_random(&me->random) % 4) {
    case 0: OK(MPI_Recv(me->in, MANY * 20, MPI_BYTE, me->from, tag, me->comm, &status)); break;
    case 1: OK(MPI_Recv(me->in, MANY * 20, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, me->comm, &status)); break;
    case 2: {
        MPI_Message message;
        OK(MPI_Mprobe(MPI_ANY_SOURCE, tag, me->comm, &message, &status));
        OK(MPI_Mrecv(me->in, MANY * 20, MPI_BYTE, &message, &status));
        break;
    }
    default: {
        int flag = 0, index;
        OK(MPI_Irecv(me->in, MANY * 20, MPI_BYTE, me->from, tag, me->comm, &requests[1]));
        while (!flag)
            OK(MPI_Testany(1, &requests[1], &index, &flag, &status));
    }
    }
    CHECK_STATUS(status, me->from, tag, MPI_BYTE, size);
    CHECK_BYTES(me->in, size, me->round + me->id);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

static void cancelled(struct me *me)
{
    MPI_Request request;
    MPI_Status status;
    int flag, buffer;
    OK(MPI_Irecv(&buffer, 1, MPI_INT, me->from, 5000, me->comm, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag, "a receive without a message was not cancelled");
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 5000, me->comm, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a message that nobody sent");
}

static void persistent(struct me *me)
{
    int out = me->round, in = -1, sum = 0;
    MPI_Request requests[3];
    OK(MPI_Send_init(&out, 1, MPI_INT, me->to, 7, me->comm, &requests[0]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, me->from, 7, me->comm, &requests[1]));
    OK(MPI_Allreduce_init(&out, &sum, 1, MPI_INT, MPI_SUM, me->comm, MPI_INFO_NULL, &requests[2]));
    for (int i = 0; i < 3; i++, out++) {
        OK(MPI_Startall(3, requests));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        CHECK(in == me->round + i && sum == n_ranks * (me->round + i), "%d, sum %d", in, sum);
    }
    for (int i = 0; i < 3; i++)
        OK(MPI_Request_free(&requests[i]));
}

static void partitioned(struct me *me)
{
    int out[4] = {0}, in[4] = {0}, flag = 0;
    MPI_Request requests[2];
    OK(MPI_Psend_init(out, 4, 1, MPI_INT, me->to, 8, me->comm, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, 4, 1, MPI_INT, me->from, 8, me->comm, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Startall(2, requests));
    for (int i = 3; i >= 0; i--) {
        out[i] = me->round * 10 + i;
        OK(MPI_Pready(i, requests[0]));
    }
    while (!flag)
        OK(MPI_Parrived(requests[1], 2, &flag));
    CHECK(in[2] == me->round * 10 + 2, "partition 2 is %d", in[2]);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK(in[0] == me->round * 10 && in[3] == me->round * 10 + 3, "%d %d", in[0], in[3]);
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

static void collectives(struct me *me)
{
    int mine = my_rank + me->round, all[64], sum = 0, root = me->round % n_ranks, value = my_rank == root ? mine : -1;
    MPI_Request requests[3];
    OK(MPI_Iallgather(&mine, 1, MPI_INT, all, 1, MPI_INT, me->comm, &requests[0]));
    OK(MPI_Ireduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, me->comm, &requests[1]));
    OK(MPI_Ibarrier(me->comm, &requests[2]));
    OK(MPI_Bcast(&value, 1, MPI_INT, root, me->comm));
    for (int left = 3; left > 0;) {
        int done, which[3];
        OK(MPI_Waitsome(3, requests, &done, which, MPI_STATUSES_IGNORE));
        left -= done;
    }
    CHECK(value == root + me->round, "bcast of %d", value);
    for (int i = 0; i < n_ranks; i++)
        CHECK(all[i] == i + me->round, "rank %d gave %d", i, all[i]);
    CHECK(my_rank != root || sum == n_ranks * (n_ranks - 1) / 2 + n_ranks * me->round, "sum %d", sum);
    OK(MPI_Alltoall(all, 1, MPI_INT, me->in, 1, MPI_INT, me->comm));
    OK(MPI_Exscan(&mine, &sum, 1, MPI_INT, MPI_MAX, me->comm));
    CHECK(my_rank == 0 || sum == my_rank - 1 + me->round, "scan %d", sum);
}

static int copy(MPI_Comm comm, int key, void *state, void *in, void *out, int *flag)
{
    int rank;
    (void)key, (void)state;
    OK(MPI_Comm_rank(comm, &rank)); /* Call-backs may call MPI. */
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}
static _Thread_local int calls;
static void quiet(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, calls++; }

static void objects(struct me *me)
{
    MPI_Comm dup, half, idup;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Request request;
    int key, flag, value = me->id, size, *found;
    OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(me->comm, key, &value));
    OK(MPI_Comm_dup(me->comm, &dup));
    OK(MPI_Comm_get_attr(dup, key, &found, &flag));
    CHECK(flag && found == &value, "the attribute was not copied");
    OK(MPI_Comm_idup(dup, &idup, &request));
    OK(MPI_Comm_split(dup, my_rank % 2, 0, &half));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(idup));
    OK(MPI_Comm_group(half, &group));
    OK(MPI_Group_size(group, &size));
    CHECK(size == (n_ranks + (my_rank % 2 == 0)) / 2, "half of %d", size);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "a", "b"));
    OK(MPI_Comm_set_info(half, info));
    OK(MPI_Comm_create_errhandler(quiet, &handler));
    OK(MPI_Comm_set_errhandler(half, handler));
    (void)MPI_Send(&value, 1, MPI_INT, 999, 0, half); /* MPICH 5.0.2 returns 0 once the handler has run. */
    CHECK(calls > 0, "the error handler was not called");
    OK(MPI_Type_vector(5, 1, 3, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    int out[15], in[15] = {0};
    for (int i = 0; i < 15; i++)
        out[i] = i + me->round;
    OK(MPI_Sendrecv(out, 1, type, me->to, 9, in, 1, type, me->from, 9, me->comm, MPI_STATUS_IGNORE));
    CHECK(in[12] == 12 + me->round && in[13] == 0, "%d %d", in[12], in[13]);
    OK(MPI_Type_free(&type));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Info_free(&info));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&idup));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_delete_attr(me->comm, key));
    OK(MPI_Comm_free_keyval(&key));
}

static void sessions(struct me *me)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    char tag[20];
    int sum = 0;
    snprintf(tag, sizeof tag, "storm-%d", me->id);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    OK(MPI_Allreduce(&me->round, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == n_ranks * me->round, "sum %d in round %d", sum, me->round);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
}

static int n_kinds = 6;
static void *work(void *argument)
{
    static void (*const kinds[])(struct me *) = {modes, cancelled, persistent, partitioned, collectives, objects,
                                                 sessions};
    int id = (int)(intptr_t)argument;
    struct me me = {id, (my_rank + n_ranks - 1) % n_ranks, (my_rank + 1) % n_ranks, 0, id + 1, twins[id], need(MANY * 20),
                    need(MANY * 20)};
    for (; me.round < rounds; me.round++)
        kinds[next_random(&me.random) % n_kinds](&me);
    free(me.out);
    free(me.in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    if (argc > 1 && !strcmp(argv[1], "sessions"))
        n_kinds = 7;
    else if (argc > 1)
        rounds = atoi(argv[1]);
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    int room = THREADS * 4 * (500 + MPI_BSEND_OVERHEAD);
    void *buffer = need(room);
    OK(MPI_Buffer_attach(buffer, room));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &twins[i]));
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "pthread_create");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&twins[i]));
    OK(MPI_Buffer_detach(&buffer, &room));
    free(buffer);
    return finish();
}

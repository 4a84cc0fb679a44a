/* Claim: sessions work without MPI_Init, before it, beside it and after MPI_Finalize, one after the other and several
 * at once: their process sets, groups, communicators, information, error handlers and buffers. */
#include "check.h"

static int seen_handler;
static void handler(MPI_Session *session, int *code, ...)
{
    seen_handler += *session != MPI_SESSION_NULL && *code != MPI_SUCCESS;
}

/* A communicator of all processes, or of the upper half of the ranks, made from a session. */
static MPI_Comm comm_of(MPI_Session session, const char *pset, const char *tag, int half)
{
    MPI_Group all, part;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, pset, &all));
    if (half) {
        int size, range[3] = {0, 0, 1};
        OK(MPI_Group_size(all, &size));
        range[1] = size - 1;
        range[0] = size / 2;
        OK(MPI_Group_range_incl(all, 1, &range, &part));
        OK(MPI_Group_free(&all));
        all = part;
    }
    OK(MPI_Comm_create_from_group(all, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&all));
    return comm;
}

static void whole(MPI_Session session)
{
    int count, length, found, flag, sum, one = 1;
    char name[MPI_MAX_PSET_NAME_LEN], value[64];
    MPI_Info info;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count >= 2, "%d process sets", count);
    found = 0;
    for (int i = 0; i < count; i++) {
        length = 0;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
        CHECK(length > 0 && length <= (int)sizeof name, "length %d", length);
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK(strlen(name) + 1 == (size_t)length, "%s has length %d", name, length);
        found |= !strcmp(name, "mpi://WORLD") ? 1 : !strcmp(name, "mpi://SELF") ? 2 : 0;
        length = 5;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK(!strcmp(name, "mpi:"), "cut short: %s", name);
    }
    CHECK(found == 3, "sets found: %d", found);
    FAILS(MPI_ERR_ARG, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &length, name));
    FAILS(MPI_ERR_ARG, MPI_Session_get_pset_info(session, "app://nobody", &info));
    MPI_Comm world = comm_of(session, "mpi://WORLD", "c-tests/world", 0);
    OK(MPI_Comm_rank(world, &my_rank));
    OK(MPI_Comm_size(world, &n_ranks));
    OK(MPI_Session_get_pset_info(session, "mpi://WORLD", &info));
    OK(MPI_Info_get(info, "mpi_size", sizeof value - 1, value, &flag));
    CHECK(flag && atoi(value) == n_ranks, "mpi_size is %s", value);
    OK(MPI_Info_free(&info));
    OK(MPI_Session_get_info(session, &info));
    OK(MPI_Info_get(info, "thread_level", sizeof value - 1, value, &flag));
    CHECK(flag && !strncmp(value, "MPI_THREAD_", 11), "thread_level is %s", value);
    OK(MPI_Info_free(&info));
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK(sum == n_ranks, "sum %d of %d", sum, n_ranks);
    FAILS(MPI_ERR_RANK, MPI_Send(&one, 1, MPI_INT, n_ranks, 0, world));
    if (my_rank >= n_ranks / 2) {
        MPI_Comm half = comm_of(session, "mpi://WORLD", "c-tests/half", 1);
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half));
        CHECK(sum == n_ranks - n_ranks / 2, "sum %d in the half", sum);
        OK(MPI_Comm_free(&half));
    }
    MPI_Comm self = comm_of(session, "mpi://SELF", "c-tests/self", 0);
    OK(MPI_Comm_size(self, &sum));
    CHECK(sum == 1, "%d processes in SELF", sum);
    OK(MPI_Comm_free(&self));
    OK(MPI_Comm_free(&world));
}

static void handlers(MPI_Session session)
{
    MPI_Errhandler mine, got;
    MPI_Info info;
    OK(MPI_Session_create_errhandler(handler, &mine));
    OK(MPI_Session_set_errhandler(session, mine));
    OK(MPI_Session_get_errhandler(session, &got));
    OK(MPI_Errhandler_free(&mine));
    seen_handler = 0;
    MPI_Session_get_pset_info(session, "app://nobody", &info);
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK(seen_handler == 2, "the handler was called %d times", seen_handler);
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&got));
}

static void of_comm(MPI_Comm *comm, int *code, ...) { seen_handler += *comm == MPI_COMM_NULL && *code != MPI_SUCCESS; }

/* Errors go to what the program named: the new communicator's handler, and a group's to its session. */
static void errors(MPI_Session session)
{
    int none = -1;
    MPI_Group all, some;
    MPI_Errhandler mine;
    OK(MPI_Comm_create_errhandler(of_comm, &mine));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    seen_handler = 0;
    (void)MPI_Comm_create_from_group(all, "c-tests/errors", MPI_INFO_NULL, mine, NULL); /* MPICH 5.0.2 returns 0 here. */
    CHECK(seen_handler == 1, "the handler was called %d times", seen_handler);
    OK(MPI_Errhandler_free(&mine));
    FAILS(MPI_ERR_RANK, MPI_Group_incl(all, 1, &none, &some));
    OK(MPI_Session_create_errhandler(handler, &mine));
    OK(MPI_Session_set_errhandler(session, mine));
    (void)MPI_Group_incl(all, 1, &none, &some);
    CHECK(seen_handler == 2, "the session's handler was called %d times", seen_handler - 1);
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine));
    OK(MPI_Group_free(&all));
}

static MPI_Session opened(const char *level)
{
    MPI_Session session;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    if (level)
        OK(MPI_Info_set(info, "thread_level", level));
    OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    OK(MPI_Info_free(&info));
    CHECK(session != MPI_SESSION_NULL, "the null session");
    return session;
}

static void closed(MPI_Session session)
{
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL, "not null after the end");
}

int main(int argc, char **argv)
{
    int flag;
    const char *how = argc > 1 ? argv[1] : "";
    char level[40];
    MPI_Info info;
    MPI_Session plain = opened(NULL);
    OK(MPI_Session_get_info(plain, &info));
    OK(MPI_Info_get(info, "thread_level", sizeof level - 1, level, &flag));
    CHECK(flag && !strcmp(level, "MPI_THREAD_MULTIPLE"), "a session that asks for no level has %s", level);
    OK(MPI_Info_free(&info));
    closed(plain);
    for (int i = 0; i < 3; i++) {
        MPI_Session first = opened("MPI_THREAD_SINGLE"), second = opened("MPI_THREAD_MULTIPLE");
        whole(first);
        closed(first);
        whole(second);
        handlers(second);
        errors(second);
        closed(second);
        OK(MPI_Initialized(&flag));
        CHECK(!flag, "initialized by a session");
    }
    if (strcmp(how, "alone")) {
        MPI_Session before = opened("MPI_THREAD_SINGLE");
        start(&argc, &argv);
        MPI_Session beside = opened("MPI_THREAD_SINGLE");
        whole(beside);
        closed(beside);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Finalize());
        OK(MPI_Finalized(&flag));
        CHECK(flag, "not finalized");
        whole(before);
        closed(before);
        MPI_Session after = opened("MPI_THREAD_SINGLE");
        whole(after);
        closed(after);
    }
    return 0;
}

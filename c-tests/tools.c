/* Claim: the tools interface lists control variables, performance variables and categories consistently, by index and
 * by name, before MPI_Init, while MPI runs and after MPI_Finalize; handles read them; wrong indices, names and handles
 * are refused with the interface's own codes. With an argument also: the counters count what is sent, and what is
 * closed is refused. */
#include "check.h"

static int strict;
static char name[256], text[1024];

static void cvars(void)
{
    int count, index, room, length, verbosity, bind, scope, size, elements;
    MPI_Datatype type;
    MPI_T_enum values;
    MPI_T_cvar_handle handle;
    char value[4096];
    OK(MPI_T_cvar_get_num(&count));
    CHECK(count > 0, "%d control variables", count);
    for (int i = 0; i < count; i++) {
        room = sizeof name, length = sizeof text;
        OK(MPI_T_cvar_get_info(i, name, &room, &verbosity, &type, &values, text, &length, &bind, &scope));
        CHECK(room == (int)strlen(name) + 1, "%s has length %d", name, room);
        OK(MPI_T_cvar_get_index(name, &index));
        CHECK(index == i, "%s is %d, not %d", name, index, i);
        if (bind != MPI_T_BIND_NO_OBJECT)
            continue;
        OK(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements));
        if (type == MPI_CHAR)
            CHECK(elements <= (int)sizeof value, "%s has %d characters", name, elements);
        OK(MPI_T_cvar_read(handle, value));
        if (!strcmp(name, "NEARMPI_COLLECTIVES"))
            CHECK(!strcmp(value, "scan@2-: doubling; bcast: tree"), "%s is \"%s\"", name, value);
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL, "not null after free");
    }
    size = 5;
    length = sizeof text;
    OK(MPI_T_cvar_get_info(0, name, &size, &verbosity, &type, &values, text, &length, &bind, &scope));
    CHECK(strlen(name) == 4, "cut short to %s", name);
    CHECK(MPI_T_cvar_get_index("no_such_variable", &index) == MPI_T_ERR_INVALID_NAME, "an unknown name");
    CHECK(!strict || MPI_T_cvar_get_info(count, name, &room, &verbosity, &type, &values, text, &length, &bind, &scope) ==
              MPI_T_ERR_INVALID_INDEX, "an index too far");
}

static void categories(void)
{
    int count, index, room, length, of_cvars, of_pvars, inside, list[2000], stamp;
    OK(MPI_T_category_get_num(&count));
    for (int i = 0; i < count; i++) {
        room = sizeof name, length = sizeof text;
        OK(MPI_T_category_get_info(i, name, &room, text, &length, &of_cvars, &of_pvars, &inside));
        OK(MPI_T_category_get_index(name, &index));
        CHECK(index == i, "%s is %d, not %d", name, index, i);
        OK(MPI_T_category_get_cvars(i, 2000, list));
        for (int k = 0; k < of_cvars; k++) {
            int verbosity, bind, scope;
            MPI_Datatype type;
            MPI_T_enum values;
            room = sizeof name, length = sizeof text;
            OK(MPI_T_cvar_get_info(list[k], name, &room, &verbosity, &type, &values, text, &length, &bind, &scope));
        }
        OK(MPI_T_category_get_pvars(i, 2000, list));
        for (int k = 0; k < of_pvars; k++) {
            int verbosity, class, bind, readonly, continuous, atomic;
            MPI_Datatype type;
            MPI_T_enum values;
            room = sizeof name, length = sizeof text;
            OK(MPI_T_pvar_get_info(list[k], name, &room, &verbosity, &class, &type, &values, text, &length, &bind,
                                   &readonly, &continuous, &atomic));
        }
    }
    OK(MPI_T_category_changed(&stamp));
    CHECK(MPI_T_category_get_index("no_such_category", &index) == MPI_T_ERR_INVALID_NAME, "an unknown name");
}

static unsigned long long total(MPI_T_pvar_session session)
{
    int count, room, class, elements, length, verbosity, bind, readonly, continuous, atomic;
    MPI_T_enum values;
    unsigned long long sum = 0, values_of[100];
    MPI_Datatype type;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_num(&count));
    for (int i = 0; i < count; i++) {
        room = sizeof name, length = sizeof text;
        OK(MPI_T_pvar_get_info(i, name, &room, &verbosity, &class, &type, &values, text, &length, &bind, &readonly,
                               &continuous, &atomic));
        int index = -1;
        OK(MPI_T_pvar_get_index(name, class, &index));
        CHECK(index == i, "%s is %d, not %d", name, index, i);
        if (type != MPI_UNSIGNED_LONG_LONG || class != MPI_T_PVAR_CLASS_COUNTER)
            continue;
        OK(MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &elements));
        CHECK(elements >= 1 && elements <= 100, "%s has %d elements", name, elements);
        OK(MPI_T_pvar_read(session, handle, values_of));
        OK(MPI_T_pvar_handle_free(session, &handle));
        if (continuous)
            sum += values_of[0];
    }
    return sum;
}

enum { SIZES = 65, FOUR_BYTES = 3 };
static MPI_T_pvar_handle open_sizes(MPI_T_pvar_session session, const char *which)
{
    int index, count;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_get_index(which, MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    CHECK(count == SIZES, "%s has %d elements", which, count);
    return handle;
}

/* The shortest messages are counted one by one, whenever somebody looks. */
static void run(MPI_T_pvar_session session)
{
    unsigned long long now[SIZES], bytes[SIZES];
    long value = 0;
    MPI_T_pvar_handle messages = open_sizes(session, "nearmpi_messages_slot"), in_bytes = open_sizes(session, "nearmpi_bytes_slot");
    OK(MPI_T_pvar_start(session, messages));
    OK(MPI_T_pvar_start(session, in_bytes));
    for (int i = 0; i < 700; i++) {
        int short_ones = 1 + i / 50, len = i % 50 == 49 ? 5 : 8; /* runs of 49 equal messages */
        OK(MPI_Send(&value, len, MPI_CHAR, my_rank, 1, MPI_COMM_WORLD));
        OK(MPI_Recv(&value, len, MPI_CHAR, my_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_T_pvar_read(session, messages, now));
        OK(MPI_T_pvar_read(session, in_bytes, bytes));
        int eights = i + 1 - (len == 5 ? short_ones : short_ones - 1);
        CHECK((int)now[FOUR_BYTES + 1] == eights && (int)bytes[FOUR_BYTES + 1] == 8 * eights,
              "%llu messages, %llu bytes after %d of 8 bytes", now[FOUR_BYTES + 1], bytes[FOUR_BYTES + 1], eights);
        CHECK((int)now[FOUR_BYTES] == i + 1 - eights && (int)bytes[FOUR_BYTES] == 5 * (i + 1 - eights),
              "%llu messages, %llu bytes after %d of 5 bytes", now[FOUR_BYTES], bytes[FOUR_BYTES], i + 1 - eights);
    }
    OK(MPI_T_pvar_handle_free(session, &messages));
    OK(MPI_T_pvar_handle_free(session, &in_bytes));
}

/* Messages and bytes by size: counted between start and stop, also if that was before MPI_Init. */
static void sizes(MPI_T_pvar_session session, MPI_T_pvar_session first, MPI_T_pvar_handle early)
{
    unsigned long long before[SIZES], after[SIZES], bytes[SIZES], all[SIZES];
    MPI_T_pvar_handle messages = open_sizes(session, "nearmpi_messages_slot"), in_bytes = open_sizes(session, "nearmpi_bytes_slot");
    OK(MPI_T_pvar_read(session, messages, before));
    CHECK(before[FOUR_BYTES] == 0, "%llu messages before the start", before[FOUR_BYTES]);
    for (int round = 0; round < 3; round++) { /* started, stopped, started again */
        if (round == 1)
            OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
        else
            OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
        for (int i = 0, got; i < 100; i++)
            OK(MPI_Sendrecv(&i, 1, MPI_INT, (my_rank + 1) % n_ranks, 0, &got, 1, MPI_INT, MPI_ANY_SOURCE, 0,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_T_pvar_read(session, messages, after));
        OK(MPI_T_pvar_read(session, in_bytes, bytes));
        int sent = round == 2 ? 200 : 100;
        CHECK((int)after[FOUR_BYTES] == sent && (int)bytes[FOUR_BYTES] == 4 * sent, "%llu messages, %llu bytes after %d",
              after[FOUR_BYTES], bytes[FOUR_BYTES], sent);
    }
    OK(MPI_T_pvar_read(first, early, all));
    CHECK(all[FOUR_BYTES] >= 200, "%llu messages since before MPI_Init", all[FOUR_BYTES]);
    OK(MPI_T_pvar_handle_free(session, &messages));
    OK(MPI_T_pvar_handle_free(session, &in_bytes));
}

int main(int argc, char **argv)
{
    MPI_T_pvar_session first;
    MPI_T_pvar_handle early = NULL;
    int level, count, events;
    MPI_T_pvar_session session;
    MPI_T_cvar_handle handle, closed;
    strict = argc > 1;
    setenv("NEARMPI_COLLECTIVES", "scan@2-: doubling; bcast: tree", 1);
    CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED, "usable before MPI_T_init_thread");
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    cvars();
    categories();
    OK(MPI_T_finalize());
    if (strict) {
        OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
        OK(MPI_T_pvar_session_create(&first));
        early = open_sizes(first, "nearmpi_messages_slot");
        OK(MPI_T_pvar_start(first, early));
    }
    start(&argc, &argv);
    cvars();
    OK(MPI_T_event_get_num(&events));
    OK(MPI_T_pvar_session_create(&session));
    unsigned long long before = total(session);
    for (int i = 0, got; i < 100; i++)
        OK(MPI_Sendrecv(&i, 1, MPI_INT, (my_rank + 1) % n_ranks, 0, &got, 1, MPI_INT, MPI_ANY_SOURCE, 0,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    unsigned long long after = total(session);
    if (strict) {
        OK(MPI_T_cvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
        CHECK(after >= before + 100, "%llu messages before 100 more, %llu after", before, after);
        unsigned long long value;
        MPI_T_pvar_handle counter;
        OK(MPI_T_pvar_handle_alloc(session, 0, NULL, &counter, &count));
        CHECK(MPI_T_pvar_start(session, counter) == MPI_T_ERR_PVAR_NO_STARTSTOP, "started");
        OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
        CHECK(MPI_T_pvar_reset(session, counter) == MPI_T_ERR_PVAR_NO_WRITE, "reset");
        sizes(session, first, early);
        run(session);
        OK(MPI_T_pvar_session_free(&first));
        OK(MPI_T_finalize());
        MPI_T_pvar_session old = session;
        OK(MPI_T_pvar_session_free(&session));
        CHECK(MPI_T_pvar_read(old, counter, &value) == MPI_T_ERR_INVALID_SESSION, "read in a closed session");
        OK(MPI_T_pvar_session_create(&session));
        CHECK(MPI_T_pvar_read(session, counter, &value) == MPI_T_ERR_INVALID_HANDLE, "read through a closed handle");
        OK(MPI_T_cvar_handle_alloc(0, NULL, &handle, &count));
        CHECK(MPI_T_cvar_write(handle, &value) == MPI_T_ERR_CVAR_SET_NEVER, "written");
        closed = handle;
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(MPI_T_cvar_read(closed, &value) == MPI_T_ERR_INVALID_HANDLE, "read through a closed handle");
    }
    OK(MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL, "not null after free");
    finish();
    cvars();
    categories();
    OK(MPI_T_finalize());
    CHECK(MPI_T_cvar_get_num(&count) == MPI_T_ERR_NOT_INITIALIZED, "usable after MPI_T_finalize");
    return 0;
}

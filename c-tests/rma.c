/* Claim: one-sided communication does what MPI-4.1 §12 says, for windows of every flavour and with every kind of
 * synchronization; accumulates of many ranks lose nothing; what is wrong gets its error class. "served": the same where
 * the kernel lets nobody into another process's memory. "lazy": MPI_Win_lock_all locks nobody who is not accessed. */
#include "check.h"

enum { N = 1000 };
static int lazy, lent; /* lent: what the program brings comes from MPI_Alloc_mem */

static const char *const flavours[] = {"", "create", "allocate", "dynamic", "shared"};

/* A window of bytes in a flavour; *disp is what the displacement of its first byte at a target is. */
static MPI_Win make(int flavour, MPI_Aint size, void **base, MPI_Aint *disp)
{
    MPI_Win win = MPI_WIN_NULL;
    MPI_Info info = MPI_INFO_NULL;
    for (int i = 0; i < n_ranks; i++) disp[i] = 0;
    if (flavour == MPI_WIN_FLAVOR_CREATE || flavour == MPI_WIN_FLAVOR_DYNAMIC) {
        if (lent) OK(MPI_Alloc_mem(size, info, base));
        else *base = calloc(1, size);
        CHECK(*base, "no memory");
    }
    switch (flavour) {
    case MPI_WIN_FLAVOR_CREATE: OK(MPI_Win_create(*base, size, 1, info, MPI_COMM_WORLD, &win)); break;
    case MPI_WIN_FLAVOR_ALLOCATE: OK(MPI_Win_allocate(size, 1, info, MPI_COMM_WORLD, base, &win)); break;
    case MPI_WIN_FLAVOR_SHARED: OK(MPI_Win_allocate_shared(size, 1, info, MPI_COMM_WORLD, base, &win)); break;
    default: {
        MPI_Aint mine;
        OK(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win));
        OK(MPI_Win_attach(win, *base, size));
        OK(MPI_Get_address(*base, &mine));
        OK(MPI_Allgather(&mine, 1, MPI_AINT, disp, 1, MPI_AINT, MPI_COMM_WORLD));
    }
    }
    memset(*base, 0, size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    return win;
}

static void done(int flavour, MPI_Win *win, void *base)
{
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody accesses what is detached */
    if (flavour == MPI_WIN_FLAVOR_DYNAMIC) OK(MPI_Win_detach(*win, base));
    OK(MPI_Win_free(win));
    CHECK(*win == MPI_WIN_NULL, "the handle stays");
    if (flavour == MPI_WIN_FLAVOR_CREATE || flavour == MPI_WIN_FLAVOR_DYNAMIC) {
        if (lent) OK(MPI_Free_mem(base));
        else free(base);
    }
}

static void fences(int flavour)
{
    MPI_Aint disp[n_ranks];
    int *mine;
    MPI_Win win = make(flavour, N * n_ranks * sizeof(int), (void **)&mine, disp);
    int out[N], in[N];
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    for (int to = 0; to < n_ranks; to++) {
        for (int i = 0; i < N; i++) out[i] = my_rank * 100000 + to * 1000 + i;
        OK(MPI_Put(out, N, MPI_INT, to, disp[to] + my_rank * N * (MPI_Aint)sizeof(int), N, MPI_INT, win));
    }
    OK(MPI_Win_fence(0, win));
    for (int from = 0; from < n_ranks; from++)
        for (int i = 0; i < N; i++)
            CHECK(mine[from * N + i] == from * 100000 + my_rank * 1000 + i, "%s: %d from %d at %d", flavours[flavour],
                  mine[from * N + i], from, i);
    for (int at = 0; at < n_ranks; at++) {
        OK(MPI_Get(in, N, MPI_INT, at, disp[at] + my_rank * N * (MPI_Aint)sizeof(int), N, MPI_INT, win));
        OK(MPI_Win_fence(at == n_ranks - 1 ? MPI_MODE_NOSUCCEED : 0, win));
        for (int i = 0; i < N; i++)
            CHECK(in[i] == my_rank * 100000 + at * 1000 + i, "%s: got %d at %d", flavours[flavour], in[i], i);
    }
    FAILS(MPI_ERR_RMA_SYNC, MPI_Put(out, 1, MPI_INT, 0, disp[0], 1, MPI_INT, win));
    done(flavour, &win, mine);
}

/* A large block to every second double, then back out of every third. */
static void strided(int flavour)
{
    enum { COUNT = 60000 };
    MPI_Aint disp[n_ranks];
    double *mine, *row = malloc(3 * COUNT * sizeof *row);
    MPI_Win win = make(flavour, 3 * COUNT * sizeof *mine, (void **)&mine, disp);
    MPI_Datatype second, third;
    OK(MPI_Type_vector(COUNT, 1, 2, MPI_DOUBLE, &second));
    OK(MPI_Type_vector(COUNT, 1, 3, MPI_DOUBLE, &third));
    OK(MPI_Type_commit(&second));
    OK(MPI_Type_commit(&third));
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks;
    for (int i = 0; i < COUNT; i++) row[i] = my_rank + i * 0.5;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(row, COUNT, MPI_DOUBLE, right, disp[right], 1, second, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < COUNT; i++) CHECK(mine[2 * i] == left + i * 0.5 && (i == 0 || mine[2 * i - 1] == 0), "%d", i);
    for (int i = 0; i < 3 * COUNT; i++) row[i] = -1;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(row, 1, third, right, disp[right], 1, second, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < COUNT; i++)
        CHECK(row[3 * i] == my_rank + i * 0.5 && (i == 0 || row[3 * i - 1] == -1), "%s: %d", flavours[flavour], i);
    OK(MPI_Type_free(&second));
    OK(MPI_Type_free(&third));
    free(row);
    done(flavour, &win, mine);
}

/* All ranks count up on rank 0, by four kinds of accumulate, under shared locks. */
static void counters(int flavour)
{
    enum { ROUNDS = 300 };
    MPI_Aint disp[n_ranks];
    long *mine;
    MPI_Win win = make(flavour, 4 * sizeof *mine, (void **)&mine, disp);
    long one = 1, old, seen = -1;
    MPI_Request request;
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, disp[0], 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, disp[0] + 8, MPI_SUM, win));
        OK(MPI_Win_flush(0, win));
        CHECK(old > seen, "%s: %ld after %ld", flavours[flavour], old, seen);
        seen = old;
        OK(MPI_Rget_accumulate(&one, 1, MPI_LONG, &old, 1, MPI_LONG, 0, disp[0] + 16, 1, MPI_LONG, MPI_SUM, win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (long expected = 0, next;; expected = old) {
            next = expected + 1;
            OK(MPI_Compare_and_swap(&next, &expected, &old, MPI_LONG, 0, disp[0] + 24, win));
            OK(MPI_Win_flush_local(0, win));
            if (old == expected) break;
        }
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    long all[4];
    OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, all, 4, MPI_LONG, 0, disp[0], 4, MPI_LONG, MPI_NO_OP, win));
    OK(MPI_Win_unlock(0, win));
    for (int i = 0; i < 4; i++)
        CHECK(all[i] == (long)ROUNDS * n_ranks, "%s: counter %d is %ld", flavours[flavour], i, all[i]);
    done(flavour, &win, mine);
}

static long value(int round, int i) { return 1000003L * round + i; }

/* Rank 0 accesses blocks of every length at the last rank, which waits; twice as many times as it takes to learn how. */
static void lengths(int flavour)
{
    enum { MOST = 40000 };
    static const int counts[] = {1, 4, 5, 1000, 1024, 1025, 2048, 2049, 6144, MOST - 1};
    MPI_Aint disp[n_ranks];
    long *mine, *out = malloc(MOST * sizeof *out), *in = malloc(MOST * sizeof *in);
    const int last = n_ranks - 1;
    MPI_Win win = make(flavour, MOST * sizeof *mine, (void **)&mine, disp);
    for (int at = 0; at < 10 && my_rank == 0; at++) {
        const int n = counts[at];
        OK(MPI_Win_lock(MPI_LOCK_SHARED, last, 0, win));
        for (int round = 0; round < 80; round++) {
            for (int i = 0; i < n; i++) out[i] = value(round, i);
            memset(in, 0, n * sizeof *in);
            OK(MPI_Put(out, n, MPI_LONG, last, disp[last] + 8, n, MPI_LONG, win));
            OK(MPI_Win_flush(last, win));
            OK(MPI_Get(in, n, MPI_LONG, last, disp[last] + 8, n, MPI_LONG, win));
            OK(MPI_Win_flush(last, win));
            for (int i = 0; i < n; i++)
                CHECK(in[i] == value(round, i), "%s: %d longs: got %ld at %d", flavours[flavour], n, in[i], i);
            OK(MPI_Accumulate(out, n, MPI_LONG, last, disp[last] + 8, n, MPI_LONG, MPI_SUM, win));
            OK(MPI_Get_accumulate(out, n, MPI_LONG, in, n, MPI_LONG, last, disp[last] + 8, n, MPI_LONG, MPI_REPLACE, win));
            OK(MPI_Win_flush(last, win));
            for (int i = 0; i < n; i++)
                CHECK(in[i] == 2 * value(round, i), "%s: %d longs: had %ld at %d", flavours[flavour], n, in[i], i);
            OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, in, n, MPI_LONG, last, disp[last] + 8, n, MPI_LONG, MPI_NO_OP, win));
            OK(MPI_Win_flush(last, win));
            CHECK(!memcmp(in, out, n * sizeof *in), "%s: %d longs are not replaced", flavours[flavour], n);
            out[0]++;
            long kept = 0, old;
            OK(MPI_Compare_and_swap(&kept, &out[0], &old, MPI_LONG, last, disp[last] + 8, win));
            OK(MPI_Fetch_and_op(&out[0], &kept, MPI_LONG, last, disp[last] + 8, MPI_SUM, win));
            OK(MPI_Win_flush(last, win));
            CHECK(old == value(round, 0) && kept == old, "%s: had %ld and %ld", flavours[flavour], old, kept);
            if (n_ranks > 2 && round == 4) break; /* where ranks share CPUs there is nothing to learn */
        }
        OK(MPI_Win_unlock(last, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == last) {
        CHECK(mine[0] == 0 && mine[MOST - 1] == value(n_ranks > 2 ? 4 : 79, MOST - 2), "%s: %ld and %ld at the ends",
              flavours[flavour], mine[0], mine[MOST - 1]);
    }
    done(flavour, &win, mine);
    free(out);
    free(in);
}

/* A rank that polls its window by flushing serves others: the sender of a long message, which sets the flag afterwards. */
static void polled(int flavour)
{
    enum { LONG = 1 << 22 };
    MPI_Aint disp[n_ranks];
    int *mine, flag = 0;
    char *message = malloc(LONG);
    const int last = n_ranks - 1;
    MPI_Win win = make(flavour, sizeof *mine, (void **)&mine, disp);
    MPI_Request request;
    OK(MPI_Win_lock_all(0, win));
    if (my_rank == 0) {
        OK(MPI_Irecv(message, LONG, MPI_CHAR, last, 5, MPI_COMM_WORLD, &request));
        while (!flag) {
            OK(MPI_Get(&flag, 1, MPI_INT, 0, disp[0], 1, MPI_INT, win));
            OK(MPI_Win_flush(0, win));
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (my_rank == last) {
        flag = 1;
        OK(MPI_Ssend(message, LONG, MPI_CHAR, 0, 5, MPI_COMM_WORLD));
        OK(MPI_Accumulate(&flag, 1, MPI_INT, 0, disp[0], 1, MPI_INT, MPI_REPLACE, win));
    }
    OK(MPI_Win_unlock_all(win));
    done(flavour, &win, mine);
    free(message);
}

/* Read, add, write under an exclusive lock. */
static void exclusive(int flavour)
{
    enum { ROUNDS = 200 };
    MPI_Aint disp[n_ranks];
    int *mine, value;
    int last = n_ranks - 1;
    MPI_Win win = make(flavour, sizeof *mine, (void **)&mine, disp);
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win));
        OK(MPI_Get(&value, 1, MPI_INT, last, disp[last], 1, MPI_INT, win));
        OK(MPI_Win_flush(last, win));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT, last, disp[last], 1, MPI_INT, win));
        OK(MPI_Win_unlock(last, win));
    }
    FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, last, disp[last], 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_flush(last, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == last) CHECK(*mine == ROUNDS * n_ranks, "%s: %d", flavours[flavour], *mine);
    done(flavour, &win, mine);
}

/* MPI_Win_lock_all keeps an exclusive lock away from members that were accessed, and from no others. */
static void lock_all(int flavour)
{
    if (n_ranks < 2) return;
    MPI_Aint disp[n_ranks];
    int *mine, one = 1, two = 2, value = 0;
    MPI_Win win = make(flavour, sizeof *mine, (void **)&mine, disp);
    if (my_rank == 0) {
        OK(MPI_Win_lock_all(0, win));
        if (lazy && flavour != MPI_WIN_FLAVOR_SHARED) { /* waiting for an event under the lock, as OpenCoarrays does */
            OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Win_sync(win));
            CHECK(*mine == 1, "%s: %d", flavours[flavour], *mine);
        }
        OK(MPI_Put(&one, 1, MPI_INT, 1, disp[1], 1, MPI_INT, win));
        OK(MPI_Win_flush(1, win));
        OK(MPI_Send(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD));
        for (double end = MPI_Wtime() + 0.02; MPI_Wtime() < end;) OK(MPI_Win_sync(win));
        OK(MPI_Put(&two, 1, MPI_INT, 1, disp[1], 1, MPI_INT, win));
        FAILS(MPI_ERR_RMA_SYNC, MPI_Win_unlock(1, win));
        OK(MPI_Win_unlock_all(win));
    } else if (my_rank == 1) {
        if (lazy && flavour != MPI_WIN_FLAVOR_SHARED) {
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
            OK(MPI_Accumulate(&one, 1, MPI_INT, 0, disp[0], 1, MPI_INT, MPI_SUM, win));
            OK(MPI_Win_unlock(0, win));
            OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
        }
        OK(MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
        OK(MPI_Get(&value, 1, MPI_INT, 1, disp[1], 1, MPI_INT, win));
        OK(MPI_Win_unlock(1, win));
        CHECK(value == 2, "%s: locked while rank 0 held it: %d", flavours[flavour], value);
    }
    done(flavour, &win, mine);
}

/* Every rank puts to its right neighbour, by post, start, complete and wait or test. */
static void neighbours(int flavour)
{
    MPI_Aint disp[n_ranks];
    int *mine, right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks, flag = 0;
    MPI_Win win = make(flavour, sizeof *mine, (void **)&mine, disp);
    MPI_Group all, from, to;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &left, &from));
    OK(MPI_Group_incl(all, 1, &right, &to));
    for (int i = 0; i < 50; i++) {
        int value = 100 * my_rank + i;
        OK(MPI_Win_post(from, 0, win));
        OK(MPI_Win_start(to, 0, win));
        OK(MPI_Put(&value, 1, MPI_INT, right, disp[right], 1, MPI_INT, win));
        if (n_ranks > 2) FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&value, 1, MPI_INT, left, disp[left], 1, MPI_INT, win));
        OK(MPI_Win_complete(win));
        if (i % 2) OK(MPI_Win_wait(win));
        else
            for (flag = 0; !flag;) OK(MPI_Win_test(win, &flag));
        CHECK(*mine == 100 * left + i, "%s: %d in round %d", flavours[flavour], *mine, i);
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&from));
    OK(MPI_Group_free(&to));
    done(flavour, &win, mine);
}

/* A put, or a get, of less than there is room for leaves the rest as it is. */
static void shorter(int flavour)
{
    enum { N = 16, PART = 4 };
    MPI_Aint disp[n_ranks];
    const int next = (my_rank + 1) % n_ranks;
    int *mine, out[N], in[N], spread[2 * N];
    MPI_Datatype odd;
    OK(MPI_Type_vector(N, 1, 2, MPI_INT, &odd));
    OK(MPI_Type_commit(&odd));
    MPI_Win win = make(flavour, 4 * N * sizeof *mine, (void **)&mine, disp);
    for (int i = 0; i < N; i++) out[i] = my_rank * 100 + i, in[i] = -1;
    memset(spread, 0xff, sizeof spread);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(out, PART, MPI_INT, next, disp[next], N, MPI_INT, win));
    OK(MPI_Put(out, PART, MPI_INT, next, disp[next] + 2 * N * sizeof *mine, 1, odd, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(in, N, MPI_INT, next, disp[next], PART, MPI_INT, win));
    OK(MPI_Get(spread, 1, odd, next, disp[next], PART, MPI_INT, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    const int before = (my_rank + n_ranks - 1) % n_ranks;
    for (int i = 0; i < N; i++) {
        int part = i < PART;
        CHECK(mine[i] == (part ? before * 100 + i : 0), "%s: %d at %d", flavours[flavour], mine[i], i);
        CHECK(mine[2 * N + 2 * i] == (part ? before * 100 + i : 0), "%s: gaps: %d at %d", flavours[flavour], mine[2 * N + 2 * i], i);
        CHECK(in[i] == (part ? my_rank * 100 + i : -1), "%s: got %d at %d", flavours[flavour], in[i], i);
        CHECK(spread[2 * i] == in[i] && spread[2 * i + 1] == -1, "%s: gaps: got %d at %d", flavours[flavour], spread[2 * i], i);
    }
    OK(MPI_Type_free(&odd));
    done(flavour, &win, mine);
}

/* Pairs with a gap inside, and a derived datatype, are combined element by element. */
static void pairs(int flavour)
{
    struct pair { double value; int index; };
    MPI_Aint disp[n_ranks];
    struct pair *mine, give[4], before[4];
    MPI_Win win = make(flavour, 4 * sizeof *mine, (void **)&mine, disp);
    for (int i = 0; i < 4; i++) give[i] = (struct pair){i + my_rank % 3, my_rank};
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get_accumulate(give, 4, MPI_DOUBLE_INT, before, 4, MPI_DOUBLE_INT, 0, disp[0], 4, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    OK(MPI_Win_fence(0, win));
    int most = n_ranks > 2 ? 2 : n_ranks - 1;
    if (my_rank == 0)
        for (int i = 0; i < 4; i++)
            CHECK(mine[i].value == i + most && (i + most == 0 || mine[i].index == most), "%s: pair %d: %g, %d",
                  flavours[flavour], i, mine[i].value, mine[i].index);
    OK(MPI_Win_fence(0, win));
    memset(mine, 0, 4 * sizeof *mine);
    OK(MPI_Win_fence(0, win));
    MPI_Datatype odd;
    int ones[4] = {1, 1, 1, 1};
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &odd));
    OK(MPI_Type_commit(&odd));
    OK(MPI_Accumulate(ones, 4, MPI_INT, 0, disp[0] + 4, 1, odd, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    if (my_rank == 0)
        for (int i = 0; i < 8; i++)
            CHECK(((int *)mine)[i] == (i % 2 ? n_ranks : 0), "%s: %d at %d", flavours[flavour], ((int *)mine)[i], i);
    OK(MPI_Type_free(&odd));
    done(flavour, &win, mine);
}

/* Loads and stores in one block of all ranks, and in parts of their own. */
static void shared(void)
{
    for (int apart = 0; apart < 2; apart++) {
        MPI_Info info;
        MPI_Win win;
        int *mine, *first = NULL, unit;
        MPI_Aint size;
        OK(MPI_Info_create(&info));
        if (apart) OK(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
        OK(MPI_Win_allocate_shared((my_rank + 1) * sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &mine, &win));
        for (int i = 0; i <= my_rank; i++) mine[i] = my_rank;
        OK(MPI_Win_fence(0, win));
        for (int rank = 0; rank < n_ranks; rank++) {
            int *theirs;
            OK(MPI_Win_shared_query(win, rank, &size, &unit, &theirs));
            CHECK(size == (rank + 1) * (MPI_Aint)sizeof(int) && unit == sizeof(int), "%ld, %d", (long)size, unit);
            for (int i = 0; i <= rank; i++) CHECK(theirs[i] == rank, "%d of rank %d", theirs[i], rank);
            if (rank == 0) first = theirs;
            CHECK(apart || theirs == first + rank * (rank + 1) / 2, "rank %d's part is not behind the others", rank);
        }
        OK(MPI_Win_fence(0, win));
        OK(MPI_Win_free(&win));
        OK(MPI_Info_free(&info));
    }
}

static int deleted;
static int forget(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

static void properties(void)
{
    double memory[8];
    void *base;
    MPI_Aint *size;
    MPI_Win win;
    int *unit, *flavour, *model, flag, key, five = 5, length;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Win_create(memory, sizeof memory, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == memory, "base");
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    CHECK(flag && *size == sizeof memory, "size");
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag));
    CHECK(flag && *unit == sizeof(double), "unit");
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavour, &flag));
    CHECK(flag && *flavour == MPI_WIN_FLAVOR_CREATE, "flavour");
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
    CHECK(flag && *model == MPI_WIN_UNIFIED, "model");
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, forget, &key, NULL));
    OK(MPI_Win_set_attr(win, key, &five));
    OK(MPI_Win_get_attr(win, key, &base, &flag));
    CHECK(flag && base == &five, "value");
    OK(MPI_Win_free_keyval(&key));
    OK(MPI_Win_set_name(win, "sill"));
    OK(MPI_Win_get_name(win, name, &length));
    CHECK(!strcmp(name, "sill") && length == 4, "name %s", name);
    OK(MPI_Win_free(&win));
    CHECK(deleted == 5, "the delete function was called %d times 5", deleted);
}

static int has_hint(MPI_Win win, const char *key, const char *value)
{
    MPI_Info info;
    char found[64] = "";
    int flag;
    OK(MPI_Win_get_info(win, &info));
    OK(MPI_Info_get(info, key, sizeof found - 1, found, &flag));
    OK(MPI_Info_free(&info));
    return flag && !strcmp(found, value);
}

/* Parts of no bytes lie nowhere; hints that the program does not give have their defaults. */
static void empty(void)
{
    MPI_Win win;
    MPI_Aint size;
    void *base;
    int unit;
    OK(MPI_Win_allocate_shared(my_rank == 0 ? 8 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_shared_query(win, n_ranks - 1, &size, &unit, &base));
    CHECK(size == 0 && base == NULL, "%ld bytes at %p", (long)size, base);
    CHECK(has_hint(win, "accumulate_ops", "same_op_no_op"), "the default of accumulate_ops");
    CHECK(has_hint(win, "accumulate_ordering", "rar,raw,war,waw"), "the default of accumulate_ordering");
    OK(MPI_Win_free(&win));
}

static void errors(void)
{
    empty();
    int memory[4] = {0}, other = 7;
    MPI_Win win;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_SIZE, MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    FAILS(MPI_ERR_DISP, MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    FAILS(MPI_ERR_WIN, MPI_Put(memory, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL));
    OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Put(&other, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_flush(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_complete(win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_wait(win));
    FAILS(MPI_ERR_LOCKTYPE, MPI_Win_lock(4711, 0, 0, win));
    FAILS(MPI_ERR_RANK, MPI_Win_lock(MPI_LOCK_SHARED, n_ranks, 0, win));
    FAILS(MPI_ERR_RMA_FLAVOR, MPI_Win_attach(win, memory, 4));
    OK(MPI_Win_fence(0, win));
    FAILS(MPI_ERR_RANK, MPI_Put(&other, 1, MPI_INT, n_ranks, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_COUNT, MPI_Put(&other, -1, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_TYPE, MPI_Put(&other, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Put(&other, 1, MPI_INT, 0, 4, 1, MPI_INT, win));
    FAILS(MPI_ERR_TRUNCATE, MPI_Put(memory, 2, MPI_INT, 0, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_TRUNCATE, MPI_Get(&other, 1, MPI_INT, 0, 0, 2, MPI_INT, win));
    FAILS(MPI_ERR_DISP, MPI_Get(&other, 1, MPI_INT, 0, -1, 1, MPI_INT, win));
    FAILS(MPI_ERR_OP, MPI_Accumulate(&other, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win));
    MPI_Datatype derived;
    OK(MPI_Type_contiguous(1, MPI_INT, &derived));
    OK(MPI_Type_commit(&derived));
    FAILS(MPI_ERR_TYPE, MPI_Compare_and_swap(&other, &other, &other, derived, 0, 0, win));
    FAILS(MPI_ERR_TYPE, MPI_Fetch_and_op(&other, &other, derived, 0, 0, MPI_SUM, win));
    OK(MPI_Type_free(&derived));
    OK(MPI_Put(&other, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Accumulate(NULL, 0, MPI_BYTE, 0, 0, 0, MPI_BYTE, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&other, 1, MPI_INT, my_rank, 0, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win)); /* what the fence began has been used */
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock_all(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_fence(0, win));
    FAILS(MPI_ERR_RMA_SYNC, MPI_Win_free(&win));
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, memory, sizeof memory));
    FAILS(MPI_ERR_RMA_ATTACH, MPI_Win_attach(win, memory + 1, 4));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, my_rank, 0, win));
    MPI_Aint address;
    OK(MPI_Get_address(memory, &address));
    OK(MPI_Put(&other, 1, MPI_INT, my_rank, address, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Put(&other, 1, MPI_INT, my_rank, address + sizeof memory, 1, MPI_INT, win));
    FAILS(MPI_ERR_RMA_RANGE, MPI_Get(&other, 1, MPI_INT, my_rank, 0, 1, MPI_INT, win));
    OK(MPI_Win_unlock(my_rank, win));
    OK(MPI_Win_detach(win, memory));
    FAILS(MPI_ERR_RMA_ATTACH, MPI_Win_detach(win, memory));
    MPI_Aint size;
    int unit;
    void *base;
    FAILS(MPI_ERR_RMA_FLAVOR, MPI_Win_shared_query(win, 0, &size, &unit, &base));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "served")) setenv("NEARMPI_ONE_COPY", "0", 1);
    lazy = argc > 1 && !strcmp(argv[1], "lazy");
    start(&argc, &argv);
    for (int i = 0; i < 6; i++) {
        lent = i >= 4;
        int flavour = (int[]){MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_DYNAMIC, MPI_WIN_FLAVOR_SHARED,
                              MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_DYNAMIC}[i];
        fences(flavour);
        strided(flavour);
        counters(flavour);
        lengths(flavour);
        if (n_ranks > 1) polled(flavour);
        exclusive(flavour);
        lock_all(flavour);
        neighbours(flavour);
        shorter(flavour);
        pairs(flavour);
    }
    shared();
    properties();
    if (argc > 1 && !strcmp(argv[1], "errors")) errors();
    finish();
}

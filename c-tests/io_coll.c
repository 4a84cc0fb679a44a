/* Claim: collective, split and nonblocking access to files (MPI-4.1 §14.4.2, §14.4.3, §14.4.5) moves what independent
 * access would, on several files and communicators at once; atomic files show each write whole or not at all, and the
 * others after a sync (§14.6). "strict": also atomic access to one piece of a view with holes, which MPICH 5.0.2 tears. */
#include "io.h"

static int strict;
static uint32_t dice = 77;

static int pick(int from, int to) { return from + (int)(next_random(&dice) % (unsigned)(to - from + 1)); }

/* Writes or reads `n` ints at an offset in one of twelve collective forms; the last six have large counts. */
static void put(MPI_File f, int form, MPI_Offset at, const void *b, int n, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype t = MPI_INT;
    if (form % 2 == 0)
        OK(MPI_File_seek(f, at, MPI_SEEK_SET));
    switch (form) {
    case 0: OK(MPI_File_write_all(f, b, n, t, s)); break;
    case 1: OK(MPI_File_write_at_all(f, at, b, n, t, s)); break;
    case 2: OK(MPI_File_write_all_begin(f, b, n, t)); OK(MPI_File_write_all_end(f, b, s)); break;
    case 3: OK(MPI_File_write_at_all_begin(f, at, b, n, t)); OK(MPI_File_write_at_all_end(f, b, s)); break;
    case 4: OK(MPI_File_iwrite_all(f, b, n, t, &r)); break;
    case 5: OK(MPI_File_iwrite_at_all(f, at, b, n, t, &r)); break;
    case 6: OK(MPI_File_write_all_c(f, b, n, t, s)); break;
    case 7: OK(MPI_File_write_at_all_c(f, at, b, n, t, s)); break;
    case 8: OK(MPI_File_write_all_begin_c(f, b, n, t)); OK(MPI_File_write_all_end(f, b, s)); break;
    case 9: OK(MPI_File_write_at_all_begin_c(f, at, b, n, t)); OK(MPI_File_write_at_all_end(f, b, s)); break;
    case 10: OK(MPI_File_iwrite_all_c(f, b, n, t, &r)); break;
    case 11: OK(MPI_File_iwrite_at_all_c(f, at, b, n, t, &r)); break;
    }
    if (form % 6 > 3) OK(MPI_Wait(&r, s));
}

static void get(MPI_File f, int form, MPI_Offset at, void *b, int n, MPI_Status *s)
{
    MPI_Request r = MPI_REQUEST_NULL;
    MPI_Datatype t = MPI_INT;
    if (form % 2 == 0)
        OK(MPI_File_seek(f, at, MPI_SEEK_SET));
    switch (form) {
    case 0: OK(MPI_File_read_all(f, b, n, t, s)); break;
    case 1: OK(MPI_File_read_at_all(f, at, b, n, t, s)); break;
    case 2: OK(MPI_File_read_all_begin(f, b, n, t)); OK(MPI_File_read_all_end(f, b, s)); break;
    case 3: OK(MPI_File_read_at_all_begin(f, at, b, n, t)); OK(MPI_File_read_at_all_end(f, b, s)); break;
    case 4: OK(MPI_File_iread_all(f, b, n, t, &r)); break;
    case 5: OK(MPI_File_iread_at_all(f, at, b, n, t, &r)); break;
    case 6: OK(MPI_File_read_all_c(f, b, n, t, s)); break;
    case 7: OK(MPI_File_read_at_all_c(f, at, b, n, t, s)); break;
    case 8: OK(MPI_File_read_all_begin_c(f, b, n, t)); OK(MPI_File_read_all_end(f, b, s)); break;
    case 9: OK(MPI_File_read_at_all_begin_c(f, at, b, n, t)); OK(MPI_File_read_at_all_end(f, b, s)); break;
    case 10: OK(MPI_File_iread_all_c(f, b, n, t, &r)); break;
    case 11: OK(MPI_File_iread_at_all_c(f, at, b, n, t, &r)); break;
    }
    if (form % 6 > 3) OK(MPI_Wait(&r, s));
}

/* Pieces of random lengths belong to the ranks in turn, or to one that has them all; holes stay as they were. */
static void shares_out(void)
{
    enum { PIECES = 60, MOST = PIECES * 1500 };
    const int parts = n_ranks > 2 ? 1 : 2; /* MPICH 5.0.2 is slow where ranks share CPUs */
    int *model = need(4 * MOST), *mine = need(4 * MOST), lengths[PIECES], rank_of[PIECES], own_lengths[PIECES];
    MPI_Aint places[PIECES], own_places[PIECES];
    MPI_Status status;
    prepare("shares", 4 * MOST, 1);
    fill(model, 4 * MOST, 1);
    MPI_File f = opened(MPI_COMM_WORLD, "shares", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    for (int form = 0; form < 6; form++) {
        int next = pick(0, 100), only = form % 4 == 3 ? pick(0, n_ranks - 1) : -1, skip = pick(0, 9);
        for (int k = 0; k < PIECES; k++) {
            rank_of[k] = only < 0 ? (k + form) % n_ranks : only;
            places[k] = 4 * next;
            lengths[k] = pick(1, pick(0, 9) ? 50 : 1200);
            next += lengths[k] + pick(0, 1) * pick(0, 80);
        }
        for (int reading = 0; reading < 2; reading++) {
            int who = reading ? n_ranks - 1 - my_rank : my_rank, n = 0, size = 0;
            for (int k = 0; k < PIECES; k++)
                if (rank_of[k] == who) own_lengths[n] = lengths[k], own_places[n++] = places[k], size += lengths[k];
            MPI_Datatype type = blocks(n, own_lengths, own_places, MPI_INT, 0, 4 * next);
            view(f, 0, MPI_INT, type);
            int count = size > skip ? size - skip : 0, i = -skip;
            for (int m = 0; m < count; m++) mine[m] = reading ? -1 : form << 24 | my_rank << 20 | m;
            for (int part = 0; part < parts; part++) { /* the second half with a large count */
                int at = part * (count / 2), length = part == parts - 1 ? count - at : count / 2;
                if (reading) get(f, form + 6 * part, skip + at, mine + at, length, &status);
                else put(f, form + 6 * part, skip + at, mine + at, length, &status);
                IS(count_of(&status, MPI_INT), length);
            }
            if (form % 2 == 0) IS(position(f), skip + count);
            for (int k = 0; k < n; k++)
                for (int m = 0; m < own_lengths[k]; m++, i++)
                    if (reading && i >= 0) IS(mine[i], model[own_places[k] / 4 + m]);
            int order[64] = {0};
            for (int k = 0; k < PIECES && !reading; k++)
                for (int m = 0; m < lengths[k]; m++) {
                    int at = order[rank_of[k]]++ - skip;
                    if (at >= 0) model[places[k] / 4 + m] = form << 24 | rank_of[k] << 20 | at;
                }
            OK(MPI_Type_free(&type));
            if (reading) OK(MPI_Barrier(MPI_COMM_WORLD)); /* before the next one is written */
            else settle(f);
        }
    }
    int *bytes = (int *)contents(f, "shares", 4 * MOST);
    for (int i = 0; i < MOST; i++) CHECK(bytes[i] == model[i], "int %d is %x, expected %x", i, bytes[i], model[i]);
    OK(MPI_File_close(&f));
    free(bytes), free(model), free(mine);
}

/* One split access a file at a time, and its end is of its kind. */
static void splits(void)
{
    int a[4] = {my_rank, 1, 2, 3}, b[64];
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, "split", PASSING), g = opened(MPI_COMM_WORLD, "split too", PASSING);
    FAILS(MPI_ERR_IO, MPI_File_write_all_end(f, a, &status));
    OK(MPI_File_write_at_all_begin(f, 4 * my_rank, a, 1, MPI_INT));
    OK(MPI_File_write_all_begin(g, a, 4, MPI_INT)); /* another file */
    FAILS(MPI_ERR_IO, MPI_File_write_all_begin(f, a, 4, MPI_INT));
    FAILS(MPI_ERR_IO, MPI_File_write_ordered_begin(f, a, 4, MPI_INT));
    FAILS(MPI_ERR_IO, MPI_File_read_at_all_begin(f, 0, b, 4, MPI_INT));
    OK(MPI_File_write_at_all_end(f, a, &status));
    IS(count_of(&status, MPI_INT), 1);
    FAILS(MPI_ERR_IO, MPI_File_write_at_all_end(f, a, &status));
    OK(MPI_File_write_all_end(g, a, MPI_STATUS_IGNORE));
    IS(position(f), 0);
    IS(position(g), 16);
    settle(f);
    OK(MPI_File_read_all_begin(f, b, n_ranks, MPI_INT));
    OK(MPI_File_read_all_end(f, b, &status));
    IS(count_of(&status, MPI_INT), n_ranks);
    for (int i = 0; i < n_ranks; i++) IS(b[i], i);
    OK(MPI_File_close(&f));
    OK(MPI_File_close(&g));
}

/* Many requests of files and messages at the same time. */
static void overlaps(void)
{
    enum { N = 24, LENGTH = 3000 };
    static int out[N][LENGTH], in[N][LENGTH];
    MPI_Request requests[N + 4];
    MPI_Status statuses[N + 4], status;
    int got = -1, flag = 0, left = (my_rank + n_ranks - 1) % n_ranks, right = (my_rank + 1) % n_ranks;
    MPI_File f = opened(MPI_COMM_WORLD, "overlap", PASSING);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < LENGTH; k++) out[i][k] = my_rank << 24 | i << 16 | k;
    view(f, (MPI_Offset)my_rank * sizeof out, MPI_INT, MPI_INT);
    OK(MPI_Irecv(&got, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[N]));
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0) OK(MPI_File_iwrite(f, out[i / 3], LENGTH, MPI_INT, &requests[i])); /* 0 to 7 */
        else if (i % 3 == 1) OK(MPI_File_iwrite_at(f, (8 + i / 3) * LENGTH, out[8 + i / 3], LENGTH, MPI_INT, &requests[i]));
        else OK(MPI_File_iwrite_at_c(f, (16 + i / 3) * LENGTH, out[16 + i / 3], LENGTH, MPI_INT, &requests[i]));
    }
    IS(position(f), 8 * LENGTH);
    OK(MPI_File_iwrite(f, out, 0, MPI_INT, &requests[N + 1]));
    OK(MPI_File_iread_at(f, 10000000, in, 5, MPI_INT, &requests[N + 2])); /* beyond the end */
    OK(MPI_Isend(&my_rank, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[N + 3]));
    OK(MPI_Waitall(N + 4, requests, statuses));
    for (int i = 0; i < N + 4; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is there after its end", i);
        if (i != N + 3) IS(count_of(&statuses[i], MPI_INT), i < N ? LENGTH : i == N);
    }
    IS(got, left);
    settle(f);
    view(f, (MPI_Offset)left * sizeof out, MPI_INT, MPI_INT);
    for (int i = 0; i < N; i++) {
        if (i % 2) OK(MPI_File_iread(f, in[i], LENGTH, MPI_INT, &requests[i]));
        else OK(MPI_File_iread_c(f, in[i], LENGTH, MPI_INT, &requests[i]));
    }
    IS(position(f), N * LENGTH);
    for (int i = N; i--; flag = 0) {
        while (!flag) OK(MPI_Test(&requests[i], &flag, &status));
        IS(count_of(&status, MPI_INT), LENGTH);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < LENGTH; k++) IS(in[i][k], left << 24 | i << 16 | k);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    view(f, 0, MPI_INT, MPI_INT);
    for (int i = 0; i < 4; i++) /* several collective ones in order */
        OK(MPI_File_iwrite_at_all(f, (i * n_ranks + my_rank) * LENGTH, out[i], LENGTH, MPI_INT, &requests[i]));
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    settle(f);
    for (int i = 0; i < 4; i++) OK(MPI_File_iread_at_all(f, (i * n_ranks + left) * LENGTH, in[i], LENGTH, MPI_INT, &requests[i]));
    OK(MPI_Waitall(4, requests, statuses));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < LENGTH; k++) IS(in[i][k], left << 24 | i << 16 | k);
    OK(MPI_File_close(&f));
}

/* Nonblocking access with the shared pointer: each piece once. */
static void shares_pointer(void)
{
    enum { N = 10 };
    int values[N], all[64 * N], seen[64 * N] = {0};
    MPI_Request requests[N];
    MPI_Status statuses[N];
    MPI_File f = opened(MPI_COMM_WORLD, "pointer", PASSING);
    for (int i = 0; i < N; i++) {
        values[i] = my_rank * N + i;
        if (i % 2) OK(MPI_File_iwrite_shared(f, values + i, 1, MPI_INT, &requests[i]));
        else OK(MPI_File_iwrite_shared_c(f, values + i, 1, MPI_INT, &requests[i]));
    }
    OK(MPI_Waitall(N, requests, statuses));
    for (int i = 0; i < N; i++) IS(count_of(&statuses[i], MPI_INT), 1);
    settle(f);
    IS(size_of(f), 4 * N * n_ranks);
    OK(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
    for (int i = 0; i < N; i++) {
        if (i % 2) OK(MPI_File_iread_shared(f, values + i, 1, MPI_INT, &requests[i]));
        else OK(MPI_File_iread_shared_c(f, values + i, 1, MPI_INT, &requests[i]));
    }
    OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Allgather(values, N, MPI_INT, all, N, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n_ranks * N; i++) {
        CHECK(all[i] >= 0 && all[i] < n_ranks * N, "read %d", all[i]);
        seen[all[i]]++;
    }
    for (int i = 0; i < n_ranks * N; i++) CHECK(seen[i] == 1, "%d came %d times", i, seen[i]);
    OK(MPI_File_close(&f));
}

/* A file of the world and one of each half, used in turns. */
static void halves(void)
{
    MPI_Comm half;
    int rank, size, values[64], there[64];
    MPI_Request requests[2];
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, -my_rank, &half));
    OK(MPI_Comm_rank(half, &rank));
    OK(MPI_Comm_size(half, &size));
    MPI_File all = opened(MPI_COMM_WORLD, "all", PASSING), part = opened(half, my_rank % 2 ? "odd" : "even", PASSING);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 20; k++) values[k] = my_rank * 100 + i * 20 + k;
        OK(MPI_File_write_at_all(part, (i * size + rank) * 80, values, 20, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_iwrite_at_all(all, (i * n_ranks + my_rank) * 80, values, 20, MPI_INT, &requests[0]));
        OK(MPI_File_iwrite_at_all(part, (i * size + rank) * 80, values, 20, MPI_INT, &requests[1]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    settle(all);
    OK(MPI_File_sync(part));
    IS(size_of(all), n_ranks * 240);
    IS(size_of(part), size * 240);
    for (int i = 0; i < 3; i++) {
        int other = size - 1 - rank, its = my_rank % 2 + 2 * (size - 1 - other);
        OK(MPI_File_read_at_all(part, (i * size + other) * 80, there, 20, MPI_INT, MPI_STATUS_IGNORE));
        for (int k = 0; k < 20; k++) IS(there[k], its * 100 + i * 20 + k);
        OK(MPI_File_read_at(all, (i * n_ranks + its) * 80, there, 20, MPI_INT, MPI_STATUS_IGNORE));
        for (int k = 0; k < 20; k++) IS(there[k], its * 100 + i * 20 + k);
    }
    OK(MPI_File_close(&part));
    OK(MPI_File_close(&all));
    OK(MPI_Comm_free(&half));
}

/* All write their records to the same place: a read shows one of them, whole. */
static void atoms(int piece, int n, int gap)
{
    int flag = -1, length = piece * n;
    unsigned char *record = need(length);
    MPI_Datatype type = blocks(1, &piece, (MPI_Aint[]){0}, MPI_BYTE, 0, piece + gap);
    MPI_File f = opened(MPI_COMM_WORLD, "atom", PASSING);
    OK(MPI_File_get_atomicity(f, &flag));
    IS(flag, 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_atomicity(f, 1));
    OK(MPI_File_get_atomicity(f, &flag));
    IS(flag, 1);
    view(f, 5, MPI_BYTE, type);
    for (int round = 0; round < 300; round++) {
        memset(record, 1 + (my_rank * 61 + round) % 251, length);
        OK(MPI_File_write_at(f, 0, record, length, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_read_at(f, 0, record, length, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(record[0], "a record of nobody");
        for (int i = 1; i < length; i++) CHECK(record[i] == record[0], "byte %d of %d, one of %d", i, record[i], record[0]);
    }
    OK(MPI_File_set_atomicity(f, 0));
    OK(MPI_File_get_atomicity(f, &flag));
    IS(flag, 0);
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&type));
    free(record);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the file is gone */
}

/* What was written before a sync is read after it. */
static void syncs(void)
{
    int value, wanted;
    MPI_File f = opened(MPI_COMM_WORLD, "sync", PASSING);
    for (int round = 0; round < 3; round++) {
        wanted = 1000 + round;
        if (my_rank == round % n_ranks)
            OK(MPI_File_write_at(f, 40, &wanted, 1, MPI_INT, MPI_STATUS_IGNORE));
        settle(f);
        OK(MPI_File_read_at(f, 40, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        IS(value, wanted);
        settle(f);
    }
    OK(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1;
    enter();
    shares_out();
    splits();
    overlaps();
    shares_pointer();
    halves();
    atoms(100000, 1, 0);
    atoms(500, 100, 1000);
    if (strict) atoms(100000, 1, 1000);
    syncs();
    leave();
    return finish();
}

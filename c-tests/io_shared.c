/* Claim: what ranks write and read with the shared file pointer (MPI-4.1 §14.4.4) is in the file once each and whole, the
 * ordered calls go in the order of the ranks, and the pointer is the same one for all ranks of an open file and no others.
 * "strict": also where the same file is open twice, for which MPICH 5.0.2 has one pointer if that is in the same second, and
 * where one rank seeks while others still write, for which it does not wait. */
#include "io.h"

static int strict;
enum { RECORDS = 25, RECORD = 24 };

static MPI_Offset shared(MPI_File f)
{
    MPI_Offset at = -1;
    OK(MPI_File_get_position_shared(f, &at));
    return at;
}

/* Lengths of the records of a rank: some small, some of several pages. */
static int length_of(int rank, int i) { return 12 + (i * 7 + rank * 3) % 50 + (i % 10 == rank ? 9000 : 0); }

/* Records of length, rank, number and bytes, from all ranks at the same time. */
static void writes(void)
{
    size_t total = 0, at = 0;
    int next[64] = {0};
    unsigned char record[10000];
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, "write", PASSING);
    for (int i = 0; i < RECORDS; i++) {
        int head[3] = {length_of(my_rank, i), my_rank, i};
        memcpy(record, head, 12);
        fill(record + 12, head[0] - 12, my_rank * 100 + i);
        OK(MPI_File_write_shared(f, record, head[0], MPI_BYTE, &status));
        IS(count_of(&status, MPI_BYTE), head[0]);
    }
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; i < RECORDS; i++) total += length_of(r, i);
    IS(position(f), 0);
    unsigned char *bytes = contents(f, "write", total);
    IS(shared(f), total);
    for (int n = 0; n < n_ranks * RECORDS; n++) {
        int head[3];
        memcpy(head, bytes + at, 12);
        CHECK(head[1] >= 0 && head[1] < n_ranks, "record %d at %zu is of rank %d", n, at, head[1]);
        IS(head[2], next[head[1]]++); /* those of one rank keep their order */
        IS(head[0], length_of(head[1], head[2]));
        CHECK_BYTES(bytes + at + 12, head[0] - 12, head[1] * 100 + head[2]);
        at += head[0];
    }
    IS(at, total);
    free(bytes);
    OK(MPI_File_close(&f));
}

/* All ranks read until there is nothing more: each record comes to one of them. */
static void reads(void)
{
    enum { MOST = 64 * RECORDS };
    int seen[MOST] = {0}, last = -1, n = n_ranks * RECORDS, amodes[] = {MPI_MODE_RDWR, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL};
    MPI_Status status;
    prepare("read", (size_t)n * RECORD, 3);
    for (int a = 0; a < 2; a++, last = -1) {
        MPI_File f = opened(MPI_COMM_WORLD, "read", amodes[a]);
        memset(seen, 0, sizeof seen);
        for (;;) {
            unsigned char record[RECORD], wanted[RECORD];
            int which = 0;
            OK(MPI_File_read_shared(f, record, RECORD / 4, MPI_INT, &status));
            if (count_of(&status, MPI_BYTE) == 0) break;
            IS(count_of(&status, MPI_INT), RECORD / 4);
            for (; which < n; which++) {
                for (int i = 0; i < RECORD; i++) wanted[i] = byte_at(3, which * RECORD + i);
                if (!memcmp(wanted, record, RECORD)) break;
            }
            CHECK(which < n && which > last, "got record %d after %d", which, last);
            last = which;
            seen[which]++;
        }
        OK(MPI_Allreduce(MPI_IN_PLACE, seen, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < n; i++) CHECK(seen[i] == 1, "record %d came %d times", i, seen[i]);
        OK(MPI_File_close(&f));
    }
    discard("read");
}

/* How many ints a rank has in a round: none for some. */
static int share(int rank, int round) { return round == 3 ? 0 : (rank + round) % 3 * 5 + (round == 2 && rank == 0 ? 3000 : 0); }

/* Ordered calls in their four forms, ints of all ranks one after another. */
static void orders(int form)
{
    enum { ROUNDS = 4 };
    int values[4000], next = 0;
    MPI_Offset total = 0;
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, (char[]){'o', '0' + form, 0}, PASSING);
    for (int round = 0; round < ROUNDS; round++) {
        int before = 0, n = share(my_rank, round);
        for (int r = 0; r < my_rank; r++) before += share(r, round);
        for (int i = 0; i < n; i++) values[i] = next + before + i;
        switch (form) {
        case 0: OK(MPI_File_write_ordered(f, values, n, MPI_INT, &status)); break;
        case 1: OK(MPI_File_write_ordered_c(f, values, n, MPI_INT, &status)); break;
        case 2: OK(MPI_File_write_ordered_begin(f, values, n, MPI_INT)); break;
        default: OK(MPI_File_write_ordered_begin_c(f, values, n, MPI_INT));
        }
        if (form > 1) OK(MPI_File_write_ordered_end(f, values, &status));
        IS(count_of(&status, MPI_INT), n);
        for (int r = 0; r < n_ranks; r++) next += share(r, round);
    }
    total = next;
    IS(position(f), 0);
    settle(f);
    IS(size_of(f), 4 * total);
    IS(shared(f), 4 * total);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
    next = 0;
    for (int round = ROUNDS - 1; round >= 0; round--) {
        int before = 0, n = share(my_rank, round);
        for (int r = 0; r < my_rank; r++) before += share(r, round);
        switch (form) {
        case 0: OK(MPI_File_read_ordered(f, values, n, MPI_INT, &status)); break;
        case 1: OK(MPI_File_read_ordered_c(f, values, n, MPI_INT, &status)); break;
        case 2: OK(MPI_File_read_ordered_begin(f, values, n, MPI_INT)); break;
        default: OK(MPI_File_read_ordered_begin_c(f, values, n, MPI_INT));
        }
        if (form > 1) OK(MPI_File_read_ordered_end(f, values, &status));
        IS(count_of(&status, MPI_INT), n);
        for (int i = 0; i < n; i++) IS(values[i], next + before + i);
        for (int r = 0; r < n_ranks; r++) next += share(r, round);
    }
    OK(MPI_File_close(&f));
}

/* Whoever moves the pointer, all have it moved. */
static void seeks(void)
{
    unsigned char byte = 0;
    prepare("seek", 1000, 4);
    MPI_File f = opened(MPI_COMM_WORLD, "seek", MPI_MODE_RDWR);
    const struct { MPI_Offset by; int whence; MPI_Offset at; } steps[] = {
        {10, MPI_SEEK_SET, 10}, {-3, MPI_SEEK_CUR, 7}, {-1, MPI_SEEK_END, 999}, {1ll << 40, MPI_SEEK_CUR, 999 + (1ll << 40)},
        {0, MPI_SEEK_SET, 0}, {300, MPI_SEEK_SET, 300}};
    IS(shared(f), 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        OK(MPI_File_seek_shared(f, steps[i].by, steps[i].whence));
        IS(shared(f), steps[i].at);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_File_seek(f, 500 + my_rank, MPI_SEEK_SET)); /* the individual pointers are others */
    IS(shared(f), 300);
    OK(MPI_File_read_at(f, 20, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    IS(shared(f), 300);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == n_ranks - 1) {
        OK(MPI_File_read_shared_c(f, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        IS(byte, byte_at(4, 300));
        OK(MPI_File_write_shared_c(f, "x", 1, MPI_BYTE, MPI_STATUS_IGNORE));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    IS(shared(f), 302);
    IS(position(f), 500 + my_rank);
    OK(MPI_File_read(f, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    IS(byte, byte_at(4, 500 + my_rank));
    OK(MPI_File_close(&f));
    f = opened(MPI_COMM_WORLD, "seek", MPI_MODE_RDWR | MPI_MODE_APPEND);
    IS(shared(f), 1000);
    OK(MPI_File_close(&f));
    discard("seek");
}

/* Who seeks first waits for what others do with the pointer before they seek; so it is with a view that begins there. */
static void waits(void)
{
    MPI_File f = opened(MPI_COMM_WORLD, "wait", PASSING);
    for (int i = 1; i <= 20; i++) {
        usleep(my_rank == i % n_ranks ? 2000 : 0);
        OK(MPI_File_write_shared(f, &i, 1, MPI_INT, MPI_STATUS_IGNORE));
        OK(MPI_File_seek_shared(f, 1, MPI_SEEK_CUR));
        IS(shared(f), i * (4 * n_ranks + 1));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_File_close(&f));
    f = opened(MPI_COMM_WORLD, "wait", MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE);
    for (int i = 1; i <= 20; i++) {
        MPI_Offset disp = -1;
        MPI_Datatype etype, filetype;
        char datarep[MPI_MAX_DATAREP_STRING];
        usleep(my_rank == i % n_ranks ? 2000 : 0);
        OK(MPI_File_write_shared(f, &i, 1, MPI_INT, MPI_STATUS_IGNORE));
        view(f, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE);
        OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
        IS(disp, 4 * i * n_ranks);
    }
    OK(MPI_File_close(&f));
}

/* The pointer counts etypes of the view, which all ranks have alike, and a new view puts it back. */
static void follows_view(void)
{
    enum { LENGTH = 4000 };
    unsigned char expected[LENGTH];
    MPI_Datatype record, type;
    int pairs = n_ranks * 3 + 2, three[9];
    fill(expected, LENGTH, 5);
    OK(MPI_Type_contiguous(3, MPI_INT, &record));
    OK(MPI_Type_commit(&record));
    type = blocks(2, (int[]){1, 1}, (MPI_Aint[]){2, 20}, record, 0, 40);
    prepare("view", LENGTH, 5);
    MPI_File f = opened(MPI_COMM_WORLD, "view", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_seek_shared(f, 11, MPI_SEEK_SET));
    view(f, 7, record, type);
    IS(shared(f), 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 9; i++) three[i] = my_rank * 100 + i;
    OK(MPI_File_write_ordered(f, three, 3, record, MPI_STATUS_IGNORE));
    OK(MPI_File_write_ordered(f, three, my_rank ? 0 : 2, record, MPI_STATUS_IGNORE));
    IS(shared(f), pairs);
    for (int i = 0; i < pairs; i++)
        for (int k = 0; k < 3; k++) {
            int value = i < 3 * n_ranks ? i / 3 * 100 + i % 3 * 3 + k : (i - 3 * n_ranks) * 3 + k;
            memcpy(expected + 7 + i / 2 * 40 + (i % 2 ? 20 : 2) + 4 * k, &value, 4);
        }
    unsigned char *bytes = contents(f, "view", LENGTH);
    for (int i = 0; i < LENGTH; i++) CHECK(bytes[i] == expected[i], "byte %d", i);
    free(bytes);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(f, -pairs, MPI_SEEK_CUR));
    memset(three, 0, sizeof three);
    OK(MPI_File_read_shared(f, three, 1, record, MPI_STATUS_IGNORE));
    CHECK(three[0] % 100 % 3 == 0 && three[1] == three[0] + 1 && three[2] == three[0] + 2, "%d, %d", three[0], three[1]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    IS(shared(f), n_ranks);
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&record));
}

/* Each open file has a pointer of its own, also where two are the same file. */
static void keeps_apart(void)
{
    MPI_Comm half;
    int members, mine = -1;
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, my_rank, &half));
    OK(MPI_Comm_size(half, &members));
    MPI_File f = opened(MPI_COMM_WORLD, "apart", MADE), again = opened(MPI_COMM_WORLD, "apart", MADE);
    MPI_File own_half = opened(half, my_rank % 2 ? "apart 1" : "apart 0", PASSING);
    OK(MPI_File_write_shared(own_half, &my_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_write_ordered(f, &my_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    IS(shared(own_half), 4 * members);
    IS(shared(f), 4 * n_ranks);
    if (strict) IS(shared(again), 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(again, 0, MPI_SEEK_SET));
    settle(f);
    OK(MPI_File_read_ordered(again, &mine, 1, MPI_INT, MPI_STATUS_IGNORE));
    IS(mine, my_rank);
    OK(MPI_File_close(&own_half));
    OK(MPI_File_close(&again));
    OK(MPI_File_close(&f));
    OK(MPI_Comm_free(&half));
    discard("apart");
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1;
    enter();
    writes();
    reads();
    for (int form = 0; form < 4; form++) orders(form);
    seeks();
    if (strict)
        waits();
    follows_view();
    keeps_apart();
    leave();
    return finish();
}

/* Claim: files open, close, grow and vanish as MPI-4.1 §14.2 says, and data access with individual file pointers and
 * explicit offsets (§14.4.2, §14.4.3) moves what it says and tells how much that was.
 * "strict": also for a short read into memory with gaps, which MPICH 5.0.2 calls whole. */
#include "io.h"
#include <sys/mman.h>

static int strict;

static void opens(void)
{
    MPI_Comm reversed;
    MPI_Group of_file, of_comm;
    int same = -1;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -my_rank, &reversed));
    OK(MPI_Comm_group(reversed, &of_comm));
    MPI_File f = opened(reversed, "open", MADE);
    OK(MPI_Comm_free(&reversed)); /* the file needs it no longer */
    OK(MPI_File_get_group(f, &of_file));
    OK(MPI_Group_compare(of_file, of_comm, &same));
    CHECK(same == MPI_IDENT, "the group of the file is not that of the communicator: %d", same);
    OK(MPI_Group_free(&of_file));
    OK(MPI_Group_free(&of_comm));
    IS(size_of(f), 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_write_at(f, my_rank * 4, &my_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&f));
    CHECK(f == MPI_FILE_NULL, "the handle is not null after the end");
    CHECK(!access(name("open"), R_OK | W_OK), "there is no file");
    OK(MPI_Barrier(MPI_COMM_WORLD));

    f = opened(MPI_COMM_WORLD, "open", MADE); /* does not truncate */
    int there = -1;
    IS(size_of(f), 4 * n_ranks);
    OK(MPI_File_read_at(f, (n_ranks - 1) * 4, &there, 1, MPI_INT, MPI_STATUS_IGNORE));
    IS(there, n_ranks - 1);
    OK(MPI_File_close(&f));
    discard("open");
}

static void amodes(void)
{
    const int some[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR, MADE, MPI_MODE_WRONLY | MPI_MODE_CREATE,
                        MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_MODE_RDONLY | MPI_MODE_UNIQUE_OPEN,
                        MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                        PASSING | MPI_MODE_EXCL};
    prepare("amode", 100, 1);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        int amode = -1;
        MPI_File f = opened(MPI_COMM_WORLD, "amode", some[i]);
        OK(MPI_File_get_amode(f, &amode));
        IS(amode, some[i]);
        OK(MPI_File_close(&f));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(!access(name("amode"), F_OK) == !(some[i] & MPI_MODE_DELETE_ON_CLOSE), "amode %d: after the end", amode);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

static void informs(void)
{
    MPI_Info given, got;
    MPI_File f;
    int n = -1;
    OK(MPI_Info_create(&given));
    OK(MPI_Info_set(given, "access_style", "read_once,sequential"));
    OK(MPI_Info_set(given, "nobody knows it", "at all"));
    OK(MPI_File_open(MPI_COMM_WORLD, name("info"), PASSING, given, &f));
    OK(MPI_File_set_info(f, given));
    OK(MPI_File_get_info(f, &got));
    CHECK(got != MPI_INFO_NULL && got != given, "not a new info object");
    OK(MPI_Info_get_nkeys(got, &n));
    CHECK(n >= 0, "%d hints", n);
    OK(MPI_File_set_info(f, got));
    OK(MPI_Info_free(&got));
    OK(MPI_Info_free(&given));
    OK(MPI_File_close(&f));
}

static void sizes(void)
{
    unsigned char bytes[100];
    prepare("size", 100, 2);
    MPI_File f = opened(MPI_COMM_WORLD, "size", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    OK(MPI_File_seek(f, 90, MPI_SEEK_SET));
    const MPI_Offset to[] = {1000, 5000000000, 60, 0, 70};
    for (int i = 0; i < 5; i++) {
        OK(MPI_File_set_size(f, to[i]));
        IS(size_of(f), to[i]);
        if (to[i] >= 60) {
            OK(MPI_File_read_at(f, 0, bytes, 60, MPI_BYTE, MPI_STATUS_IGNORE));
            if (i < 4) CHECK_BYTES(bytes, 60, 2);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    IS(position(f), 90);
    OK(MPI_File_write_at(f, 0, "\7\10\11", 3, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_preallocate(f, 300000));
    IS(size_of(f), 300000);
    OK(MPI_File_preallocate(f, 10)); /* takes nothing back */
    IS(size_of(f), 300000);
    OK(MPI_File_read_at(f, 0, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(bytes[0] == 7 && bytes[1] == 8 && bytes[2] == 9, "storage for a file has changed it");
    OK(MPI_File_close(&f));
}

static void seeks(void)
{
    unsigned char byte;
    prepare("seek", 1000, 3);
    MPI_File f = opened(MPI_COMM_WORLD, "seek", MPI_MODE_RDONLY);
    IS(position(f), 0);
    const struct { MPI_Offset by; int whence; MPI_Offset at; } steps[] = {
        {10, MPI_SEEK_SET, 10},   {5, MPI_SEEK_CUR, 15},         {-12, MPI_SEEK_CUR, 3},  {0, MPI_SEEK_END, 1000},
        {-1, MPI_SEEK_END, 999},  {500, MPI_SEEK_END, 1500},     {-1000, MPI_SEEK_END, 0}, {1ll << 40, MPI_SEEK_SET, 1ll << 40},
        {-1, MPI_SEEK_CUR, (1ll << 40) - 1}, {0, MPI_SEEK_SET, 0}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        OK(MPI_File_seek(f, steps[i].by, steps[i].whence));
        IS(position(f), steps[i].at);
    }
    IS(size_of(f), 1000);
    OK(MPI_File_seek(f, 100 * my_rank, MPI_SEEK_SET)); /* each rank has its own pointer */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_read(f, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    IS(byte, byte_at(3, 100 * my_rank));
    IS(position(f), 100 * my_rank + 1);
    OK(MPI_File_close(&f));
    discard("seek");
}

/* Individual pointers go on by what was moved, explicit offsets leave them. */
static void moves(void)
{
    enum { N = 500 };
    int values[N], back[N];
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, "move", PASSING);
    for (int i = 0; i < N; i++) values[i] = my_rank * 1000 + i;
    OK(MPI_File_seek(f, (MPI_Offset)my_rank * sizeof values, MPI_SEEK_SET));
    OK(MPI_File_write(f, values, 300, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 300);
    IS(position(f), my_rank * sizeof values + 1200);
    OK(MPI_File_write(f, values + 300, 200, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 200);
    settle(f);
    int left = (my_rank + n_ranks - 1) % n_ranks;
    MPI_Offset before = position(f);
    OK(MPI_File_read_at(f, (MPI_Offset)left * sizeof values + 4, back, N - 1, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), N - 1);
    for (int i = 0; i < N - 1; i++) IS(back[i], left * 1000 + i + 1);
    IS(position(f), before);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_write_at(f, (MPI_Offset)my_rank * sizeof values + 8, &(int){-5}, 1, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 1);
    IS(position(f), before);
    OK(MPI_File_seek(f, -(MPI_Offset)sizeof values, MPI_SEEK_CUR));
    OK(MPI_File_read(f, back, 3, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 3);
    IS(back[0], values[0]);
    IS(back[2], -5);
    OK(MPI_File_close(&f));
}

static void appends(void)
{
    unsigned char bytes[80];
    prepare("append", 50, 4);
    MPI_File f = opened(MPI_COMM_WORLD, "append", MPI_MODE_RDWR | MPI_MODE_APPEND);
    IS(position(f), 50);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == n_ranks - 1) {
        fill(bytes, 30, 5);
        OK(MPI_File_write(f, bytes, 30, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_write_at(f, 10, bytes, 5, MPI_BYTE, MPI_STATUS_IGNORE)); /* only the pointer was at the end */
    }
    OK(MPI_File_close(&f));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    f = opened(MPI_COMM_WORLD, "append", MPI_MODE_RDONLY);
    IS(size_of(f), 80);
    OK(MPI_File_read(f, bytes, 80, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_BYTES(bytes, 10, 4);
    CHECK_BYTES(bytes + 10, 5, 5);
    for (int i = 15; i < 50; i++) IS(bytes[i], byte_at(4, i));
    CHECK_BYTES(bytes + 50, 30, 5);
    OK(MPI_File_close(&f));
    discard("append");
}

/* A read that meets the end of the file tells what there was, and leaves the rest of the buffer. */
static void falls_short(void)
{
    unsigned char bytes[200];
    MPI_Status status;
    prepare("short", 42, 6);
    MPI_File f = opened(MPI_COMM_WORLD, "short", MPI_MODE_RDONLY);
    memset(bytes, 0xee, sizeof bytes);
    OK(MPI_File_read_at(f, 20, bytes, 6, MPI_INT, &status));
    IS(count_of(&status, MPI_BYTE), 22);
    IS(count_of(&status, MPI_INT), MPI_UNDEFINED);
    for (int i = 0; i < 22; i++) IS(bytes[i], byte_at(6, 20 + i));
    CHECK_GUARD(bytes, 22, sizeof bytes, 0xee);
    OK(MPI_File_read_at(f, 42, bytes, 6, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 0);
    OK(MPI_File_read_at(f, 1ll << 41, bytes, 6, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 0);
    OK(MPI_File_read(f, bytes, 200, MPI_BYTE, &status));
    IS(count_of(&status, MPI_BYTE), 42);
    CHECK_BYTES(bytes, 42, 6);
    CHECK_GUARD(bytes, 42, sizeof bytes, 0xee);
    OK(MPI_File_close(&f));
    discard("short");
}

static void moves_nothing(void)
{
    int nothing = 3, n = -1;
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, "nothing", PASSING);
    OK(MPI_File_seek(f, 1000, MPI_SEEK_SET));
    OK(MPI_File_write(f, NULL, 0, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 0);
    OK(MPI_File_read(f, &nothing, 0, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 0);
    OK(MPI_File_write_at(f, 5000, &nothing, 0, MPI_INT, &status));
    OK(MPI_Get_elements(&status, MPI_INT, &n));
    IS(n, 0);
    IS(size_of(f), 0);
    IS(position(f), 1000);
    OK(MPI_File_close(&f));
}

/* Element i of the numbers from 0 in threes, each three in the order 1, -1, 0 from its first one. */
static int shuffled(int i) { return 1 + i / 3 * 3 + (i % 3 == 0) - (i % 3 == 1); }

/* Types with gaps, lower bounds and elements in disorder are packed in the file in the order of the type. */
static void packs(void)
{
    enum { N = 12 };
    int memory[3 * N], back[3 * N], n = -1;
    MPI_Datatype every_third, disorder;
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_SELF, own("pack"), PASSING);
    for (int i = 0; i < 3 * N; i++) memory[i] = i;
    OK(MPI_Type_vector(N, 1, 3, MPI_INT, &every_third));
    OK(MPI_Type_create_indexed_block(3, 1, (int[]){1, -1, 0}, MPI_INT, &disorder));
    OK(MPI_Type_commit(&every_third));
    OK(MPI_Type_commit(&disorder));

    OK(MPI_File_write(f, memory, 1, every_third, &status));
    IS(count_of(&status, every_third), 1);
    OK(MPI_File_write(f, memory + 1, N, disorder, &status));
    IS(count_of(&status, disorder), N);
    OK(MPI_Get_elements(&status, disorder, &n));
    IS(n, 3 * N);
    IS(position(f), 16 * N);
    OK(MPI_File_read_at(f, 0, back, N, MPI_INT, &status));
    for (int i = 0; i < N; i++) IS(back[i], 3 * i);
    OK(MPI_File_read_at(f, 4 * N, back, 3 * N, MPI_INT, &status));
    for (int i = 0; i < 3 * N; i++) IS(back[i], shuffled(i));

    memset(back, 0xff, sizeof back); /* -1 everywhere */
    OK(MPI_File_read_at(f, 8 * N, back, 1, every_third, &status));
    for (int i = 0; i < 3 * N; i++) IS(back[i], i % 3 ? -1 : shuffled(i / 3 + N));
    OK(MPI_File_read_at(f, 4 * N, back + 1, N, disorder, &status));
    for (int i = 0; i < 3 * N; i++) IS(back[i], i);
    memset(back, 0xff, sizeof back);
    OK(MPI_File_read_at(f, 15 * N, back, 1, every_third, &status)); /* N / 4 of the elements are there */
    if (strict) {
        IS(count_of(&status, every_third), MPI_UNDEFINED);
        OK(MPI_Get_elements(&status, every_third, &n));
        IS(n, N / 4);
    }
    for (int i = 0; i < N / 4; i++) IS(back[3 * i], shuffled(i + 11 * N / 4));
    CHECK(back[1] == -1 && back[2] == -1, "a gap was written");
    OK(MPI_Type_free(&every_third));
    OK(MPI_Type_free(&disorder));

    struct { double d; int i; } pairs[5] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}}, again[4];
    OK(MPI_File_write_at(f, 0, pairs, 5, MPI_DOUBLE_INT, &status)); /* without the four bytes at the end of each */
    IS(count_of(&status, MPI_DOUBLE_INT), 5);
    OK(MPI_File_read_at(f, 12, again, 4, MPI_DOUBLE_INT, &status));
    for (int i = 0; i < 4; i++) CHECK(again[i].d == 2 * i + 3 && again[i].i == 2 * i + 4, "pair %d", i);
    OK(MPI_File_close(&f));
}

/* The forms with large counts, and places beyond 4 GiB. */
static void counts(void)
{
    enum { MANY = 3000000 };
    unsigned char *bytes = need(MANY), *back = need(MANY);
    MPI_Count count = -1;
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, "count", PASSING);
    fill(bytes, MANY, my_rank);
    OK(MPI_File_write_at_c(f, (MPI_Offset)my_rank * MANY, bytes, MANY, MPI_BYTE, &status));
    OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
    IS(count, MANY);
    OK(MPI_File_read_at_c(f, (MPI_Offset)my_rank * MANY, back, MANY, MPI_BYTE, &status));
    CHECK_BYTES(back, MANY, my_rank);
    MPI_Offset far = 6000000000 + my_rank * 100;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek(f, far, MPI_SEEK_SET));
    OK(MPI_File_write_c(f, bytes, 25, MPI_INT, &status));
    IS(count_of(&status, MPI_INT), 25);
    IS(position(f), far + 100);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    IS(size_of(f), 6000000000 + n_ranks * 100);
    OK(MPI_File_seek(f, -100 * (n_ranks - my_rank), MPI_SEEK_END));
    memset(back, 0, 100);
    OK(MPI_File_read_c(f, back, 100, MPI_BYTE, &status));
    CHECK_BYTES(back, 100, my_rank);
    OK(MPI_File_seek(f, 100 * my_rank - 100 * n_ranks, MPI_SEEK_END));
    size_t room = 3000000000; /* more than there is */
    unsigned char *big = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(big != MAP_FAILED, "no room");
    OK(MPI_File_read_c(f, big, room, MPI_BYTE, &status));
    OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
    IS(count, 100 * (n_ranks - my_rank));
    CHECK_BYTES(big, 100, my_rank);
    munmap(big, room);
    OK(MPI_File_close(&f));
    free(bytes), free(back);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1;
    enter();
    opens();
    amodes();
    informs();
    sizes();
    seeks();
    moves();
    appends();
    falls_short();
    moves_nothing();
    packs();
    counts();
    leave();
    return finish();
}

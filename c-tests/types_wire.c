/* Claim: derived types pick and place exactly their own elements on the wire, with any partner type of the same
 * signature: vector, hvector, indexed, hindexed, indexed_block, struct, subarray, resized, dup and nests of them,
 * small and large, to themselves and to plain ints; gaps keep their bytes. */
#include "check.h"

enum { CELLS = 60000 };
static int out[CELLS], in[CELLS], plain[CELLS];

typedef struct { MPI_Datatype type; const char *name; } Case;
static Case cases[32];
static int n_cases;

static void add(MPI_Datatype type, const char *name)
{
    OK(MPI_Type_commit(&type));
    cases[n_cases++] = (Case){type, name};
}

static void build(void)
{
    MPI_Datatype a, b, c;
    int lengths[] = {2, 0, 3, 1}, places[] = {5, 1, 9, 0};
    MPI_Aint bytes[] = {20, 4, 36, 0};
    OK(MPI_Type_contiguous(7, MPI_INT, &a));
    add(a, "contiguous");
    OK(MPI_Type_vector(50, 3, 5, MPI_INT, &a));
    add(a, "vector");
    OK(MPI_Type_vector(4, 2, -3, MPI_INT, &a));
    OK(MPI_Type_create_hindexed_block(1, 1, (MPI_Aint[]){9 * 4}, a, &b));
    add(b, "vector of negative stride");
    OK(MPI_Type_create_hvector(9, 2, 28, MPI_INT, &a));
    add(a, "hvector");
    OK(MPI_Type_indexed(4, lengths, places, MPI_INT, &a));
    add(a, "indexed");
    OK(MPI_Type_create_hindexed(4, lengths, bytes, MPI_INT, &a));
    add(a, "hindexed");
    OK(MPI_Type_create_indexed_block(4, 2, (int[]){8, 0, 3, 12}, MPI_INT, &a));
    add(a, "indexed_block");
    OK(MPI_Type_dup(a, &b));
    add(b, "dup");
    OK(MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){8, 80}, (MPI_Datatype[]){a, MPI_INT}, &b));
    add(b, "struct of indexed_block and int");
    OK(MPI_Type_create_resized(MPI_INT, 0, 12, &a));
    add(a, "resized int");
    OK(MPI_Type_create_subarray(2, (int[]){10, 12}, (int[]){4, 5}, (int[]){3, 6}, MPI_ORDER_C, MPI_INT, &a));
    add(a, "subarray C");
    OK(MPI_Type_create_subarray(3, (int[]){5, 6, 7}, (int[]){2, 3, 4}, (int[]){1, 2, 0}, MPI_ORDER_FORTRAN, MPI_INT, &a));
    add(a, "subarray Fortran");
    OK(MPI_Type_vector(5, 2, 3, MPI_INT, &a));
    OK(MPI_Type_create_resized(a, 0, 80, &b));
    OK(MPI_Type_indexed(3, (int[]){1, 2, 1}, (int[]){4, 1, 0}, b, &c));
    add(c, "indexed of resized vector");
    OK(MPI_Type_vector(10000, 2, 3, MPI_INT, &a));
    add(a, "large vector");
    OK(MPI_Type_vector(30, 500, 900, MPI_INT, &a));
    add(a, "vector of large blocks");
}

/* Which cells one element of the type names, in typemap order: packed by hand through MPI_Pack of cell numbers. */
static int cells_of(MPI_Datatype type, int count, int *cells)
{
    int size, position = 0;
    static int numbers[CELLS];
    for (int i = 0; i < CELLS; i++)
        numbers[i] = i;
    OK(MPI_Type_size(type, &size));
    OK(MPI_Pack(numbers, count, type, cells, CELLS * 4, &position, MPI_COMM_WORLD));
    CHECK(position == size * count, "packed %d of %d bytes", position, size * count);
    return position / 4;
}

static void check_placed(const int *cells, int n, int base, const char *name)
{
    static char touched[CELLS];
    memset(touched, 0, sizeof touched);
    for (int i = 0; i < n; i++) {
        CHECK(in[cells[i]] == base + i, "%s: cell %d (element %d) is %d", name, cells[i], i, in[cells[i]]);
        touched[cells[i]] = 1;
    }
    for (int i = 0; i < CELLS; i++)
        CHECK(touched[i] || in[i] == -1, "%s: gap %d was written with %d", name, i, in[i]);
}

static void one(const Case *it, int count, int tag)
{
    static int cells[CELLS];
    int n = cells_of(it->type, count, cells), peer = 1 - my_rank, base = tag * 100000;
    MPI_Status status;
    for (int way = 0; way < 3; way++) { /* typed to typed, typed to plain, plain to typed */
        memset(in, -1, sizeof in), memset(out, -1, sizeof out);
        for (int i = 0; i < n; i++) {
            out[cells[i]] = base + i;
            plain[i] = base + i;
        }
        MPI_Request request;
        if (way == 2)
            OK(MPI_Isend(plain, n, MPI_INT, peer, tag, MPI_COMM_WORLD, &request));
        else
            OK(MPI_Isend(out, count, it->type, peer, tag, MPI_COMM_WORLD, &request));
        if (way == 1)
            OK(MPI_Recv(in, n, MPI_INT, peer, tag, MPI_COMM_WORLD, &status));
        else
            OK(MPI_Recv(in, count, it->type, peer, tag, MPI_COMM_WORLD, &status));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (way == 1) {
            for (int i = 0; i < n; i++)
                CHECK(in[i] == base + i, "%s: plain element %d is %d", it->name, i, in[i]);
            CHECK_STATUS(status, peer, tag, MPI_INT, n);
        } else {
            check_placed(cells, n, base, it->name);
            CHECK_STATUS(status, peer, tag, it->type, count);
        }
    }
}

/* The typemap itself, where it is easy to say by hand: Pack agrees with the definition of the type. */
static void known_maps(void)
{
    static int cells[CELLS];
    MPI_Datatype type;
    OK(MPI_Type_vector(3, 2, 4, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    int n = cells_of(type, 2, cells); /* extent: 10 ints */
    static const int expected[] = {0, 1, 4, 5, 8, 9, 10, 11, 14, 15, 18, 19};
    CHECK(n == 12 && !memcmp(cells, expected, sizeof expected), "vector map, n = %d", n);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_subarray(2, (int[]){3, 4}, (int[]){2, 2}, (int[]){1, 1}, MPI_ORDER_FORTRAN, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    n = cells_of(type, 1, cells);
    CHECK(n == 4 && cells[0] == 4 && cells[1] == 5 && cells[2] == 7 && cells[3] == 8, "Fortran subarray map");
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Datatype type;
    OK(MPI_Type_vector(3, 2, 4, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_free(&type));
    build();
    for (int i = 0; i < n_cases; i++)
        for (int count = 1; count <= (i < n_cases - 2 ? 4 : 1); count++)
            one(&cases[i], count, 1 + i * 5 + count);
    for (int i = 0; i < n_cases; i++)
        OK(MPI_Type_free(&cases[i].type));
    known_maps();
    /* A struct of C members, with padding, as an array; MPI_BOTTOM with absolute addresses. */
    typedef struct { char c; double d; short s[3]; } Record;
    Record sent[100], got[100];
    memset(got, 0xEE, sizeof got);
    MPI_Datatype raw, record, absolute;
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 3}, (MPI_Aint[]){offsetof(Record, c), offsetof(Record, d), offsetof(Record, s)},
                              (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, &raw));
    OK(MPI_Type_create_resized(raw, 0, sizeof(Record), &record));
    OK(MPI_Type_commit(&record));
    for (int i = 0; i < 100; i++)
        sent[i] = (Record){(char)i, i * 0.5 + my_rank, {(short)i, (short)-i, (short)my_rank}};
    OK(MPI_Sendrecv(sent, 100, record, 1 - my_rank, 1, got, 100, record, 1 - my_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 100; i++) {
        Record *r = &got[i];
        CHECK(r->c == (char)i && r->d == i * 0.5 + 1 - my_rank && r->s[1] == -i && r->s[2] == 1 - my_rank, "record %d", i);
        CHECK_GUARD(r, offsetof(Record, c) + 1, offsetof(Record, d), 0xEE);
        CHECK_GUARD(r, offsetof(Record, s) + 6, sizeof(Record), 0xEE);
    }
    int a = my_rank + 1, b = my_rank + 10, x = 0, y = 0;
    MPI_Aint from[2], to[2];
    OK(MPI_Get_address(&a, &from[0]));
    OK(MPI_Get_address(&b, &from[1]));
    OK(MPI_Get_address(&x, &to[0]));
    OK(MPI_Get_address(&y, &to[1]));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, from, MPI_INT, &absolute));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 1}, to, MPI_INT, &raw));
    OK(MPI_Type_commit(&absolute));
    OK(MPI_Type_commit(&raw));
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, absolute, 1 - my_rank, 2, MPI_BOTTOM, 1, raw, 1 - my_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(x == 2 - my_rank && y == 11 - my_rank, "through MPI_BOTTOM: %d %d", x, y);
    return finish();
}

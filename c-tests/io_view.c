/* Claim: a view shows each rank the bytes that its displacement, etype and filetype say (MPI-4.1 §14.3), offsets count
 * etypes of it, and what lies in the holes stays as it was, whoever writes next to it. Files are compared with what the
 * file system says they hold. "strict": also counts of reads with holes that meet the end, which MPICH 5.0.2 calls whole,
 * and that holes beyond the old end are zero, where it leaves what was in its memory. */
#include "io.h"

static int strict;
static uint32_t dice = 20240;

static int pick(int from, int to) { return from + (int)(next_random(&dice) % (unsigned)(to - from + 1)); }

/* Each size of number as often as the others. */
static int pick_length(int most)
{
    int n = pick(1, 1 << pick(0, 17));
    return n > most ? most : n;
}

static void tells(void)
{
    MPI_Datatype pairs, etype, filetype;
    MPI_Offset disp = -1;
    MPI_Aint lb, extent = -1;
    char datarep[MPI_MAX_DATAREP_STRING] = "";
    int size = -1;
    MPI_File f = opened(MPI_COMM_WORLD, "tell", PASSING);
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
    IS(disp, 0);
    CHECK(etype == MPI_BYTE && filetype == MPI_BYTE && !strcmp(datarep, "native"), "the first view is not plain");
    OK(MPI_File_seek(f, 77, MPI_SEEK_SET));
    OK(MPI_Type_vector(3, 2, 4, MPI_INT, &pairs));
    view(f, 12 + my_rank, MPI_INT, committed(pairs));
    OK(MPI_Type_free(&pairs)); /* the file still has it */
    IS(position(f), 0);
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
    OK(MPI_File_set_view(f, disp, etype, filetype, "NATIVE", MPI_INFO_NULL)); /* as Fortran programs like to write it */
    IS(disp, 12 + my_rank);
    CHECK(etype == MPI_INT && !strcmp(datarep, "native"), "another etype or datarep");
    OK(MPI_Type_size(filetype, &size));
    OK(MPI_Type_get_extent(filetype, &lb, &extent));
    IS(size, 24);
    IS(extent, 40);
    OK(MPI_File_get_type_extent(f, MPI_INT, &extent));
    IS(extent, 4);
    OK(MPI_File_get_type_extent(f, filetype, &extent));
    IS(extent, 40);
    OK(MPI_Type_free(&filetype));
    for (int i = 0; i < 20; i++) {
        OK(MPI_File_get_byte_offset(f, i, &disp));
        IS(disp, 12 + my_rank + i / 6 * 40 + i % 6 / 2 * 16 + i % 2 * 4);
    }
    OK(MPI_File_close(&f));
}

/* Records of three ints, two at a time from each rank in turn. */
static void interleaves(void)
{
    enum { N = 2000 };
    MPI_Datatype record, turns;
    MPI_Offset at = -1;
    int *mine = need(N * 12), wanted = -1;
    MPI_File f = opened(MPI_COMM_WORLD, "turns", PASSING);
    for (int i = 0; i < 3 * N; i++) mine[i] = my_rank * 100000 + i;
    OK(MPI_Type_contiguous(3, MPI_INT, &record));
    OK(MPI_Type_commit(&record));
    turns = blocks(1, (int[]){2}, (MPI_Aint[]){0}, record, 0, 24 * n_ranks);
    view(f, 101 + 24 * my_rank, record, turns);
    OK(MPI_File_get_byte_offset(f, 9, &at));
    IS(at, 101 + 24 * my_rank + 4 * 24 * n_ranks + 12);
    OK(MPI_File_write(f, mine, 501, record, MPI_STATUS_IGNORE));
    IS(position(f), 501);
    OK(MPI_File_write(f, mine + 3 * 501, 3 * (N - 501), MPI_INT, MPI_STATUS_IGNORE));
    IS(position(f), N);
    unsigned char *bytes = contents(f, "turns", 101 + (size_t)n_ranks * N * 12);
    for (int i = 0; i < n_ranks * N * 3; i++) {
        wanted = i / 6 % n_ranks * 100000 + i / 6 / n_ranks * 6 + i % 6;
        CHECK(!memcmp(bytes + 101 + 4 * i, &wanted, 4), "int %d is not %d", i, wanted);
    }
    int other = n_ranks - 1 - my_rank;
    view(f, 101 + 24 * other, record, turns);
    memset(mine, 0, N * 12);
    OK(MPI_File_read_at(f, 3, mine, N - 3, record, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3 * N - 9; i++) IS(mine[i], other * 100000 + i + 9);
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&turns));
    OK(MPI_Type_free(&record));
    free(bytes), free(mine);
}

/* A table of ints in slabs of columns, then cyclic in both directions; element (r, c) is r * 1000 + c. */
static void arrays(void)
{
    enum { ROWS = 37 };
    int columns = 5 * n_ranks + 2, first = 5 * my_rank, width = my_rank == n_ranks - 1 ? 7 : 5, dims[2] = {0, 0}, n = 0, size;
    int sizes[2] = {ROWS, columns}, *mine = need(4 * ROWS * columns), wanted;
    MPI_Datatype slab, cyclic;
    OK(MPI_Type_create_subarray(2, sizes, (int[]){ROWS, width}, (int[]){0, first}, MPI_ORDER_C, MPI_INT, &slab));
    OK(MPI_Dims_create(n_ranks, 2, dims));
    OK(MPI_Type_create_darray(n_ranks, my_rank, 2, sizes, (int[]){MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, (int[]){3, 2},
                              dims, MPI_ORDER_C, MPI_INT, &cyclic));
    MPI_File f = opened(MPI_COMM_WORLD, "array", PASSING);
    view(f, 8, MPI_INT, committed(slab));
    for (int r = 0; r < ROWS; r++)
        for (int c = first; c < first + width; c++) mine[n++] = r * 1000 + c;
    OK(MPI_File_write_all(f, mine, n, MPI_INT, MPI_STATUS_IGNORE));
    unsigned char *bytes = contents(f, "array", 8 + 4 * ROWS * columns);
    for (int i = 0; i < ROWS * columns; i++) {
        wanted = i / columns * 1000 + i % columns;
        CHECK(!memcmp(bytes + 8 + 4 * i, &wanted, 4), "element %d is not %d", i, wanted);
    }
    view(f, 8, MPI_INT, committed(cyclic));
    OK(MPI_Type_size(cyclic, &size));
    OK(MPI_File_read(f, mine, size / 4, MPI_INT, MPI_STATUS_IGNORE));
    n = 0;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < columns; c++)
            if (r / 3 % dims[0] == my_rank / dims[1] && c / 2 % dims[1] == my_rank % dims[1]) {
                IS(mine[n], r * 1000 + c);
                n++;
            }
    IS(n, size / 4);
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&slab));
    OK(MPI_Type_free(&cyclic));
    free(bytes), free(mine);
}

/* Blocks at irregular places of tiles that begin before or after their lower bound. */
static void bounds(void)
{
    enum { LENGTH = 400 };
    const MPI_Aint lower[] = {0, 8, -16, 12};
    unsigned char old[LENGTH];
    fill(old, LENGTH, 1);
    for (int i = 0; i < 4; i++) {
        MPI_File f = opened(MPI_COMM_SELF, own("bounds"), PASSING);
        OK(MPI_File_write(f, old, LENGTH, MPI_BYTE, MPI_STATUS_IGNORE));
        MPI_Datatype type = blocks(3, (int[]){2, 1, 2}, (MPI_Aint[]){12, 21, 26}, MPI_SHORT, lower[i], 40);
        view(f, 3, MPI_SHORT, type);
        OK(MPI_File_write_at(f, 2, "abcdefghijklmnopqrstuvwxyz", 13, MPI_SHORT, MPI_STATUS_IGNORE));
        unsigned char *bytes = contents(f, own("bounds"), LENGTH), expected[LENGTH];
        memcpy(expected, old, LENGTH);
        for (int k = 0; k < 26; k++) {
            int byte = k + 4, in = byte % 10, tile = byte / 10;
            expected[3 + 40 * tile + (in < 4 ? 12 + in : in < 6 ? 21 + in - 4 : 26 + in - 6)] = 'a' + k;
        }
        CHECK(!memcmp(bytes, expected, LENGTH), "with the lower bound %ld", (long)lower[i]);
        OK(MPI_File_close(&f));
        OK(MPI_Type_free(&type));
        free(bytes);
    }
}

/* The end of the file is the first etype of the view that begins after the last byte. */
static void ends(void)
{
    MPI_Datatype type = blocks(2, (int[]){1, 1}, (MPI_Aint[]){0, 6}, MPI_INT, 0, 20);
    MPI_File f = opened(MPI_COMM_SELF, own("end"), PASSING);
    view(f, 10, MPI_INT, type);
    for (int size = 0, k = 0; size < 100; size++) {
        OK(MPI_File_set_size(f, size));
        while (10 + k / 2 * 20 + k % 2 * 6 < size) k++;
        OK(MPI_File_seek(f, 0, MPI_SEEK_END));
        IS(position(f), k);
        OK(MPI_File_seek(f, 5, MPI_SEEK_END));
        IS(position(f), k + 5);
    }
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&type));
}

/* Places, gaps and displacements beyond 4 GiB. */
static void spreads(void)
{
    int values[3] = {11, 12, 13}, back[3] = {0, 0, 0};
    MPI_Offset at = -1;
    MPI_Datatype type = blocks(1, (int[]){1}, (MPI_Aint[]){0}, MPI_INT, 0, 3000000000);
    MPI_File f = opened(MPI_COMM_SELF, own("far"), PASSING);
    view(f, 5000000000, MPI_INT, type);
    OK(MPI_File_get_byte_offset(f, 7, &at));
    IS(at, 26000000000);
    OK(MPI_File_write_at(f, 1, values, 3, MPI_INT, MPI_STATUS_IGNORE));
    IS(size_of(f), 14000000004);
    OK(MPI_File_read_at(f, 1, back, 3, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++) IS(back[i], 11 + i);
    view(f, 10999999996, MPI_INT, MPI_INT);
    OK(MPI_File_read(f, back, 3, MPI_INT, MPI_STATUS_IGNORE));
    IS(back[1], 12);
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&type));
}

/* Blocks of `length` bytes from each rank in turn, or from one alone, and a hole after those of all. */
static void keeps(int length, int count, int alone)
{
    int round = length * (n_ranks + 1), size = round * count;
    unsigned char *mine = need(length * count), *bytes;
    MPI_Datatype type = blocks(1, &length, (MPI_Aint[]){0}, MPI_BYTE, 0, round);
    prepare("hole", size - size / 3, 1); /* the last third is new */
    MPI_File f = opened(MPI_COMM_WORLD, "hole", MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    view(f, my_rank * length, MPI_BYTE, type);
    for (int again = 0; again < (alone ? 1 : 2); again++) {
        fill(mine, length * count, 10 + 10 * again + my_rank);
        if (!alone || my_rank == 0)
            OK(MPI_File_write_at(f, 0, mine, length * count, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_set_size(f, size));
        bytes = contents(f, "hole", size);
        for (int i = 0; i < size; i++) {
            int owner = i % round / length;
            int old = i < size - size / 3 ? byte_at(1, i) : strict ? 0 : bytes[i];
            if (owner < (alone ? 1 : n_ranks)) old = byte_at(10 + 10 * again + owner, i / round * length + i % round % length);
            CHECK(bytes[i] == old, "byte %d of rank %d, blocks of %d: %d, expected %d", i, owner, length, bytes[i], old);
        }
        free(bytes);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&type));
    free(mine);
}

/* In a sequential file the next view may begin where the shared pointer is. */
static void streams(void)
{
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING];
    double half = my_rank + 0.5;
    MPI_File f = opened(MPI_COMM_WORLD, "stream",
                        MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_SEQUENTIAL);
    OK(MPI_File_write_ordered(f, "abc", my_rank ? 2 : 3, MPI_CHAR, MPI_STATUS_IGNORE));
    view(f, MPI_DISPLACEMENT_CURRENT, MPI_DOUBLE, MPI_DOUBLE);
    OK(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
    IS(disp, 1 + 2 * n_ranks);
    CHECK(etype == MPI_DOUBLE, "another etype");
    OK(MPI_File_write_ordered(f, &half, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
    unsigned char *bytes = contents(f, "stream", 1 + 10 * n_ranks);
    CHECK(!memcmp(bytes, "abcab", n_ranks > 1 ? 5 : 3), "the head of the stream");
    CHECK(!memcmp(bytes + 1 + 2 * n_ranks + 8 * my_rank, &half, 8), "the double of this rank");
    free(bytes);
    OK(MPI_File_close(&f));
}

/* A type over another: its places stay in order and inside its extent. */
static MPI_Datatype over(MPI_Datatype old)
{
    MPI_Datatype type;
    MPI_Aint lb, extent, first, room;
    int length = pick(1, 3), gap = pick(0, 3), n = pick(1, 4);
    OK(MPI_Type_get_extent(old, &lb, &extent));
    OK(MPI_Type_get_true_extent(old, &first, &room));
    switch (pick(0, 5)) {
    case 0: OK(MPI_Type_contiguous(n, old, &type)); break;
    case 1: OK(MPI_Type_vector(n, length, length + gap, old, &type)); break;
    case 2: OK(MPI_Type_indexed(3, (int[]){length, 0, n}, (int[]){gap, 1, 2 * gap + length}, old, &type)); break;
    case 3: OK(MPI_Type_create_resized(old, 0, first + room + 4 * gap, &type)); break;
    case 4:
        OK(MPI_Type_create_subarray(2, (int[]){length + gap, n}, (int[]){length, n}, (int[]){gap, 0}, MPI_ORDER_C, old, &type));
        break;
    default:
        OK(MPI_Type_create_struct(2, (int[]){length, n},
                                  (MPI_Aint[]){4 * gap, 8 * gap + first + room + (length - 1) * extent},
                                  (MPI_Datatype[]){old, MPI_INT}, &type));
    }
    if (old != MPI_INT) OK(MPI_Type_free(&old));
    return committed(type);
}

/* Types of types: where their ints are is learnt from MPI_Pack of numbers that tell their places. */
static void nests(void)
{
    for (int round = 0; round < 40; round++) {
        MPI_Datatype type = MPI_INT;
        MPI_Aint lb, extent, first, room;
        int depth = pick(1, 4), size, end = 0, from = pick(0, 9), n, *values, *bytes;
        while (depth--) type = over(type);
        OK(MPI_Type_size(type, &size));
        OK(MPI_Type_get_extent(type, &lb, &extent));
        OK(MPI_Type_get_true_extent(type, &first, &room));
        int ints = size / 4, *places = need(size), *numbers = need(first + room);
        for (int i = 0; i < (first + room) / 4; i++) numbers[i] = i;
        OK(MPI_Pack(numbers, 1, type, places, size, &end, MPI_COMM_SELF));
        n = pick(1, 3 * ints);
        values = need(4 * n);
        for (int i = 0; i < n; i++) values[i] = i + 1;
        int last = from + n - 1, length = last / ints * (extent / 4) + places[last % ints] + 1, *wanted = calloc(length, 4);
        MPI_File f = opened(MPI_COMM_SELF, own("nest"), PASSING);
        OK(MPI_File_write_at(f, 0, wanted, length - 1, MPI_INT, MPI_STATUS_IGNORE)); /* zeros but for the last int */
        view(f, 0, MPI_INT, type);
        OK(MPI_File_write_at(f, from, values, n, MPI_INT, MPI_STATUS_IGNORE));
        IS(size_of(f), 4 * length);
        for (int i = 0; i < n; i++) wanted[(from + i) / ints * (extent / 4) + places[(from + i) % ints]] = i + 1;
        view(f, 0, MPI_INT, MPI_INT);
        bytes = need(4 * length);
        OK(MPI_File_read(f, bytes, length, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < length; i++) CHECK(bytes[i] == wanted[i], "round %d: int %d of %d", round, i, length);
        view(f, 0, MPI_INT, type);
        memset(values, 0, 4 * n);
        OK(MPI_File_read_at(f, from, values, n, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < n; i++) IS(values[i], i + 1);
        OK(MPI_File_close(&f));
        if (type != MPI_INT) OK(MPI_Type_free(&type));
        free(places), free(numbers), free(values), free(wanted), free(bytes);
    }
}

enum { MOST = 2500000, PIECES = 5 };
struct layout { MPI_Offset disp; int unit, n, lengths[PIECES], bytes; MPI_Aint places[PIECES], extent; };

/* Where in the file byte i of a view lies. */
static MPI_Offset place(const struct layout *v, MPI_Offset i)
{
    int in = i % v->bytes, k = 0;
    for (; in >= v->lengths[k] * v->unit; k++) in -= v->lengths[k] * v->unit;
    return v->disp + i / v->bytes * v->extent + v->places[k] + in;
}

/* Random reads and writes in random views, with and without gaps in memory, against an array in memory. */
static void compares(void)
{
    unsigned char *model = calloc(MOST, 1), *known = calloc(MOST, 1), *memory = need(MOST);
    MPI_Offset size = 600000;
    MPI_File f = opened(MPI_COMM_SELF, own("random"), PASSING);
    fill(model, size, 1);
    memset(known, 1, strict ? MOST : size);
    OK(MPI_File_write(f, model, size, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int round = 0; round < 150; round++) {
        struct layout v = {pick_length(200000), 1 << pick(0, 3), pick(1, PIECES), {0}, 0, {0}, pick_length(70000) - 1};
        MPI_Datatype etype, type, strided;
        MPI_Status status;
        for (int k = 0; k < v.n; k++) {
            v.lengths[k] = (pick_length(70000) + v.unit - 1) / v.unit;
            v.places[k] = v.extent;
            v.extent += v.lengths[k] * v.unit + pick_length(70000) - 1;
            v.bytes += v.lengths[k] * v.unit;
        }
        OK(MPI_Type_contiguous(v.unit, MPI_BYTE, &etype));
        OK(MPI_Type_commit(&etype));
        type = blocks(v.n, v.lengths, v.places, etype, 0, v.extent);
        view(f, v.disp, etype, type);
        MPI_Offset from = pick_length(100000);
        int units = pick_length(150000), gap = pick(0, 1) * pick_length(30), piece = pick_length(70000), n;
        while (units && place(&v, (from + units) * v.unit) >= MOST) units /= 2;
        if (piece > units) piece = units;
        n = piece ? units / piece : 0, units = n * piece;
        if ((size_t)n * (piece * v.unit + gap) < MOST && units) {
            OK(MPI_Type_create_hvector(n, piece * v.unit, piece * v.unit + gap, MPI_BYTE, &strided));
            OK(MPI_Type_commit(&strided));
            int writes = pick(0, 1), total = units * v.unit, there = 0, got = -1;
            if (writes) fill(memory, (size_t)n * (piece * v.unit + gap), round);
            else memset(memory, 0xaa, (size_t)n * (piece * v.unit + gap));
            OK(MPI_File_seek(f, from, MPI_SEEK_SET));
            if (writes) OK(MPI_File_write(f, memory, 1, strided, &status));
            else OK(MPI_File_read(f, memory, 1, strided, &status));
            for (int i = 0; i < total; i++) {
                MPI_Offset at = place(&v, from * v.unit + i);
                int in = i / (piece * v.unit) * (piece * v.unit + gap) + i % (piece * v.unit);
                if (writes) {
                    model[at] = memory[in], known[at] = 1, there++;
                    if (at >= size) size = at + 1;
                } else if (at < size) {
                    there++;
                    CHECK(memory[in] == model[at] || !known[at], "round %d: byte %d, in the file %lld", round, i, (long long)at);
                }
                if (gap && !writes && i % (piece * v.unit) == 0 && i)
                    CHECK_GUARD(memory, in - gap, in, 0xaa);
            }
            OK(MPI_Get_elements(&status, strided, &got));
            if (strict || there == total) IS(got, there);
            if (there == total) IS(position(f), from + units);
            IS(size_of(f), size);
            OK(MPI_Type_free(&strided));
        }
        OK(MPI_Type_free(&etype));
        OK(MPI_Type_free(&type));
    }
    unsigned char *bytes = contents(f, own("random"), size);
    for (int i = 0; i < size; i++) CHECK(bytes[i] == model[i] || !known[i], "byte %d at the end", i);
    OK(MPI_File_close(&f));
    free(bytes), free(model), free(known), free(memory);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1;
    enter();
    tells();
    interleaves();
    arrays();
    bounds();
    ends();
    spreads();
    keeps(3, 4000, 0);
    keeps(3, 4000, 1);
    keeps(700, 100, 0);
    keeps(9000, 30, 0);
    keeps(70000, 3, 1);
    streams();
    dice += my_rank;
    nests();
    compares();
    leave();
    return finish();
}

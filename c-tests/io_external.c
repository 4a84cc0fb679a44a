/* Claim: a view with the datarep "external32" keeps values in the file big-endian and without gaps (MPI-4.1 §14.5.2), so
 * that a native view shows those very bytes, and reads them back as they were; "internal" reads what it wrote.
 * "strict": also types in memory with different members or gaps, on which MPICH 5.0.2 crashes, and the name "internal",
 * which it does not keep. */
#include "io.h"

static int strict;
enum { N = 9 };

static void datarep_view(MPI_File f, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype, const char *datarep)
{
    char got[MPI_MAX_DATAREP_STRING] = "";
    MPI_Datatype e, t;
    MPI_Offset d = -1;
    int n, combiner;
    OK(MPI_File_set_view(f, disp, etype, filetype, datarep, MPI_INFO_NULL));
    OK(MPI_File_get_view(f, &d, &e, &t, got));
    CHECK(!strcmp(got, datarep) || (!strict && !strcmp(datarep, "internal")), "the view is %s", got);
    IS(d, disp);
    OK(MPI_Type_get_envelope(e, &n, &n, &n, &combiner));
    if (combiner != MPI_COMBINER_NAMED) OK(MPI_Type_free(&e));
    OK(MPI_Type_get_envelope(t, &n, &n, &n, &combiner));
    if (combiner != MPI_COMBINER_NAMED) OK(MPI_Type_free(&t));
}

/* Values of one type: written, compared byte by byte with their reverse, read back; all ranks at places of their own. */
static void turns(MPI_Datatype type, int size, const void *values)
{
    const unsigned char *v = values;
    unsigned char bytes[N * 8], back[N * 8];
    MPI_Aint extent = -1;
    MPI_Offset at = -1;
    MPI_Status status;
    MPI_File f = opened(MPI_COMM_WORLD, "turn", PASSING);
    datarep_view(f, 3, type, type, "external32");
    OK(MPI_File_get_type_extent(f, type, &extent));
    IS(extent, size);
    OK(MPI_File_write_at(f, my_rank * N, values, N, type, &status));
    IS(count_of(&status, type), N);
    OK(MPI_File_get_byte_offset(f, 2, &at));
    IS(at, 3 + 2 * size);
    settle(f);
    IS(size_of(f), 3 + n_ranks * N * size);
    OK(MPI_File_read_at(f, my_rank * N + 1, back, N - 1, type, &status));
    IS(count_of(&status, type), N - 1);
    CHECK(!memcmp(back, v + size, (N - 1) * size), "values of %d bytes are not read back", size);
    datarep_view(f, 0, MPI_BYTE, MPI_BYTE, "native");
    OK(MPI_File_read_at(f, 3 + my_rank * N * size, bytes, N * size, MPI_BYTE, &status));
    for (int i = 0; i < N * size; i++) IS(bytes[i], v[i / size * size + size - 1 - i % size]);
    OK(MPI_File_close(&f));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the file is gone */
}

/* A type with different members and a gap in memory, from all ranks in turn, individually, together and in order. */
static void mixes(void)
{
    struct mixed { char c; double d; short s[2]; } values[N], back[N];
    const int size = 13;
    MPI_Datatype members, type;
    MPI_Status status;
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 2}, (MPI_Aint[]){offsetof(struct mixed, c), offsetof(struct mixed, d),
                              offsetof(struct mixed, s)}, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, &members));
    OK(MPI_Type_create_resized(members, 0, sizeof(struct mixed), &type));
    OK(MPI_Type_commit(&type));
    memset(values, 0, sizeof values);
    for (int i = 0; i < N; i++) values[i].c = 'a' + i, values[i].d = my_rank + i / 8.0, values[i].s[0] = i, values[i].s[1] = -i;
    MPI_File f = opened(MPI_COMM_WORLD, "mixed", PASSING);
    for (int form = 0; form < 3; form++) {
        memset(back, 0, sizeof back);
        datarep_view(f, 100 * form * n_ranks * size, MPI_BYTE, MPI_BYTE, "external32");
        MPI_Offset place = my_rank * N * size;
        if (form == 0) OK(MPI_File_write_at(f, place, values, N, type, &status));
        else if (form == 1) OK(MPI_File_write_at_all(f, place, values, N, type, &status));
        else OK(MPI_File_write_ordered(f, values, N, type, &status));
        settle(f);
        if (form == 0) OK(MPI_File_read_at(f, place, back, N, type, &status));
        else if (form == 1) OK(MPI_File_read_at_all(f, place, back, N, type, &status));
        else {
            OK(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
            OK(MPI_File_read_ordered(f, back, N, type, &status));
        }
        for (int i = 0; i < N; i++)
            CHECK(back[i].c == values[i].c && back[i].d == values[i].d && back[i].s[0] == i && back[i].s[1] == -i,
                  "form %d: element %d is %c %f %d %d", form, i, back[i].c, back[i].d, back[i].s[0], back[i].s[1]);
    }
    datarep_view(f, 0, MPI_BYTE, MPI_BYTE, "native");
    unsigned char bytes[13], *d = (unsigned char *)&values[2].d;
    for (int form = 0; form < 3; form++) {
        OK(MPI_File_read_at(f, 100 * form * n_ranks * size + (my_rank * N + 2) * size, bytes, 13, MPI_BYTE, &status));
        IS(bytes[0], 'c');
        for (int i = 0; i < 8; i++) IS(bytes[1 + i], d[7 - i]);
        CHECK(!memcmp(bytes + 9, "\0\2\377\376", 4), "form %d: the shorts are %d %d %d %d", form, bytes[9], bytes[10], bytes[11],
              bytes[12]);
    }
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&members));
}

/* Two ints of each three are this view's, and one of each two in memory where strict. */
static void strides(void)
{
    int values[2 * N], back[2 * N];
    unsigned char bytes[6 * N];
    MPI_Datatype two = blocks(1, (int[]){2}, (MPI_Aint[]){0}, MPI_INT, 0, 12);
    const int step = strict ? 2 : 1;
    MPI_Datatype part = blocks(1, (int[]){1}, (MPI_Aint[]){0}, MPI_INT, 0, 4 * step);
    MPI_File f = opened(MPI_COMM_SELF, own("stride"), PASSING);
    memset(bytes, 0x77, sizeof bytes);
    for (int i = 0; i < 2 * N; i++) values[i] = my_rank * 1000000 + i * 7 - 9, back[i] = -1;
    OK(MPI_File_write(f, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    datarep_view(f, 0, MPI_INT, two, "external32");
    OK(MPI_File_write(f, values, N, part, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(f, 0, back, N, part, MPI_STATUS_IGNORE));
    for (int i = 0; i < step * N; i++) IS(back[i], i % step ? -1 : values[i]);
    datarep_view(f, 0, MPI_BYTE, MPI_BYTE, "native");
    OK(MPI_File_read(f, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) {
        unsigned char *v = bytes + i / 2 * 12 + i % 2 * 4;
        IS((int)((unsigned)v[0] << 24 | v[1] << 16 | v[2] << 8 | v[3]), values[step * i]);
        if (i % 2 && i + 1 < N) CHECK_GUARD(v, 4, 8, 0x77);
    }
    OK(MPI_File_close(&f));
    OK(MPI_Type_free(&two));
    OK(MPI_Type_free(&part));
}

static void internals(void)
{
    double values[N], back[N] = {0};
    for (int i = 0; i < N; i++) values[i] = my_rank * 3.5 + i;
    MPI_File f = opened(MPI_COMM_WORLD, "internal", PASSING);
    datarep_view(f, 0, MPI_DOUBLE, MPI_DOUBLE, "internal");
    OK(MPI_File_write_at_all(f, my_rank * N, values, N, MPI_DOUBLE, MPI_STATUS_IGNORE));
    OK(MPI_File_read_at(f, my_rank * N, back, N, MPI_DOUBLE, MPI_STATUS_IGNORE));
    CHECK(!memcmp(values, back, sizeof values), "\"internal\" does not read what it wrote");
    OK(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
    char chars[N];
    short shorts[N];
    int ints[N];
    float floats[N];
    double doubles[N];
    long long longs[N];
    start(&argc, &argv);
    strict = argc > 1;
    enter();
    for (int i = 0; i < N; i++) {
        chars[i] = 'z' - i - my_rank;
        shorts[i] = 300 * i - 1000 + my_rank;
        ints[i] = 0x01020304 * (i + 1) - my_rank;
        floats[i] = 1.5f * i - 3.25f + my_rank;
        doubles[i] = 1e100 / (i + 1) - my_rank;
        longs[i] = 0x0102030405060708 * (i + 1) - my_rank;
    }
    turns(MPI_CHAR, 1, chars);
    turns(MPI_SHORT, 2, shorts);
    turns(MPI_INT, 4, ints);
    turns(MPI_FLOAT, 4, floats);
    turns(MPI_DOUBLE, 8, doubles);
    turns(MPI_LONG_LONG, 8, longs);
    turns(MPI_INT64_T, 8, longs);
    if (strict) mixes();
    strides();
    internals();
    leave();
    return finish();
}

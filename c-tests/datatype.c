/* Claim: derived datatypes have the sizes, bounds, contents and names that the standard gives them, pack to the bytes
 * that their typemap lists, in the native and the portable format, and wrong arguments get the right error class.
 * One rank is enough; each rank does the same. */
#include "check.h"

static void bounds(MPI_Datatype type, MPI_Aint lb, MPI_Aint extent, MPI_Aint true_lb, MPI_Aint true_extent, int size)
{
    MPI_Aint a, b;
    MPI_Count c, d, n;
    int small;
    OK(MPI_Type_get_extent(type, &a, &b));
    CHECK(a == lb && b == extent, "lb %ld extent %ld, expected %ld %ld", (long)a, (long)b, (long)lb, (long)extent);
    OK(MPI_Type_get_true_extent(type, &a, &b));
    CHECK(a == true_lb && b == true_extent, "true lb %ld extent %ld, expected %ld %ld", (long)a, (long)b, (long)true_lb,
          (long)true_extent);
    OK(MPI_Type_get_extent_x(type, &c, &d));
    CHECK(c == lb && d == extent, "wide extent");
    OK(MPI_Type_size(type, &small));
    OK(MPI_Type_size_x(type, &n));
    CHECK(small == size && n == size, "size %d %lld, expected %d", small, (long long)n, size);
}

/* Packs `count` elements of `type` from an array of numbered ints and compares with `expected`. */
static void packs(MPI_Datatype type, int count, int n, const int *expected)
{
    int memory[200], out[200], position = 0, size;
    for (int i = 0; i < 200; i++)
        memory[i] = i;
    OK(MPI_Type_commit(&type));
    OK(MPI_Pack_size(count, type, MPI_COMM_WORLD, &size));
    CHECK(size >= n * 4, "pack size %d", size);
    OK(MPI_Pack(memory + 50, count, type, out, sizeof out, &position, MPI_COMM_WORLD));
    CHECK(position == n * 4, "packed %d bytes, expected %d", position, n * 4);
    for (int i = 0; i < n; i++)
        CHECK(out[i] == 50 + expected[i], "value %d is %d, expected %d", i, out[i], 50 + expected[i]);
    for (int i = 0; i < 200; i++)
        memory[i] = -1;
    position = 0;
    OK(MPI_Unpack(out, n * 4, &position, memory + 50, count, type, MPI_COMM_WORLD));
    CHECK(position == n * 4, "unpacked %d bytes", position);
    int written = 0;
    for (int i = 0; i < 200; i++)
        written += memory[i] != -1;
    for (int i = 0; i < n; i++)
        CHECK(memory[50 + expected[i]] == 50 + expected[i], "place %d has %d", expected[i], memory[50 + expected[i]]);
    CHECK(written == n, "%d places written, expected %d", written, n);
}

static void constructors(void)
{
    MPI_Datatype type, other;
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    bounds(type, 0, 12, 0, 12, 12);
    packs(type, 2, 6, (int[]){0, 1, 2, 3, 4, 5});
    OK(MPI_Type_vector(2, 2, 3, type, &other));
    bounds(other, 0, 60, 0, 60, 48);
    packs(other, 1, 12, (int[]){0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14});
    OK(MPI_Type_free(&other));
    CHECK(other == MPI_DATATYPE_NULL, "the handle stays");
    OK(MPI_Type_free(&type));
    OK(MPI_Type_vector(3, 1, -2, MPI_INT, &type));
    bounds(type, -16, 20, -16, 20, 12);
    packs(type, 2, 6, (int[]){0, -2, -4, 5, 3, 1});
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_hvector(2, 1, 20, MPI_INT, &type));
    OK(MPI_Type_create_resized(type, -4, 8, &other));
    bounds(other, -4, 8, 0, 24, 8);
    packs(other, 2, 4, (int[]){0, 5, 2, 7});
    OK(MPI_Type_free(&other));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_indexed(3, (int[]){2, 0, 1}, (int[]){4, 90, 1}, MPI_INT, &type));
    bounds(type, 4, 20, 4, 20, 12);
    packs(type, 1, 3, (int[]){4, 5, 1});
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){8, -8}, MPI_INT, &type));
    bounds(type, -8, 20, -8, 20, 12);
    packs(type, 1, 3, (int[]){2, -2, -1});
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_indexed_block(3, 2, (int[]){6, 1, 11}, MPI_INT, &type));
    packs(type, 1, 6, (int[]){6, 7, 1, 2, 11, 12});
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){12, 0}, MPI_INT, &type));
    packs(type, 1, 2, (int[]){3, 0});
    OK(MPI_Type_free(&type));
    OK(MPI_Type_contiguous(0, MPI_INT, &type));
    bounds(type, 0, 0, 0, 0, 0);
    OK(MPI_Type_free(&type));
}

static void structs(void)
{
    struct mixed {
        double d;
        char c;
    };
    MPI_Datatype type, nested;
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_CHAR};
    OK(MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, types, &type));
    bounds(type, 0, sizeof(struct mixed), 0, 9, 9);
    OK(MPI_Type_contiguous(2, type, &nested));
    bounds(nested, 0, 32, 0, 25, 18);
    OK(MPI_Type_commit(&nested));
    struct mixed in[4] = {{1.5, 'a'}, {2.5, 'b'}, {3.5, 'c'}, {4.5, 'd'}}, out[4];
    char packed[36];
    int position = 0;
    memset(out, 0x55, sizeof out);
    OK(MPI_Pack(in, 2, nested, packed, sizeof packed, &position, MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++)
        CHECK(memcmp(packed + 9 * i, &in[i].d, 8) == 0 && packed[9 * i + 8] == in[i].c, "element %d", i);
    position = 0;
    OK(MPI_Unpack(packed, sizeof packed, &position, out, 2, nested, MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) {
        CHECK(out[i].d == in[i].d && out[i].c == in[i].c, "element %d", i);
        CHECK_GUARD(&out[i], 9, 16, 0x55);
    }
    OK(MPI_Type_free(&nested));
    OK(MPI_Type_free(&type));
    bounds(MPI_DOUBLE_INT, 0, 16, 0, 12, 12);
    bounds(MPI_SHORT_INT, 0, 8, 0, 8, 6);
    bounds(MPI_LONG_DOUBLE_INT, 0, 32, 0, 20, 20);
}

static void arrays(void)
{
    MPI_Datatype type;
    int sizes[2] = {4, 5}, subsizes[2] = {2, 3}, starts[2] = {1, 2};
    OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type));
    bounds(type, 0, 80, 28, 32, 24);
    packs(type, 2, 12, (int[]){7, 8, 9, 12, 13, 14, 27, 28, 29, 32, 33, 34});
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type));
    packs(type, 1, 6, (int[]){9, 10, 13, 14, 17, 18});
    OK(MPI_Type_free(&type));
    int distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, dargs[2] = {1, MPI_DISTRIBUTE_DFLT_DARG};
    OK(MPI_Type_create_darray(4, 1, 2, sizes, distribs, dargs, (int[]){2, 2}, MPI_ORDER_C, MPI_INT, &type));
    bounds(type, 0, 80, 12, 48, 16);
    packs(type, 1, 4, (int[]){3, 4, 13, 14});
    OK(MPI_Type_free(&type));
}

static void contents(void)
{
    MPI_Datatype type, of, types[2];
    int integers[8], n_integers, n_addresses, n_types, combiner;
    MPI_Aint addresses[2];
    OK(MPI_Type_contiguous(2, MPI_CHAR, &of));
    OK(MPI_Type_create_struct(2, (int[]){3, 4}, (MPI_Aint[]){5, 60}, (MPI_Datatype[]){of, MPI_DOUBLE}, &type));
    OK(MPI_Type_get_envelope(type, &n_integers, &n_addresses, &n_types, &combiner));
    CHECK(n_integers == 3 && n_addresses == 2 && n_types == 2 && combiner == MPI_COMBINER_STRUCT, "%d %d %d %d",
          n_integers, n_addresses, n_types, combiner);
    OK(MPI_Type_get_contents(type, 3, 2, 2, integers, addresses, types));
    CHECK(integers[0] == 2 && integers[1] == 3 && integers[2] == 4, "integers");
    CHECK(addresses[0] == 5 && addresses[1] == 60, "addresses");
    CHECK(types[1] == MPI_DOUBLE, "a predefined type");
    bounds(types[0], 0, 2, 0, 2, 2);
    OK(MPI_Type_free(&of));
    OK(MPI_Type_free(&types[0]));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_subarray(1, (int[]){9}, (int[]){4}, (int[]){2}, MPI_ORDER_FORTRAN, MPI_INT, &type));
    OK(MPI_Type_get_contents(type, 5, 0, 1, integers, NULL, types));
    CHECK(integers[0] == 1 && integers[1] == 9 && integers[2] == 4 && integers[3] == 2 &&
              integers[4] == MPI_ORDER_FORTRAN,
          "subarray");
    OK(MPI_Type_free(&type));
    OK(MPI_Type_get_envelope(MPI_INT, &n_integers, &n_addresses, &n_types, &combiner));
    CHECK(combiner == MPI_COMBINER_NAMED && n_integers + n_addresses + n_types == 0, "named");
    FAILS(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 8, 2, 2, integers, addresses, types));
#if MPI_VERSION >= 4
    MPI_Count counts[8], c_integers, c_addresses, c_counts, c_types;
    OK(MPI_Type_create_hindexed_c(2, (MPI_Count[]){1, 2}, (MPI_Count[]){8, -8}, MPI_INT, &type));
    OK(MPI_Type_get_envelope_c(type, &c_integers, &c_addresses, &c_counts, &c_types, &combiner));
    CHECK(c_integers == 0 && c_addresses == 0 && c_counts == 5 && c_types == 1, "large counts");
    OK(MPI_Type_get_contents_c(type, 0, 0, 5, 1, integers, addresses, counts, types));
    CHECK(counts[0] == 2 && counts[2] == 2 && counts[4] == -8 && types[0] == MPI_INT, "large counts");
    OK(MPI_Type_free(&type));
    OK(MPI_Type_contiguous_c((MPI_Count)5 << 32, MPI_INT, &type));
    MPI_Count lb, extent, size;
    OK(MPI_Type_get_extent_c(type, &lb, &extent));
    OK(MPI_Type_size_c(type, &size));
    CHECK(lb == 0 && extent == (MPI_Count)20 << 32 && size == extent, "5 Gi ints have extent %lld", (long long)extent);
    OK(MPI_Type_size(type, &integers[0]));
    CHECK(integers[0] == MPI_UNDEFINED, "a size that does not fit is %d", integers[0]);
    OK(MPI_Type_free(&type));
#endif
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Datatype type, copy;
    OK(MPI_Type_get_name(MPI_C_FLOAT_COMPLEX, name, &length));
    CHECK(strcmp(name, "MPI_C_COMPLEX") == 0 && length == 13, "%s", name);
    OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    CHECK(strcmp(name, "MPI_DATATYPE_NULL") == 0, "%s", name);
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_get_name(type, name, &length));
    CHECK(name[0] == 0 && length == 0, "%s", name);
    OK(MPI_Type_set_name(type, "two ints"));
    OK(MPI_Type_get_name(type, name, &length));
    CHECK(strcmp(name, "two ints") == 0 && length == 8, "%s", name);
    char long_name[2 * MPI_MAX_OBJECT_NAME];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    OK(MPI_Type_set_name(type, long_name));
    OK(MPI_Type_get_name(type, name, &length));
    CHECK(length == MPI_MAX_OBJECT_NAME - 1 && strncmp(name, long_name, length) == 0, "%d letters", length);
    OK(MPI_Type_dup(type, &copy));
    OK(MPI_Type_free(&type));
    bounds(copy, 0, 8, 0, 8, 8);
    OK(MPI_Type_free(&copy));
}

/* Datatypes of datatypes of datatypes, each of which is freed as soon as the next is made of it. */
static void deep(void)
{
    MPI_Datatype type, next;
    int size;
    OK(MPI_Type_dup(MPI_INT, &type));
    for (int step = 0; step < 100000; step++) {
        OK(step % 2 ? MPI_Type_contiguous(1, type, &next) : MPI_Type_create_resized(type, 0, 8, &next));
        OK(MPI_Type_free(&type));
        type = next;
    }
    OK(MPI_Type_size(type, &size));
    CHECK(size == sizeof(int), "%d", size);
    OK(MPI_Type_free(&type));
}

static int copied, deleted;

static int copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type, (void)key;
    copied++;
    *(char **)out = (char *)in + *(int *)extra;
    *flag = 1;
    return MPI_SUCCESS;
}

static int forget(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* A copy takes attributes along; they go with the datatype, not with one of its handles. */
static void attributes(void)
{
    MPI_Datatype type, twin, outer, inner;
    int key, flag, step = 3, integers[1];
    char *value, place[8];
    OK(MPI_Type_create_keyval(copy, forget, &key, &step));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_set_attr(type, key, place));
    OK(MPI_Type_dup(type, &twin));
    OK(MPI_Type_get_attr(twin, key, &value, &flag));
    CHECK(flag && value == place + 3 && copied == 1, "the copy's attribute");
    OK(MPI_Type_free(&twin));
    CHECK(deleted == 1, "%d deleted with the copy", deleted);
    OK(MPI_Type_contiguous(2, type, &outer));
    OK(MPI_Type_get_contents(outer, 1, 0, 1, integers, NULL, &inner));
    OK(MPI_Type_free(&inner));
    CHECK(deleted == 1, "%d deleted with a second handle", deleted);
    OK(MPI_Type_get_attr(type, key, &value, &flag));
    CHECK(flag && value == place, "the attribute stays");
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&outer));
    CHECK(deleted == 2, "%d deleted in the end", deleted);
    OK(MPI_Type_free_keyval(&key));
}

static void elements(void)
{
    MPI_Datatype type;
    MPI_Status status;
    int n;
    OK(MPI_Type_create_struct(2, (int[]){2, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &type));
    OK(MPI_Type_commit(&type));
    const int bytes[] = {0, 4, 8, 16, 20, 24, 32}, expected[] = {0, 1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 7; i++) {
        OK(MPI_Status_set_elements(&status, MPI_BYTE, bytes[i]));
        OK(MPI_Get_elements(&status, type, &n));
        CHECK(n == expected[i], "%d bytes have %d elements, expected %d", bytes[i], n, expected[i]);
        OK(MPI_Get_count(&status, type, &n));
        CHECK(n == (bytes[i] % 16 ? MPI_UNDEFINED : bytes[i] / 16), "%d bytes have count %d", bytes[i], n);
    }
    OK(MPI_Type_free(&type));
    OK(MPI_Status_set_elements(&status, MPI_BYTE, 20));
    OK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &n));
    CHECK(n == 3, "20 bytes of MPI_DOUBLE_INT have %d elements", n);
}

static void portable(void)
{
    char out[64];
    MPI_Aint position = 0, size;
    int values[2] = {1, -2}, back[2] = {0, 0};
    double d = 1.0, e = 0;
    OK(MPI_Pack_external_size("external32", 2, MPI_INT, &size));
    CHECK(size == 8, "size %ld", (long)size);
    MPI_Datatype three; /* A question about it needs no commit. */
    OK(MPI_Type_contiguous(3, MPI_INT, &three));
    OK(MPI_Pack_external_size("external32", 2, three, &size));
    CHECK(size == 24, "size %ld", (long)size);
    OK(MPI_Type_free(&three));
    OK(MPI_Pack_external("external32", values, 2, MPI_INT, out, sizeof out, &position));
    OK(MPI_Pack_external("external32", &d, 1, MPI_DOUBLE, out, sizeof out, &position));
    CHECK(position == 16, "position %ld", (long)position);
    CHECK(memcmp(out, "\0\0\0\1\xff\xff\xff\xfe\x3f\xf0\0\0\0\0\0\0", 16) == 0, "external32 bytes");
    position = 0;
    OK(MPI_Unpack_external("external32", out, 16, &position, back, 2, MPI_INT));
    OK(MPI_Unpack_external("external32", out, 16, &position, &e, 1, MPI_DOUBLE));
    CHECK(back[0] == 1 && back[1] == -2 && e == 1.0 && position == 16, "unpacked");
}

static void kinds(void)
{
    MPI_Datatype type, again;
    int size, n[4];
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == 8, "size %d", size);
    FAILS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type));
    OK(MPI_Type_create_f90_real(15, 300, &type));
    OK(MPI_Type_create_f90_real(15, 300, &again));
    CHECK(type == again, "another handle for the same kind");
    OK(MPI_Type_get_envelope(type, &n[0], &n[1], &n[2], &n[3]));
    CHECK(n[0] == 2 && n[3] == MPI_COMBINER_F90_REAL, "envelope %d %d", n[0], n[3]);
    OK(MPI_Type_create_f90_integer(9, &type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == 4, "size %d", size);
    OK(MPI_Type_create_f90_complex(6, 30, &type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == 8, "size %d", size);
}

static void errors(void)
{
    MPI_Datatype type = MPI_INT, null = MPI_DATATYPE_NULL;
    int one = 1;
    FAILS(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &type));
    FAILS(MPI_ERR_TYPE, MPI_Type_contiguous(1, null, &type));
    FAILS(MPI_ERR_ARG, MPI_Type_contiguous(1, MPI_INT, NULL));
    FAILS(MPI_ERR_COUNT, MPI_Type_vector(1, -1, 1, MPI_INT, &type));
    FAILS(MPI_ERR_COUNT, MPI_Type_indexed(1, (int[]){-1}, (int[]){0}, MPI_INT, &type));
    FAILS(MPI_ERR_ARG, MPI_Type_indexed(1, NULL, (int[]){0}, MPI_INT, &type));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(1, &one, &one, (int[]){0}, 3, MPI_INT, &type));
    FAILS(MPI_ERR_COUNT, MPI_Type_create_subarray(1, &one, &one, (int[]){-1}, MPI_ORDER_C, MPI_INT, &type));
    FAILS(MPI_ERR_ARG, MPI_Type_size(MPI_INT, NULL));
    type = MPI_DOUBLE_INT;
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&type));
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&null));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    FAILS(MPI_ERR_TYPE, MPI_Send((int[]){1, 2}, 1, type, my_rank, 0, MPI_COMM_WORLD));
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    constructors();
    structs();
    deep();
    arrays();
    contents();
    names();
    attributes();
    elements();
    portable();
    kinds();
    errors();
    MPI_Aint address, other;
    OK(MPI_Get_address(&argc, &address));
    OK(MPI_Get_address((char *)&argc + 2, &other));
    CHECK(MPI_Aint_diff(other, address) == 2 && MPI_Aint_add(address, 2) == other, "addresses");
    OK(MPI_Finalize());
    return 0;
}

/* Claim: a user operation that is associative but not commutative is applied in rank order by every reduction, on a
 * derived type and on a predefined one, in place too, for all counts, and may ask MPI about the type; a commutative one gives
 * the serial result; the type passed is the caller's; scans pass whole vectors. */
#include "comms.h"
#include <stdint.h>

/* 2x2 matrices modulo a small prime: products depend on the order. */
typedef struct { int a, b, c, d; } Matrix;
static MPI_Datatype matrix;
static int calls;

static Matrix multiply(Matrix x, Matrix y)
{
    return (Matrix){(x.a * y.a + x.b * y.c) % 997, (x.a * y.b + x.b * y.d) % 997,
                    (x.c * y.a + x.d * y.c) % 997, (x.c * y.b + x.d * y.d) % 997};
}

static void product(void *in, void *inout, int *count, MPI_Datatype *type)
{
    Matrix *x = in, *y = inout;
    CHECK(*type == matrix, "the operation got another type");
    calls++;
    for (int i = 0; i < *count; i++)
        y[i] = multiply(x[i], y[i]);
}

/* The same matrices, each in one integer of 64 bits. */
static uint64_t packed(Matrix m) { return (uint64_t)m.a << 48 | (uint64_t)m.b << 32 | (uint64_t)m.c << 16 | (uint64_t)m.d; }

static Matrix unpacked(uint64_t m) { return (Matrix){m >> 48, m >> 32 & 0xffff, m >> 16 & 0xffff, m & 0xffff}; }

static void packed_product(void *in, void *inout, int *count, MPI_Datatype *type)
{
    uint64_t *x = in, *y = inout;
    int size;
    OK(MPI_Type_size(*type, &size));
    CHECK(*type == MPI_UINT64_T && size == 8, "the operation got another type");
    for (int i = 0; i < *count; i++)
        y[i] = packed(multiply(unpacked(x[i]), unpacked(y[i])));
}

/* Sums, and spoils its first operand, which no program should. */
static void spoils(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *x = in, *y = inout;
    (void)type;
    for (int i = 0; i < *count; i++)
        y[i] += x[i], x[i] = -1;
}

/* Under nearmpi a short operand that is spoilt is nobody's: all ranks get the sum, and keep what they gave. */
static void spoil(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int out[100], in[100], length;
    MPI_Op op;
    OK(MPI_Get_library_version(text, &length));
    if (!strstr(text, "nearmpi"))
        return;
    OK(MPI_Op_create(spoils, 1, &op));
    for (int i = 0; i < 100; i++)
        out[i] = my_rank + i;
    OK(MPI_Allreduce(out, in, 100, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < 100; i++) {
        CHECK(in[i] == n_ranks * (n_ranks - 1) / 2 + n_ranks * i, "element %d: %d", i, in[i]);
        CHECK(out[i] == my_rank + i, "operand %d: %d", i, out[i]);
    }
    OK(MPI_Op_free(&op));
}

static int whole_count;

static void whole_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *x = in, *y = inout;
    (void)type;
    CHECK(*count == whole_count, "%d elements of %d", *count, whole_count);
    for (int i = 0; i < *count; i++)
        y[i] += x[i];
}

/* The standard lets other reductions go in pieces, and MPICH's do; its scans don't, and its tests of C++ ask for that. */
static void scan_whole(void)
{
    MPI_Op op;
    int *out = need((1 << 18) * sizeof *out), *in = need((1 << 18) * sizeof *in);
    OK(MPI_Op_create(whole_sum, 1, &op));
    for (int i = 0; i < 1 << 18; i++)
        out[i] = i;
    for (whole_count = 1; whole_count <= 1 << 18; whole_count *= 2) {
        OK(MPI_Scan(out, in, whole_count, MPI_INT, op, MPI_COMM_WORLD));
        for (int i = 0; i < whole_count; i++)
            CHECK(in[i] == i * (my_rank + 1), "scan, element %d: %d", i, in[i]);
        OK(MPI_Exscan(out, in, whole_count, MPI_INT, op, MPI_COMM_WORLD));
        for (int i = 0; my_rank && i < whole_count; i++)
            CHECK(in[i] == i * my_rank, "exscan, element %d: %d", i, in[i]);
    }
    OK(MPI_Op_free(&op));
    free(out);
    free(in);
}

static void largest(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int *x = in, *y = inout;
    CHECK(*type == MPI_INT, "the operation got another type");
    for (int i = 0; i < *count; i++)
        y[i] = x[i] % 100 > y[i] % 100 || (x[i] % 100 == y[i] % 100 && x[i] > y[i]) ? x[i] : y[i];
}

static Matrix contribution(int rank, int i) { return (Matrix){rank + 1, i % 10, 1, (rank * i) % 5 + 1}; }

/* The product of the contributions of ranks `from` to `to - 1`. */
static Matrix serial(int to, int i)
{
    Matrix m = contribution(0, i);
    for (int r = 1; r < to; r++)
        m = multiply(m, contribution(r, i));
    return m;
}

static void same(const Matrix *got, int ranks, int offset, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        Matrix want = serial(ranks, offset + i);
        CHECK(!memcmp(&got[i], &want, sizeof want), "%s count %d element %d: %d %d %d %d, expected %d %d %d %d", name, count,
              i, got[i].a, got[i].b, got[i].c, got[i].d, want.a, want.b, want.c, want.d);
    }
}

static void same_packed(const uint64_t *got, int ranks, int offset, int count, const char *name)
{
    for (int i = 0; i < count; i++) {
        uint64_t want = packed(serial(ranks, offset + i));
        CHECK(got[i] == want, "%s count %d element %d: %llx, expected %llx", name, count, i, (unsigned long long)got[i],
              (unsigned long long)want);
    }
}

/* Every reduction of `count` integers a rank, from `out` and in place. */
static void reduce_packed(MPI_Comm comm, MPI_Op op, int count, uint64_t *out, uint64_t *in)
{
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    for (int place = 0; place < 2; place++) {
        const void *from = place ? MPI_IN_PLACE : out;
        int *lengths = need(size * sizeof(int)), whole = count * size;
        for (int i = 0; i < whole; i++)
            out[i] = packed(contribution(rank, i));
#define FILLED (memcpy(in, out, whole * sizeof *in), in)
        for (int root = 0; root < size; root++) {
            OK(MPI_Reduce(rank == root ? from : out, FILLED, count, MPI_UINT64_T, op, root, comm));
            if (rank == root)
                same_packed(in, size, 0, count, "reduce");
        }
        OK(MPI_Allreduce(from, FILLED, count, MPI_UINT64_T, op, comm));
        same_packed(in, size, 0, count, "allreduce");
        OK(MPI_Scan(from, FILLED, count, MPI_UINT64_T, op, comm));
        same_packed(in, rank + 1, 0, count, "scan");
        OK(MPI_Exscan(from, FILLED, count, MPI_UINT64_T, op, comm));
        if (rank)
            same_packed(in, rank, 0, count, "exscan");
        OK(MPI_Reduce_scatter_block(from, FILLED, count, MPI_UINT64_T, op, comm));
        same_packed(in, size, rank * count, count, "reduce_scatter_block");
        for (int r = 0; r < size; r++)
            lengths[r] = r == 0 ? whole - (size - 1) * (count / 2) : count / 2;
        OK(MPI_Reduce_scatter(from, FILLED, lengths, MPI_UINT64_T, op, comm));
        same_packed(in, size, rank ? lengths[0] + (rank - 1) * (count / 2) : 0, lengths[rank], "reduce_scatter");
        free(lengths);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static const int few[] = {0, 1, 3, 100, 5001};
    MPI_Op order, top, packs;
    MPI_Comm comms[COMMS];
    Matrix *out = need(5001 * sizeof *out * n_ranks), *in = need(5001 * sizeof *in * n_ranks);
    int *lengths = need(n_ranks * sizeof(int)), commutes = 9;
    OK(MPI_Type_contiguous(4, MPI_INT, &matrix));
    OK(MPI_Type_commit(&matrix));
    OK(MPI_Op_create(product, 0, &order));
    OK(MPI_Op_create(largest, 1, &top));
    OK(MPI_Op_create(packed_product, 0, &packs));
    OK(MPI_Op_commutative(order, &commutes));
    CHECK(commutes == 0, "commutative: %d", commutes);
    make_comms(comms);
    for (int k = 0; k < COMMS; k++)
        for (int c = 0; c < 5; c++) {
            int rank, size, count = few[c];
            OK(MPI_Comm_rank(comms[k], &rank));
            OK(MPI_Comm_size(comms[k], &size));
            for (int i = 0; i < count * size; i++)
                out[i] = contribution(rank, i);
            for (int root = 0; root < size; root++) {
                OK(MPI_Reduce(out, in, count, matrix, order, root, comms[k]));
                if (rank == root)
                    same(in, size, 0, count, "reduce");
            }
            OK(MPI_Allreduce(out, in, count, matrix, order, comms[k]));
            same(in, size, 0, count, "allreduce");
            OK(MPI_Scan(out, in, count, matrix, order, comms[k]));
            same(in, rank + 1, 0, count, "scan");
            OK(MPI_Exscan(out, in, count, matrix, order, comms[k]));
            if (rank)
                same(in, rank, 0, count, "exscan");
            OK(MPI_Reduce_scatter_block(out, in, count, matrix, order, comms[k]));
            same(in, size, rank * count, count, "reduce_scatter_block");
            for (int r = 0; r < size; r++)
                lengths[r] = count;
            OK(MPI_Reduce_scatter(out, in, lengths, matrix, order, comms[k]));
            same(in, size, rank * count, count, "reduce_scatter");
            reduce_packed(comms[k], packs, count, (uint64_t *)out, (uint64_t *)in);
        }
    int mine = my_rank * 137 % 100 + 100 * my_rank, best = 0, want = 0;
    for (int r = 0; r < n_ranks; r++) {
        int value = r * 137 % 100 + 100 * r;
        want = value % 100 > want % 100 || (value % 100 == want % 100 && value > want) ? value : want;
    }
    OK(MPI_Allreduce(&mine, &best, 1, MPI_INT, top, MPI_COMM_WORLD));
    CHECK(best == want, "largest %d, expected %d", best, want);
    spoil();
    scan_whole();
    CHECK(n_ranks == 1 || calls > 0, "the operation was never called");
    free_comms(comms);
    OK(MPI_Op_free(&order));
    CHECK(order == MPI_OP_NULL, "handle not null after free");
    OK(MPI_Op_free(&top));
    OK(MPI_Op_free(&packs));
    OK(MPI_Type_free(&matrix));
    return finish();
}

/* Claim: Reduce, Allreduce, Reduce_scatter, Reduce_scatter_block, Scan and Exscan give the serial result for every
 * root, count and communicator, with MPI_IN_PLACE too, and leave the send buffer alone. */
#include "comms.h"

static int *out, *in, *expected;

/* A sum that wraps like unsigned arithmetic would not be portable: keep elements small. */
static int small(int rank, int i) { return (rank + 1) * (i % 1000 + 1) - i % 13; }

/* expected[i] = sum of the ranks below `ranks`. */
static void serial(int ranks, int count)
{
    for (int i = 0; i < count; i++) {
        expected[i] = 0;
        for (int r = 0; r < ranks; r++)
            expected[i] += small(r, i);
    }
}

static void same(const int *got, const int *want, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        CHECK(got[i] == want[i], "%s count %d: [%d] = %d, expected %d", name, count, i, got[i], want[i]);
    CHECK(got[count] == -7, "%s wrote past the end", name);
}

static void prepare(int rank, int count)
{
    for (int i = 0; i < count; i++) {
        out[i] = small(rank, i);
        in[i] = -7;
    }
    in[count] = out[count] = -7;
}

static void untouched(int rank, int count)
{
    for (int i = 0; i < count; i++)
        CHECK(out[i] == small(rank, i), "the send buffer changed at %d", i);
}

static void rooted(MPI_Comm comm, int rank, int size, int count)
{
    for (int root = 0; root < size; root++) {
        prepare(rank, count);
        serial(size, count);
        OK(MPI_Reduce(out, rank == root ? in : NULL, count, MPI_INT, MPI_SUM, root, comm));
        if (rank == root)
            same(in, expected, count, "reduce");
        untouched(rank, count);
        if (rank == root)
            OK(MPI_Reduce(MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, root, comm));
        else
            OK(MPI_Reduce(out, NULL, count, MPI_INT, MPI_SUM, root, comm));
        if (rank == root)
            same(out, expected, count, "reduce in place");
    }
}

static void everywhere(MPI_Comm comm, int rank, int size, int count)
{
    prepare(rank, count);
    serial(size, count);
    OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm));
    same(in, expected, count, "allreduce");
    untouched(rank, count);
    OK(MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, comm));
    same(out, expected, count, "allreduce in place");
    prepare(rank, count);
    serial(rank + 1, count);
    OK(MPI_Scan(out, in, count, MPI_INT, MPI_SUM, comm));
    same(in, expected, count, "scan");
    untouched(rank, count);
    OK(MPI_Scan(MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, comm));
    same(out, expected, count, "scan in place");
    prepare(rank, count);
    serial(rank, count);
    OK(MPI_Exscan(out, in, count, MPI_INT, MPI_SUM, comm));
    if (rank > 0)
        same(in, expected, count, "exscan");
    OK(MPI_Exscan(MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, comm));
    if (rank > 0)
        same(out, expected, count, "exscan in place");
}

static void scattered(MPI_Comm comm, int rank, int size, int count)
{
    int *lengths = need(size * sizeof(int)), at = 0, total = 0;
    for (int r = 0; r < size; r++) {
        lengths[r] = r % 3 == 1 ? 0 : count / (r % 2 + 1);
        at += r < rank ? lengths[r] : 0;
        total += lengths[r];
    }
    prepare(rank, total);
    serial(size, total);
    OK(MPI_Reduce_scatter(out, in, lengths, MPI_INT, MPI_SUM, comm));
    same(in, expected + at, lengths[rank], "reduce_scatter");
    untouched(rank, total);
    OK(MPI_Reduce_scatter(MPI_IN_PLACE, out, lengths, MPI_INT, MPI_SUM, comm));
    CHECK(!memcmp(out, expected + at, sizeof(int) * lengths[rank]), "reduce_scatter in place, count %d", count);
    prepare(rank, count * size);
    serial(size, count * size);
    OK(MPI_Reduce_scatter_block(out, in, count, MPI_INT, MPI_SUM, comm));
    same(in, expected + count * rank, count, "reduce_scatter_block");
    OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, out, count, MPI_INT, MPI_SUM, comm));
    CHECK(!memcmp(out, expected + count * rank, sizeof(int) * count), "reduce_scatter_block in place, count %d", count);
    free(lengths);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    size_t room = sizeof(int) * ((size_t)MOST + 2) * n_ranks;
    out = need(room), in = need(room), expected = need(room);
    MPI_Comm comms[COMMS];
    make_comms(comms);
    for (int k = 0; k < COMMS; k++)
        for (int c = 0; c < COUNTS; c++) {
            int rank, size;
            OK(MPI_Comm_rank(comms[k], &rank));
            OK(MPI_Comm_size(comms[k], &size));
            rooted(comms[k], rank, size, counts[c]);
            everywhere(comms[k], rank, size, counts[c]);
            scattered(comms[k], rank, size, counts[c]);
        }
    free_comms(comms);
    return finish();
}

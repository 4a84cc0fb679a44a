/* Claim: Collectives on memory of MPI_Alloc_mem, which others may read where it lies, give what those on any other memory give: a rank
 * may overwrite what it sent as soon as its call has returned, however late the others are, in place or not, whoever has such memory,
 * the first time that data are sent and the second. */
#include "check.h"

enum { MOST = 1 << 18 };
static const int counts[] = {1, 100, 511, 512, 513, 2000, 4099, 16384, 66000, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };

static int *out, *in;
static int lag;

static int element(int rank, int i) { return rank * 7919 + i * 13 + lag; }

/* What ranks 0 to n_ranks - 1 have at `i`, added up. */
static int sum(int i)
{
    int all = 0;
    for (int rank = 0; rank < n_ranks; rank++)
        all += element(rank, i);
    return all;
}

static void before(int *to, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = element(my_rank, i);
}

/* The same call again, so that the data are what they were in the call before; one rank comes late, another one each time. */
#define TIMES(times, call)                          \
    for (int time_ = 0; time_ < (times); time_++) { \
        if ((lag + time_) % n_ranks == my_rank)     \
            usleep(100);                            \
        OK(call);                                   \
    }
#define TWICE(call) TIMES(2, call)
/* ... but once in place, where the result takes the place of the data. */
#define ONCE_IN_PLACE(call) TIMES(2 - in_place, call)

static void after(int *sent, int count)
{
    for (int i = 0; i < count; i++)
        sent[i] = -1;
    lag++;
}

#define SEES(at, expected)                                                                                          \
    do {                                                                                                            \
        int see_ = (expected);                                                                                      \
        CHECK(in[at] == see_, "count %d, lag %d: [%d] = %d, expected %d", count, lag, (int)(at), in[at], see_);     \
    } while (0)

static void all_of(int count)
{
    const int each = count / n_ranks, total = each * n_ranks;
    for (int root = 0; root < n_ranks; root++) {
        int *data = my_rank == root ? out : in;
        before(out, count);
        TWICE(MPI_Bcast(data, count, MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < count && my_rank != root; i++)
            SEES(i, element(root, i));
        after(out, count);

        before(out, total);
        TWICE(MPI_Scatter(out, each, MPI_INT, in, each, MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < each; i++)
            SEES(i, element(root, my_rank * each + i));
        after(out, total);

        before(out, each);
        TWICE(MPI_Gather(out, each, MPI_INT, in, each, MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < total && my_rank == root; i++)
            SEES(i, element(i / each, i % each));
        after(out, each);

        before(out, count);
        TWICE(MPI_Reduce(out, in, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        for (int i = 0; i < count && my_rank == root; i++)
            SEES(i, sum(i));
        after(out, count);
    }
    before(out, each);
    TWICE(MPI_Allgather(out, each, MPI_INT, in, each, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < total; i++)
        SEES(i, element(i / each, i % each));
    after(out, each);

    before(in + my_rank * each, each);
    TWICE(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, in, each, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < total; i++)
        SEES(i, element(i / each, i % each));
    after(in, total);

    for (int in_place = 0; in_place < 2; in_place++) {
        int *mine = in_place ? in : out;
        const void *sent = in_place ? MPI_IN_PLACE : out;
        before(mine, total);
        ONCE_IN_PLACE(MPI_Alltoall(sent, each, MPI_INT, in, each, MPI_INT, MPI_COMM_WORLD));
        for (int i = 0; i < total; i++)
            SEES(i, element(i / each, my_rank * each + i % each));
        after(mine, total);

        before(mine, count);
        ONCE_IN_PLACE(MPI_Allreduce(sent, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            SEES(i, sum(i));
        after(mine, count);

        before(mine, total);
        ONCE_IN_PLACE(MPI_Reduce_scatter_block(sent, in, each, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < each; i++)
            SEES(i, sum(my_rank * each + i));
        after(mine, total);

        before(mine, count);
        ONCE_IN_PLACE(MPI_Scan(sent, in, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            SEES(i, element(my_rank, i));
        after(mine, count);
    }
    int counts_v[n_ranks], starts[n_ranks];
    for (int rank = 0; rank < n_ranks; rank++) {
        counts_v[rank] = rank == my_rank ? 0 : each;
        starts[rank] = rank * each;
    }
    before(out, total);
    TWICE(MPI_Alltoallv(out, counts_v, starts, MPI_INT, in, counts_v, starts, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < total; i++)
        if (i / each != my_rank)
            SEES(i, element(i / each, my_rank * each + i % each));
    after(out, total);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static int common[2][MOST];
    /* Whose send and receive buffers are such memory: all, those of even ranks, the send buffers, the receive buffers. */
    for (int kind = 0; kind < 4; kind++) {
        int *given[2];
        for (int k = 0; k < 2; k++)
            OK(MPI_Alloc_mem(MOST * sizeof(int), MPI_INFO_NULL, &given[k]));
        out = kind == 3 || (kind == 1 && my_rank % 2) ? common[0] : given[0];
        in = kind == 2 || (kind == 1 && my_rank % 2) ? common[1] : given[1];
        for (int c = 0; c < COUNTS; c++)
            all_of(counts[c]);
        for (int k = 0; k < 2; k++)
            OK(MPI_Free_mem(given[k]));
    }
    return finish();
}

/* Claim: the nonblocking and persistent forms of collectives, those on intercommunicators and those among neighbours
 * give what the blocking ones give. Where nothing is moved nobody waits. */
#include "check.h"

enum { COUNT = 5000, STARTS = 3 };

static int value(int rank, int i) { return rank * 7 + i % 100; }

static int sum_to(int ranks, int i)
{
    return 7 * ranks * (ranks - 1) / 2 + ranks * (i % 100);
}

/* Several at once, completed in another order on every rank. */
static void nonblocking(void)
{
    int *mine = need(COUNT * sizeof(int)), *sum = need(COUNT * sizeof(int)), *all = need(COUNT * n_ranks * sizeof(int));
    int *cast = need(COUNT * sizeof(int)), *scanned = need(COUNT * sizeof(int));
    for (int i = 0; i < COUNT; i++) {
        mine[i] = value(my_rank, i);
        cast[i] = my_rank == n_ranks - 1 ? i : -1;
    }
    MPI_Request requests[5];
    OK(MPI_Iallreduce(mine, sum, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Ibcast(cast, COUNT, MPI_INT, n_ranks - 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Iallgather(mine, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD, &requests[2]));
    OK(MPI_Iscan(mine, scanned, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]));
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[4]));
    for (int turn = 0; turn < 5; turn++)
        OK(MPI_Wait(&requests[(turn + my_rank) % 5], MPI_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++) {
        CHECK(sum[i] == sum_to(n_ranks, i), "sum[%d] = %d", i, sum[i]);
        CHECK(cast[i] == i, "cast[%d] = %d", i, cast[i]);
        CHECK(scanned[i] == sum_to(my_rank + 1, i), "scanned[%d] = %d", i, scanned[i]);
        for (int r = 0; r < n_ranks; r++)
            CHECK(all[r * COUNT + i] == value(r, i), "all[%d][%d] = %d", r, i, all[r * COUNT + i]);
    }
    free(mine), free(sum), free(all), free(cast), free(scanned);
}

/* Many short ones under way, more than any table of the library is long, in place or not, with a blocking one in between,
 * completed in another order on every rank. */
static void many(void)
{
    enum { MANY = 90 };
    int mine[MANY][4], sum[MANY][4], cast[MANY];
    int *all = need((size_t)MANY * n_ranks * sizeof(int));
    MPI_Request requests[3 * MANY];
    for (int k = 0; k < MANY; k++) {
        int *of = all + k * n_ranks;
        for (int i = 0; i < 4; i++)
            mine[k][i] = sum[k][i] = value(my_rank, i) + k;
        cast[k] = my_rank == k % n_ranks ? k : -1;
        for (int r = 0; r < n_ranks; r++)
            of[r] = my_rank * 100 + k;
        OK(MPI_Iallreduce(k % 2 ? MPI_IN_PLACE : mine[k], sum[k], 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3 * k]));
        OK(MPI_Ibcast(&cast[k], 1, MPI_INT, k % n_ranks, MPI_COMM_WORLD, &requests[3 * k + 1]));
        OK(MPI_Ialltoall(MPI_IN_PLACE, 1, MPI_INT, of, 1, MPI_INT, MPI_COMM_WORLD, &requests[3 * k + 2]));
        if (k == 60) {
            int one = 1, ranks = 0;
            OK(MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            CHECK(ranks == n_ranks, "%d ranks", ranks);
        }
    }
    for (int turn = 0; turn < 3 * MANY; turn++)
        OK(MPI_Wait(&requests[(turn * 7 + my_rank * 31) % (3 * MANY)], MPI_STATUS_IGNORE));
    for (int k = 0; k < MANY; k++) {
        CHECK(cast[k] == k, "cast[%d] = %d", k, cast[k]);
        for (int i = 0; i < 4; i++)
            CHECK(sum[k][i] == sum_to(n_ranks, i) + k * n_ranks, "sum[%d][%d] = %d", k, i, sum[k][i]);
        for (int r = 0; r < n_ranks; r++)
            CHECK(all[k * n_ranks + r] == r * 100 + k, "all[%d][%d] = %d", k, r, all[k * n_ranks + r]);
    }
    free(all);
}

/* Two persistent operations, started in opposite orders on even and odd ranks. */
static void persistent(void)
{
    int mine[4], sum[4], cast[4];
    MPI_Request requests[2];
    OK(MPI_Allreduce_init(mine, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Bcast_init(cast, 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int turn = 0; turn < STARTS; turn++) {
        for (int i = 0; i < 4; i++) {
            mine[i] = value(my_rank, i) + turn;
            cast[i] = my_rank ? -1 : turn * 10 + i;
        }
        OK(MPI_Start(&requests[my_rank % 2]));
        OK(MPI_Start(&requests[1 - my_rank % 2]));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 4; i++) {
            CHECK(sum[i] == sum_to(n_ranks, i) + turn * n_ranks, "turn %d: sum[%d] = %d", turn, i, sum[i]);
            CHECK(cast[i] == turn * 10 + i, "turn %d: cast[%d] = %d", turn, i, cast[i]);
        }
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

/* Even ranks against odd ranks. */
static void between_groups(void)
{
    int side = my_rank % 2, others = side ? (n_ranks + 1) / 2 : n_ranks / 2, me = my_rank / 2;
    MPI_Comm mine, inter;
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, my_rank, &mine));
    OK(MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1 - side, 5, &inter));
    OK(MPI_Barrier(inter));
    int number = my_rank + 1, sum = -1, cast = side == 0 && me == 0 ? 42 : -1, all[64], expected = 0;
    OK(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, inter));
    OK(MPI_Allgather(&number, 1, MPI_INT, all, 1, MPI_INT, inter));
    for (int r = 0; r < others; r++) {
        int other = 2 * r + 1 - side + 1;
        expected += other;
        CHECK(all[r] == other, "all[%d] = %d, expected %d", r, all[r], other);
    }
    CHECK(sum == expected, "sum = %d, expected %d", sum, expected);
    int root = side ? 0 : me ? MPI_PROC_NULL : MPI_ROOT;
    OK(MPI_Bcast(&cast, 1, MPI_INT, root, inter));
    CHECK(cast == (side || !me ? 42 : -1), "cast = %d", cast);
    sum = -1;
    OK(MPI_Reduce(&number, &sum, 1, MPI_INT, MPI_SUM, root, inter));
    CHECK(sum == (root == MPI_ROOT ? expected : -1), "reduced %d", sum);
    OK(MPI_Gather(&number, 1, MPI_INT, all, 1, MPI_INT, root, inter));
    for (int r = 0; root == MPI_ROOT && r < others; r++)
        CHECK(all[r] == 2 * r + 2, "gathered %d", all[r]);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&mine));
}

/* A periodic ring: what goes down comes in from above, also where both neighbours are the same process. */
static void neighbours(void)
{
    int periodic = 1, out[2] = {my_rank * 2, my_rank * 2 + 1}, in[2] = {-1, -1}, all[2] = {-1, -1};
    int below = (my_rank + n_ranks - 1) % n_ranks, above = (my_rank + 1) % n_ranks;
    MPI_Comm ring;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n_ranks, &periodic, 0, &ring));
    OK(MPI_Neighbor_allgather(&my_rank, 1, MPI_INT, all, 1, MPI_INT, ring));
    CHECK(all[0] == below && all[1] == above, "from %d and %d", all[0], all[1]);
    OK(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring));
    CHECK(in[0] == below * 2 + 1 && in[1] == above * 2, "got %d and %d", in[0], in[1]);
    OK(MPI_Comm_free(&ring));
}

/* The last rank has ended operations without data before the others begin them. */
static void nothing(void)
{
    int one = 1, counts[n_ranks], places[n_ranks], last = n_ranks - 1;
    MPI_Request request;
    memset(counts, 0, sizeof counts), memset(places, 0, sizeof places);
    if (my_rank != last)
        OK(MPI_Recv(&one, 1, MPI_INT, last, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD));
    OK(MPI_Reduce(NULL, NULL, 0, MPI_INT, MPI_SUM, last, MPI_COMM_WORLD));
    OK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Scan(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Reduce_scatter_block(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Gather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, last, MPI_COMM_WORLD));
    OK(MPI_Scatter(NULL, 0, MPI_INT, NULL, 0, MPI_INT, last, MPI_COMM_WORLD));
    OK(MPI_Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Allgatherv(NULL, 0, MPI_INT, NULL, counts, places, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Iallgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int r = 0; my_rank == last && r < last; r++)
        OK(MPI_Send(&one, 1, MPI_INT, r, 3, MPI_COMM_WORLD));
}

/* Reductions of nothing, whatever buffers some ranks name, leave the next operation as it is. */
static void no_elements(void)
{
    int one = 1, counts[n_ranks], places[n_ranks], out[n_ranks], in[n_ranks], *room = my_rank % 2 ? NULL : &one;
    MPI_Request requests[6];
    memset(counts, 0, sizeof counts);
    OK(MPI_Iallreduce(NULL, room, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Ireduce(NULL, room, 0, MPI_INT, MPI_SUM, n_ranks > 1, MPI_COMM_WORLD, &requests[1])); /* both are NULL there */
    OK(MPI_Iscan(NULL, room, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]));
    OK(MPI_Iexscan(NULL, room, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]));
    OK(MPI_Ireduce_scatter(NULL, room, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[4]));
    OK(MPI_Ireduce_scatter_block(NULL, room, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[5]));
    OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
    for (int r = 0; r < n_ranks; r++)
        counts[r] = 1, places[r] = r, out[r] = my_rank * 100 + r;
    OK(MPI_Ialltoallv(out, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD, requests));
    OK(MPI_Wait(requests, MPI_STATUS_IGNORE));
    for (int r = 0; r < n_ranks; r++)
        CHECK(in[r] == r * 100 + my_rank, "%d from rank %d", in[r], r);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    nothing();
    nonblocking();
    many();
    persistent();
    if (n_ranks > 1)
        between_groups();
    neighbours();
    nothing(); /* once more, now that the ranks have met */
    no_elements();
    return finish();
}

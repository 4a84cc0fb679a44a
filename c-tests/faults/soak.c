/* Random traffic with every byte checked: `soak SECONDS SEED`. All ranks draw the same numbers, so that each knows
 * what the others send. Prints the messages and bytes that rank 0 has checked. */
#include "../check.h"
#include <time.h>

enum { MOST = 3 << 20, DEEP = 8 };

static unsigned char *out[DEEP], *in[DEEP];
static long long messages, bytes;
static uint32_t draw;

static uint32_t pick(uint32_t below)
{
    return next_random(&draw) % below;
}

/* Mostly short, sometimes megabytes; often at a limit of the paths that bytes take. */
static size_t length(void)
{
    static const size_t edges[] = {0, 1, 8, 47, 48, 49, 4096, 8191, 8192, 8193, 16383, 16384, 16385, 32767, 32768, 32769, 65536, 131072};
    switch (pick(8)) {
    case 0:
    case 1:
        return edges[pick(sizeof edges / sizeof *edges)];
    case 2:
        return pick(1 << 16);
    case 3:
        return pick(16) ? pick(1 << 18) : pick(MOST);
    default:
        return pick(200);
    }
}

static void count(size_t size)
{
    messages++;
    bytes += (long long)size;
}

/* Everybody sends to the rank `shift` further on, several messages, in a random way. */
static void ring(unsigned seed)
{
    int shift = 1 + (int)pick((uint32_t)n_ranks), deep = 1 + (int)pick(DEEP), way = (int)pick(6), order = (int)pick(2);
    int to = (my_rank + shift) % n_ranks, from = (my_rank + n_ranks - shift % n_ranks) % n_ranks;
    size_t sizes[DEEP];
    MPI_Request requests[2 * DEEP];
    MPI_Status status;
    for (int i = 0; i < deep; i++) {
        sizes[i] = length();
        fill(out[i], sizes[i], seed + 1000u * (unsigned)my_rank + (unsigned)i);
        memset(in[i], 0xee, sizes[i]);
    }
    for (int i = 0; i < deep; i++) {
        int size = (int)sizes[i], late = way == 5 || order;
        if (!late)
            OK(MPI_Irecv(in[i], size, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[i]));
        if (way == 1)
            OK(MPI_Issend(out[i], size, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[DEEP + i]));
        else
            OK(MPI_Isend(out[i], size, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[DEEP + i]));
    }
    for (int n = 0; n < deep; n++) {
        int i = way == 4 ? deep - 1 - n : n;
        if (way == 5) { /* find out first */
            int got;
            OK(MPI_Probe(from, i, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &got));
            CHECK(got == (int)sizes[i], "%d bytes for %zu", got, sizes[i]);
        }
        if (way == 5 || order)
            OK(MPI_Irecv(in[i], (int)sizes[i], MPI_BYTE, way == 3 ? MPI_ANY_SOURCE : from, i, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Waitall(deep, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Waitall(deep, requests + DEEP, MPI_STATUSES_IGNORE));
    for (int i = 0; i < deep; i++) {
        CHECK_BYTES(in[i], sizes[i], seed + 1000u * (unsigned)from + (unsigned)i);
        count(sizes[i]);
    }
    /* Messages from any source are told apart by their ring only. */
    if (way == 3)
        OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A derived type on one side, bytes on the other. */
static void gaps(unsigned seed)
{
    int blocks = 1 + (int)pick(5000), to = (my_rank + 1) % n_ranks, from = (my_rank + n_ranks - 1) % n_ranks;
    size_t size = 12 * (size_t)blocks;
    MPI_Datatype type;
    OK(MPI_Type_vector(blocks, 12, 20, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    fill(out[0], size, seed + (unsigned)my_rank);
    memset(in[0], 0xee, 20 * (size_t)blocks);
    OK(MPI_Sendrecv(out[0], (int)size, MPI_BYTE, to, 1, in[0], 1, type, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (size_t i = 0; i < size; i++)
        CHECK(in[0][i / 12 * 20 + i % 12] == byte_at(seed + (unsigned)from, i), "byte %zu of %zu", i, size);
    OK(MPI_Type_free(&type));
    count(size);
}

static void together(unsigned seed)
{
    int root = (int)pick((uint32_t)n_ranks);
    size_t size = length() / (size_t)n_ranks;
    switch (pick(4)) {
    case 0:
        fill(in[0], size, my_rank == root ? seed : 0);
        OK(MPI_Bcast(in[0], (int)size, MPI_BYTE, root, MPI_COMM_WORLD));
        CHECK_BYTES(in[0], size, seed);
        break;
    case 1:
        fill(out[0], size, seed + (unsigned)my_rank);
        OK(MPI_Allgather(out[0], (int)size, MPI_BYTE, in[0], (int)size, MPI_BYTE, MPI_COMM_WORLD));
        for (int i = 0; i < n_ranks; i++)
            CHECK_BYTES(in[0] + size * (size_t)i, size, seed + (unsigned)i);
        break;
    case 2:
        for (int i = 0; i < n_ranks; i++)
            fill(out[0] + size * (size_t)i, size, seed + 100u * (unsigned)my_rank + (unsigned)i);
        OK(MPI_Alltoall(out[0], (int)size, MPI_BYTE, in[0], (int)size, MPI_BYTE, MPI_COMM_WORLD));
        for (int i = 0; i < n_ranks; i++)
            CHECK_BYTES(in[0] + size * (size_t)i, size, seed + 100u * (unsigned)i + (unsigned)my_rank);
        break;
    default: {
        long long *values = (long long *)out[0], *sums = (long long *)in[0];
        size_t n = size / sizeof *values;
        for (size_t i = 0; i < n; i++)
            values[i] = (long long)(seed + i) * (my_rank + 1);
        OK(MPI_Allreduce(values, sums, (int)n, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
        for (size_t i = 0; i < n; i++)
            CHECK(sums[i] == (long long)(seed + i) * n_ranks * (n_ranks + 1) / 2, "sum %zu of %zu", i, n);
    }
    }
    count(size);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    int again = 1;
    start(&argc, &argv);
    draw = seed;
    for (int i = 0; i < DEEP; i++) {
        out[i] = need(MOST + 64);
        in[i] = need(MOST + 64);
    }
    for (double end = MPI_Wtime() + seconds; again;) {
        for (int i = 0; i < 20; i++, seed += 7919)
            switch (pick(8)) {
            case 0:
                gaps(seed);
                break;
            case 1:
            case 2:
                together(seed);
                break;
            default:
                ring(seed);
            }
        again = MPI_Wtime() < end;
        OK(MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    if (my_rank == 0)
        printf("%lld %lld\n", messages * n_ranks, bytes * n_ranks);
    return finish();
}

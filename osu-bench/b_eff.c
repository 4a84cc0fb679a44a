/* Effective bandwidth after Rabenseifner and Koniges' b_eff, as in Jin, Sur, Chai and Panda 2005, table 1: rings of 2, 4,
 * 8, max(16, ranks/4), max(32, ranks/2) and all ranks, in the order of ranks and in six random orders; every rank sends to
 * both neighbours at once. 21 sizes, 8 of them fixed, the others in equal steps of the logarithm up to the largest; three
 * ways to exchange, the best counts. b_eff: mean over the sizes, then geometric mean over the patterns of a kind, then of
 * the two kinds. Our own program: only the method is theirs. */
#include "common.h"
#include <math.h>

enum { SIZES = 21, PATTERNS = 6, WAYS = 3 };
static char *out[2], *in[2]; /* [0]: to or from the left */
static int left, right;
static int *counts, *places;

static void by_sendrecv(int size)
{
    MPI_Sendrecv(out[1], size, MPI_CHAR, right, 1, in[0], size, MPI_CHAR, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out[0], size, MPI_CHAR, left, 2, in[1], size, MPI_CHAR, right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_nonblocking(int size)
{
    MPI_Request all[4];
    MPI_Irecv(in[0], size, MPI_CHAR, left, 1, MPI_COMM_WORLD, &all[0]);
    MPI_Irecv(in[1], size, MPI_CHAR, right, 2, MPI_COMM_WORLD, &all[1]);
    MPI_Isend(out[1], size, MPI_CHAR, right, 1, MPI_COMM_WORLD, &all[2]);
    MPI_Isend(out[0], size, MPI_CHAR, left, 2, MPI_COMM_WORLD, &all[3]);
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
}

/* In a ring of two the neighbour on both sides is the same: it gets both messages as one block. */
static void by_alltoallv(int size)
{
    memset(counts, 0, sizeof *counts * (size_t)ranks);
    memset(places, 0, sizeof *places * (size_t)ranks);
    places[right] = (int)options.max;
    counts[left] += size;
    counts[right] += size;
    if (left == right)
        places[left] = 0;
    MPI_Alltoallv(out[0], counts, places, MPI_CHAR, in[0], counts, places, MPI_CHAR, MPI_COMM_WORLD);
}

/* The neighbours of this rank in rings of `length` ranks over `order`; the last ring takes what is left. */
static void neighbours(const int *order, int length)
{
    int at = 0, rings = ranks / length ? ranks / length : 1;
    while (order[at] != rank)
        at++;
    int ring = at / length < rings ? at / length : rings - 1, first = ring * length, end = ring == rings - 1 ? ranks : first + length;
    left = order[at == first ? end - 1 : at - 1];
    right = order[at == end - 1 ? first : at + 1];
}

static void shuffle(int *order)
{
    static uint32_t state = 12345; /* the same on every rank */
    for (int i = ranks - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        int j = (int)((state >> 8) % (uint32_t)(i + 1)), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* MB/s of all ranks together, by the best way. */
static double measure(size_t size)
{
    static void (*const way[WAYS])(int) = {by_sendrecv, by_nonblocking, by_alltoallv};
    double best = 0;
    for (int w = 0; w < WAYS; w++) {
        int n = iterations(size);
        way[w]((int)size);
        MPI_Barrier(MPI_COMM_WORLD);
        double from = MPI_Wtime(), took, slowest;
        for (int i = 0; i < n; i++)
            way[w]((int)size);
        took = MPI_Wtime() - from;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        double rate = 2.0 * (double)size * ranks * n / 1e6 / slowest;
        best = rate > best ? rate : best;
    }
    return best;
}

/* Size `i` of the 21: eight that are fixed, then equal steps of the logarithm. */
static size_t length(int i)
{
    static const size_t fixed[] = {1, 2, 4, 8, 64, 512, 1024, 4096};
    const int n = sizeof fixed / sizeof *fixed;
    size_t top = options.max, size = i < n ? fixed[i] : (size_t)(4096 * pow((double)top / 4096, (double)(i - n + 1) / (SIZES - n)));
    return i == SIZES - 1 || size > top ? top : size;
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Effective Bandwidth Test", "Size      Rings (MB/s)    Random rings (MB/s)", "MPI_CHAR", "mi",
        {.min = 1, .max = 4 << 20, .iterations = 200, .iterations_large = 10}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks < 2)
        refuse("needs at least two ranks");
    if (options.max > (size_t)1 << 29)
        refuse("sizes above 512 MiB do not fit the counts of MPI_Alltoallv");
    int rings[PATTERNS] = {2, 4, 8, ranks / 4 > 16 ? ranks / 4 : 16, ranks / 2 > 32 ? ranks / 2 : 32, ranks};
    int *order = malloc(sizeof *order * (size_t)ranks);
    counts = malloc(sizeof *counts * (size_t)ranks);
    places = malloc(sizeof *places * (size_t)ranks);
    char *send = buffer(2 * options.max), *receive = buffer(2 * options.max);
    for (int side = 0; side < 2; side++) {
        out[side] = send + options.max * (size_t)side;
        in[side] = receive + options.max * (size_t)side;
    }
    for (int r = 0; r < ranks; r++)
        order[r] = r;
    double sum[2][PATTERNS] = {{0}}, total[2] = {0};
    for (int i = 0; i < SIZES; i++) {
        double mean[2] = {0};
        for (int random = 0; random < 2; random++)
            for (int p = 0; p < PATTERNS; p++) {
                if (random)
                    shuffle(order);
                neighbours(order, rings[p]);
                double rate = measure(length(i));
                sum[random][p] += rate / SIZES;
                mean[random] += rate / PATTERNS;
            }
        for (int r = 0; r < ranks; r++)
            order[r] = r;
        if (i == 0 || length(i) != length(i - 1))
            row(length(i), mean, 2);
    }
    for (int random = 0; random < 2; random++)
        for (int p = 0; p < PATTERNS; p++)
            total[random] += log(sum[random][p]) / PATTERNS;
    if (rank == 0)
        printf("b_eff %22.2f\n", exp((total[0] + total[1]) / 2));
    return end();
}

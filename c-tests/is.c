/* Claim: a parallel bucket sort of integers (the communication of an integer-sort benchmark: Allreduce of bucket
 * sizes, Alltoall of counts, Alltoallv of keys, point-to-point check of the seams) gives exactly the serial result.
 * Arguments: log2 of the number of keys (default 20), repetitions (default 3). */
#include "check.h"

enum { KEY_BITS = 19, BUCKETS = 1024 };

/* Key number `i` of the whole problem: the mean of four random numbers, so that the buckets are uneven. */
static uint32_t key(uint64_t i, unsigned round)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + round * 0xD1B54A32D192ED03ull, sum = 0;
    for (int k = 0; k < 4; k++) {
        x ^= x >> 30, x *= 0xBF58476D1CE4E5B9ull, x ^= x >> 27, x *= 0x94D049BB133111EBull, x ^= x >> 31;
        sum += x & ((1u << KEY_BITS) - 1);
    }
    return (uint32_t)(sum / 4);
}

static uint64_t checksum(const uint32_t *keys, uint64_t n, uint64_t first)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (first + i + 1) * (keys[i] + 1ull);
    return sum;
}

/* Stable counting sort by the whole key: serves both sides. */
static void counting_sort(const uint32_t *keys, uint32_t *sorted, uint64_t n)
{
    uint64_t *at = calloc((1u << KEY_BITS) + 1, sizeof *at);
    CHECK(at, "no memory");
    for (uint64_t i = 0; i < n; i++)
        at[keys[i] + 1]++;
    for (uint32_t k = 0; k < 1u << KEY_BITS; k++)
        at[k + 1] += at[k];
    for (uint64_t i = 0; i < n; i++)
        sorted[at[keys[i]]++] = keys[i];
    free(at);
}

/* Which rank gets each bucket: contiguous runs of buckets of about equal weight. */
static void share_out(const int64_t *weight, uint64_t total, int *owner)
{
    uint64_t before = 0;
    for (int b = 0; b < BUCKETS; b++) {
        owner[b] = (int)(before * n_ranks / total);
        before += weight[b];
    }
}

/* Sorts; returns my part in `sorted` and its length. */
static uint64_t parallel_sort(const uint32_t *keys, uint64_t n, uint64_t total, uint32_t **sorted)
{
    int64_t mine[BUCKETS] = {0}, all[BUCKETS];
    int owner[BUCKETS];
    int *out = calloc(4 * n_ranks, sizeof *out), *out_at = out + n_ranks, *in = out + 2 * n_ranks, *in_at = out + 3 * n_ranks;
    int *next = need(n_ranks * sizeof *next);
    for (uint64_t i = 0; i < n; i++)
        mine[keys[i] >> (KEY_BITS - 10)]++;
    OK(MPI_Allreduce(mine, all, BUCKETS, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    share_out(all, total, owner);
    for (int b = 0; b < BUCKETS; b++)
        out[owner[b]] += (int)mine[b];
    OK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
    int received = in[0];
    for (int r = 1; r < n_ranks; r++) {
        out_at[r] = out_at[r - 1] + out[r - 1];
        in_at[r] = in_at[r - 1] + in[r - 1];
        received += in[r];
    }
    uint32_t *packed = need(n * sizeof *packed), *got = need(received * sizeof *got);
    memcpy(next, out_at, n_ranks * sizeof *next);
    for (uint64_t i = 0; i < n; i++)
        packed[next[owner[keys[i] >> (KEY_BITS - 10)]]++] = keys[i];
    OK(MPI_Alltoallv(packed, out, out_at, MPI_UINT32_T, got, in, in_at, MPI_UINT32_T, MPI_COMM_WORLD));
    *sorted = need(received * sizeof **sorted);
    counting_sort(got, *sorted, received);
    free(packed), free(got), free(out), free(next);
    return received;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    uint64_t total = 1ull << (argc > 1 ? atoi(argv[1]) : 20);
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    uint64_t from = total * my_rank / n_ranks, n = total * (my_rank + 1) / n_ranks - from;
    uint32_t *keys = need(n * sizeof *keys), *sorted;
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        for (uint64_t i = 0; i < n; i++)
            keys[i] = key(from + i, round);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        double begin = MPI_Wtime();
        uint64_t got = parallel_sort(keys, n, total, &sorted), first = 0, sum, whole;
        double took = MPI_Wtime() - begin;
        best = took < best ? took : best;
        /* Sorted inside, and across the seam to the left (an empty rank passes on what it got). */
        uint32_t left = 0, last;
        for (uint64_t i = 1; i < got; i++)
            CHECK(sorted[i - 1] <= sorted[i], "not sorted at %llu", (unsigned long long)i);
        if (my_rank)
            OK(MPI_Recv(&left, 1, MPI_UINT32_T, my_rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == 0 || left <= sorted[0], "seam: %u then %u", left, sorted[0]);
        last = got ? sorted[got - 1] : left;
        if (my_rank + 1 < n_ranks)
            OK(MPI_Send(&last, 1, MPI_UINT32_T, my_rank + 1, 1, MPI_COMM_WORLD));
        OK(MPI_Exscan(&got, &first, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
        sum = checksum(sorted, got, my_rank ? first : 0);
        OK(MPI_Reduce(&sum, &whole, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
        if (my_rank == 0) {
            uint32_t *serial = need(total * sizeof *serial), *ordered = need(total * sizeof *ordered);
            for (uint64_t i = 0; i < total; i++)
                serial[i] = key(i, round);
            counting_sort(serial, ordered, total);
            uint64_t want = checksum(ordered, total, 0);
            CHECK(whole == want, "checksum %llx, serial %llx", (unsigned long long)whole, (unsigned long long)want);
            printf("answer: is keys %llu round %d checksum %016llx\n", (unsigned long long)total, round, (unsigned long long)whole);
            free(serial), free(ordered);
        }
        free(sorted);
    }
    if (my_rank == 0)
        printf("is: %d ranks, best %.6f s\n", n_ranks, best);
    return finish();
}

/* Integer sort by buckets with the communication of the NAS benchmark IS (Jin 2005 figure 6, Chai 2008 figure 9): each time
 * one MPI_Allreduce of bucket sizes, one MPI_Alltoall of counts, one MPI_Alltoallv of keys. Milliseconds a sort against
 * the keys of all ranks; -c checks the order and the sum. Own code. */
#include "common.h"

enum { BUCKETS = 1024, BITS = 19 };

typedef struct {
    uint32_t *keys, *sorted, *received;
    size_t mine, room;
    int *sizes, *total, *send, *send_at, *receive, *receive_at;
} Sort;

/* The mean of four numbers, so that the middle buckets are full. */
static uint32_t key(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull, sum = 0;
    for (int k = 0; k < 4; k++) {
        x ^= x >> 31;
        x *= 0xD6E8FEB86659FD93ull;
        sum += x >> (64 - BITS);
    }
    return (uint32_t)(sum / 4);
}

static int bucket(uint32_t k) { return (int)(k >> (BITS - 10)); }

/* Keys in the order of buckets, and how many each bucket has here and everywhere. */
static void count(Sort *s)
{
    size_t at[BUCKETS], next = 0;
    memset(s->sizes, 0, sizeof(int) * BUCKETS);
    for (size_t i = 0; i < s->mine; i++)
        s->sizes[bucket(s->keys[i])]++;
    for (int b = 0; b < BUCKETS; b++) {
        at[b] = next;
        next += (size_t)s->sizes[b];
    }
    for (size_t i = 0; i < s->mine; i++)
        s->sorted[at[bucket(s->keys[i])]++] = s->keys[i];
    MPI_Allreduce(s->sizes, s->total, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Whole buckets to each rank, as even as whole buckets allow; -> how many keys come here. */
static size_t exchange(Sort *s)
{
    long all = 0, before = 0;
    int sent = 0, got = 0;
    memset(s->send, 0, sizeof(int) * (size_t)ranks);
    for (int b = 0; b < BUCKETS; b++)
        all += s->total[b];
    for (int b = 0; b < BUCKETS; b++) {
        int to = all ? (int)(before * ranks / all) : 0;
        s->send[to < ranks ? to : ranks - 1] += s->sizes[b];
        before += s->total[b];
    }
    MPI_Alltoall(s->send, 1, MPI_INT, s->receive, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++) {
        s->send_at[r] = sent;
        s->receive_at[r] = got;
        sent += s->send[r];
        got += s->receive[r];
    }
    if ((size_t)got > s->room) {
        s->room = (size_t)got;
        s->received = realloc(s->received, s->room * sizeof *s->received);
    }
    MPI_Alltoallv(s->sorted, s->send, s->send_at, MPI_UINT32_T, s->received, s->receive, s->receive_at, MPI_UINT32_T, MPI_COMM_WORLD);
    return (size_t)got;
}

/* The keys that came, by counting; `ranked` has a place for every key there can be. */
static void finish(const Sort *s, size_t got, uint32_t *ranked)
{
    memset(ranked, 0, sizeof *ranked << BITS);
    for (size_t i = 0; i < got; i++)
        ranked[s->received[i]]++;
}

/* Every key must be above all keys of the rank before, and none may be lost. */
static void verify(const Sort *s, size_t got, size_t all)
{
    uint32_t ends[2] = {UINT32_MAX, 0}, *every = malloc(sizeof ends * (size_t)ranks), last = 0;
    uint64_t sums[2] = {got, 0}, total[2], expected = 0;
    for (size_t i = 0; i < got; i++) {
        uint32_t k = s->received[i];
        ends[0] = k < ends[0] ? k : ends[0];
        ends[1] = k > ends[1] ? k : ends[1];
        sums[1] += k;
    }
    MPI_Allgather(ends, 2, MPI_UINT32_T, every, 2, MPI_UINT32_T, MPI_COMM_WORLD);
    MPI_Allreduce(sums, total, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < all; i++)
        expected += key(i);
    wrong += total[0] != all || total[1] != expected;
    for (int r = 0; r < ranks; r++) {
        if (every[2 * r] > every[2 * r + 1])
            continue; /* no keys there */
        wrong += every[2 * r] < last;
        last = every[2 * r + 1];
    }
    free(every);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Integer Sort Test", "Keys       Time per sort(ms)", NULL, "mixc",
        {.min = 1 << 16, .max = 1 << 22, .iterations = 10, .iterations_large = 10, .warmup = 2, .warmup_large = 2, .unit = "keys"}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    Sort s = {.sizes = malloc(sizeof(int) * BUCKETS), .total = malloc(sizeof(int) * BUCKETS)};
    int **lists[] = {&s.send, &s.send_at, &s.receive, &s.receive_at};
    for (int i = 0; i < 4; i++)
        *lists[i] = malloc(sizeof(int) * (size_t)ranks);
    uint32_t *ranked = malloc(sizeof *ranked << BITS);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        size_t first = size * (size_t)rank / (size_t)ranks, end_ = size * (size_t)(rank + 1) / (size_t)ranks, got = 0;
        s.mine = end_ - first;
        s.keys = malloc((s.mine + 1) * sizeof *s.keys);
        s.sorted = malloc((s.mine + 1) * sizeof *s.sorted);
        int skip = warmup(size), n = iterations(size);
        double from = 0, took;
        for (size_t i = 0; i < s.mine; i++)
            s.keys[i] = key(first + i);
        for (int i = 0; i < skip + n; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (i == skip)
                from = MPI_Wtime();
            count(&s);
            got = exchange(&s);
            finish(&s, got, ranked);
        }
        took = (MPI_Wtime() - from) * 1e3 / n;
        if (options.validate)
            verify(&s, got, size);
        row(size, &took, 1);
        free(s.keys);
        free(s.sorted);
    }
    return end();
}

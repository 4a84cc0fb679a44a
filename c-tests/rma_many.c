/* Claim: accesses to memory of the program that lies apart, and many short ones between two synchronizations, do what single ones
 * of bytes in a row do: nothing is lost, written beside, or done before it or twice, whichever the owner does meanwhile, and each kind of
 * synchronization ends them all. "served": the same where the kernel lets nobody into another process's memory. */
#include "check.h"

enum { N = 7000 };
static long *words, *wanted, near[3 * N], far[3 * N];
static MPI_Win window;

/* Datatypes of MPI_LONG whose places the test knows: offsets[i] of element i, below N. */
static MPI_Datatype apart(int kind, int *offsets, int *n)
{
    MPI_Datatype type;
    int lengths[400], places[400];
    *n = 0;
    if (kind < 2) {
        int count = kind ? 20 : 300, block = kind ? 40 : 3, stride = kind ? 290 : 16;
        OK(MPI_Type_vector(count, block, stride, MPI_LONG, &type));
        for (int i = 0; i < count * block; i++) offsets[(*n)++] = i / block * stride + i % block;
    } else {
        for (int i = 0, at = 0; i < 400; i++) {
            lengths[i] = 1 + i % 3;
            places[i] = kind == 2 ? at : N - 10 - at - lengths[i];
            for (int j = 0; j < lengths[i]; j++) offsets[(*n)++] = places[i] + j;
            at += lengths[i] + i * 7 % 11;
        }
        OK(MPI_Type_indexed(400, lengths, places, MPI_LONG, &type));
    }
    OK(MPI_Type_commit(&type));
    return type;
}

/* The next rank's memory is as it should be, which only the rank before it has written to. */
static void compare(const char *what)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    long sum = 0;
    for (int i = 0; i < N; i++) {
        if (words[i] != wanted[i]) CHECK(0, "%s: word %d is %ld, not %ld", what, i, words[i], wanted[i]);
        sum += words[i];
    }
    CHECK(sum != 0, "%s", what);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void strided(int busy)
{
    static int offsets[N];
    int next = (my_rank + 1) % n_ranks, n;
    for (int kind = 0; kind < 4; kind++) {
        MPI_Datatype type = apart(kind, offsets, &n);
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < n; i++) near[i] = kind * 1000 + round + i;
            OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, window));
            if (round % 2) {
                OK(MPI_Accumulate(near, n, MPI_LONG, next, 0, 1, type, MPI_SUM, window));
                OK(MPI_Get_accumulate(near, n, MPI_LONG, far, n, MPI_LONG, next, 0, 1, type, MPI_SUM, window));
            } else {
                OK(MPI_Put(near, n, MPI_LONG, next, 0, 1, type, window));
                OK(MPI_Win_flush(next, window));
                OK(MPI_Get(far, n, MPI_LONG, next, 0, 1, type, window));
            }
            OK(MPI_Win_unlock(next, window));
            for (int i = 0; i < n; i++) {
                long *word = &wanted[offsets[i]];
                *word = round % 2 ? *word + near[i] : near[i];
                CHECK(far[i] == *word, "kind %d round %d element %d: %ld, not %ld", kind, round, i, far[i], *word);
                *word += round % 2 ? near[i] : 0;
            }
            if (busy) usleep(100);
            compare("apart");
        }
        OK(MPI_Type_free(&type));
    }
    /* Pairs have a gap inside, which nobody touches. */
    struct { double value; int index, gap; } *pairs = (void *)words, mine[40];
    MPI_Datatype type;
    OK(MPI_Type_vector(40, 1, 3, MPI_DOUBLE_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 120; i++) pairs[i].value = i, pairs[i].index = 1, pairs[i].gap = 77;
    for (int i = 0; i < 40; i++) mine[i].value = 60, mine[i].index = 2, mine[i].gap = 99;
    OK(MPI_Win_fence(0, window));
    OK(MPI_Accumulate(mine, 40, MPI_DOUBLE_INT, next, 0, 1, type, MPI_MAXLOC, window));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
    for (int i = 0; i < 120; i++) {
        int greater = i % 3 == 0 && i <= 60, index = i % 3 == 0 && i < 60 ? 2 : 1;
        CHECK(pairs[i].value == (greater ? 60 : i) && pairs[i].index == index && pairs[i].gap == 77, "pair %d is %g, %d, %d", i, pairs[i].value, pairs[i].index, pairs[i].gap);
    }
    memcpy(wanted, words, N * sizeof *words);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Type_free(&type));
}

/* Short ones: i writes or adds to a place that several others write or add to, in an order that is told for accumulates. */
static void many(int way)
{
    int next = (my_rank + 1) % n_ranks;
    MPI_Group all, to, from;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_incl(all, 1, &next, &to));
    OK(MPI_Group_incl(all, 1, (int[]){(my_rank + n_ranks - 1) % n_ranks}, &from));
    for (int round = 0; round < 3; round++) {
        switch (way) {
        case 0: OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, window)); break;
        case 1: OK(MPI_Win_lock_all(0, window)); break;
        case 2: OK(MPI_Win_fence(0, window)); break;
        default: OK(MPI_Win_post(from, 0, window)); OK(MPI_Win_start(to, 0, window));
        }
        long *mine = near;
        for (int i = 0; i < 700; i++) {
            int len = 1 + i % 5 + (i % 50 == 49) * 200;
            for (int j = 0; j < len; j++) mine[j] = round + i + j;
            int at = round == 1 ? i * 5 % 1000 : i * 5;
            if (round == 0) {
                OK(MPI_Put(mine, len, MPI_LONG, next, at + i / 50 * 200, len, MPI_LONG, window));
                for (int j = 0; j < len; j++) wanted[at + i / 50 * 200 + j] = mine[j];
                if (i % 100 == 99) {
                    MPI_Request request;
                    long once = i;
                    OK(MPI_Rput(&once, 1, MPI_LONG, next, N - 1 - i / 100, 1, MPI_LONG, window, &request));
                    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                    wanted[N - 1 - i / 100] = i;
                    once = -1; /* given back */
                }
            } else {
                /* Accumulates to one place are done in their order. */
                MPI_Op op = i % 7 == 3 ? MPI_REPLACE : i % 7 == 5 ? MPI_MAX : MPI_SUM;
                OK(MPI_Accumulate(mine, len, MPI_LONG, next, at, len, MPI_LONG, op, window));
                for (int j = 0; j < len; j++) {
                    long *word = &wanted[at + j];
                    *word = op == MPI_REPLACE || (op == MPI_MAX && mine[j] > *word) ? mine[j] : op == MPI_MAX ? *word : *word + mine[j];
                }
                if (i % 9 == 0) {
                    static const long one = 1;
                    long *old = &far[i];
                    OK(MPI_Fetch_and_op(&one, old, MPI_LONG, next, at, MPI_SUM, window));
                    if (way < 2) {
                        OK(MPI_Win_flush_local(next, window));
                        CHECK(*old == wanted[at], "way %d round %d: %ld, not %ld", way, round, *old, wanted[at]);
                    }
                    wanted[at] += 1;
                }
            }
            mine += len;
            if (way == 1 && i % 111 == 5) OK(MPI_Win_flush(next, window));
            if (way == 1 && i % 111 == 9) OK(MPI_Win_flush_all(window));
        }
        switch (way) {
        case 0: OK(MPI_Win_unlock(next, window)); break;
        case 1: OK(MPI_Win_unlock_all(window)); break;
        case 2: OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window)); break;
        default: OK(MPI_Win_complete(window)); OK(MPI_Win_wait(window));
        }
        compare("many");
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&to));
    OK(MPI_Group_free(&from));
}

/* All add to the words of rank 0 at the same time. */
static void together(void)
{
    long one[4] = {1, 2, 3, 4};
    MPI_Datatype type;
    OK(MPI_Type_vector(4, 1, 5, MPI_LONG, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Win_lock_all(0, window));
    memset(words, 0, N * sizeof *words);
    OK(MPI_Win_sync(window));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 500; i++) {
        OK(MPI_Accumulate(one, 1, MPI_LONG, 0, i % 3, 1, MPI_LONG, MPI_SUM, window));
        OK(MPI_Accumulate(one, 4, MPI_LONG, 0, 10, 1, type, MPI_SUM, window));
        if (i % 10 == 9) OK(MPI_Win_flush(0, window));
    }
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; my_rank == 0 && i < 4; i++)
        CHECK(words[10 + 5 * i] == 500l * (i + 1) * n_ranks, "%d: %ld", i, words[10 + 5 * i]);
    if (my_rank == 0) CHECK(words[0] + words[1] + words[2] == 500l * n_ranks, "%ld %ld %ld", words[0], words[1], words[2]);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "served")) setenv("NEARMPI_ONE_COPY", "0", 1);
    start(&argc, &argv);
    words = malloc(N * sizeof *words);
    wanted = malloc(N * sizeof *wanted);
    for (int i = 0; i < N; i++) words[i] = wanted[i] = i;
    OK(MPI_Win_create(words, N * sizeof *words, sizeof *words, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int busy = 0; busy < 2; busy++) strided(busy);
    for (int way = 0; way < 4; way++) many(way);
    together();
    OK(MPI_Win_free(&window));
    free(words);
    free(wanted);
    return finish();
}

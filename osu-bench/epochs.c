/* One-sided calls between two synchronizations, by every rank at a time, each on the memory of the next one, which comes from
 * malloc. The size is the bytes of a call, the time that of an epoch. With -c the data are looked at after each size. */
#include "common.h"

static const char *by = "fence", *what = "put", *many = "1", *gaps;

static char *mine, *here;
static int next, before, calls;
static MPI_Win win;
static MPI_Group to, from;
static MPI_Datatype there;

/* The calls of an epoch, on places one behind the other; with gaps a call has every other double of twice as many bytes. */
static void access_next(size_t size)
{
    const int bytes = gaps ? 1 : (int)size, doubles = (int)(size / sizeof(double));
    for (int i = 0; i < calls; i++) {
        char *origin = here + i * size;
        const MPI_Aint place = (MPI_Aint)(i * size * (gaps ? 2 : 1));
        if (!strcmp(what, "put"))
            MPI_Put(origin, (int)size, MPI_BYTE, next, place, bytes, there, win);
        else if (!strcmp(what, "get"))
            MPI_Get(origin, (int)size, MPI_BYTE, next, place, bytes, there, win);
        else
            MPI_Accumulate(origin, doubles, MPI_DOUBLE, next, place, gaps ? 1 : doubles, gaps ? there : MPI_DOUBLE, MPI_REPLACE, win);
    }
}

static void epoch(size_t size)
{
    if (!strcmp(by, "start")) {
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
    } else if (!strcmp(by, "lock"))
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    access_next(size);
    if (!strcmp(by, "fence"))
        MPI_Win_fence(0, win);
    else if (!strcmp(by, "start")) {
        MPI_Win_complete(win);
        MPI_Win_wait(win);
    } else if (!strcmp(by, "lock"))
        MPI_Win_unlock(next, win);
    else
        MPI_Win_flush(next, win);
}

/* Block i of the memory, or into it. */
static void move_block(char *block, int i, size_t size, int into)
{
    const size_t step = gaps ? 2 : 1, part = gaps ? sizeof(double) : size;
    for (size_t at = 0; at < size; at += part) {
        char *place = mine + i * size * step + at * step;
        memcpy(into ? place : block + at, into ? block + at : place, part);
    }
}

static void measure(size_t size)
{
    const int is_get = !strcmp(what, "get"), is_open = !strcmp(by, "flush");
    char *block = malloc(size);
    for (int i = 0; i < calls; i++) {
        fill(is_get ? block : here + i * size, size, (unsigned)(rank * calls + i));
        if (is_get)
            move_block(block, i, size, 1);
    }
    there = MPI_BYTE;
    if (gaps) {
        MPI_Type_vector((int)(size / sizeof(double)), 1, 2, MPI_DOUBLE, &there);
        MPI_Type_commit(&there);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(by, "fence"))
        MPI_Win_fence(0, win);
    if (is_open)
        MPI_Win_lock_all(0, win);
    double took = 0;
    for (int i = -warmup(size); i < iterations(size); i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            took = MPI_Wtime();
        }
        epoch(size);
    }
    took = (MPI_Wtime() - took) * 1e6 / iterations(size);
    if (is_open)
        MPI_Win_unlock_all(win);
    if (!strcmp(by, "fence"))
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    for (int i = 0; options.validate && i < calls; i++) {
        if (!is_get)
            move_block(block, i, size, 0);
        check(is_get ? here + i * size : block, size, (unsigned)((is_get ? next : before) * calls + i));
    }
    MPI_Win_unlock(rank, win);
    double all;
    MPI_Allreduce(&took, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    all /= ranks;
    row(size, &all, 1);
    if (gaps)
        MPI_Type_free(&there);
    free(block);
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {
        {"by", "HOW", "fence (default), start (post, start, complete, wait), lock, flush (under MPI_Win_lock_all)", &by},
        {"call", "CALL", "put (default), get or accumulate (MPI_REPLACE)", &what},
        {"calls", "N", "calls in an epoch (default 1)", &many},
        {"gaps", NULL, "every other double of the memory", &gaps}, {0}};
    static const Benchmark benchmark = {"MPI One-Sided Epoch Test", "Size       Avg Latency(us)", NULL, "mixc",
        {.min = 8, .max = 1 << 16, .iterations = 3000, .iterations_large = 500, .warmup = 300, .warmup_large = 50, .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (strcmp(by, "fence") && strcmp(by, "start") && strcmp(by, "lock") && strcmp(by, "flush"))
        refuse("--by wants fence, start, lock or flush");
    if (strcmp(what, "put") && strcmp(what, "get") && strcmp(what, "accumulate"))
        refuse("--call wants put, get or accumulate");
    calls = (int)number(many, 1);
    if (options.min < sizeof(double))
        options.min = sizeof(double);
    if (options.max < options.min || options.max > (size_t)(INT32_MAX / 2 / calls))
        refuse("-m ends between 8 bytes and 1 GiB for all calls");
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &next, &to);
    MPI_Group_incl(all, 1, &before, &from);
    const size_t length = options.max * calls;
    here = buffer(length);
    mine = malloc(2 * length);
    if (!mine)
        refuse("there is not so much memory");
    memset(mine, 0, 2 * length);
    MPI_Win_create(mine, (MPI_Aint)(2 * length), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (size_t size = options.min; size <= options.max; size = next_size(size))
        measure(size);
    MPI_Win_free(&win);
    free(mine);
    free(here);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Group_free(&all);
    return end();
}

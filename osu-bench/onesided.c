/* One-sided calls by rank 0 on the memory of rank 1, which waits in a barrier, or by each on the other's; each is flushed. The
 * size is the bytes of a call. With -c all bytes are looked at after each size. */
#include "common.h"

static const char *what = "put", *memory = "malloc", *once, *both;

static char *mine, *here, *there_before;
static MPI_Aint start;
static int other;

static void call(MPI_Win win, size_t size)
{
    const int n = (int)size, words = (int)(size / sizeof(long));
    if (!strcmp(what, "put"))
        MPI_Put(here, n, MPI_BYTE, other, start, n, MPI_BYTE, win);
    else if (!strcmp(what, "get"))
        MPI_Get(here, n, MPI_BYTE, other, start, n, MPI_BYTE, win);
    else if (!strcmp(what, "accumulate"))
        MPI_Accumulate(here, words, MPI_LONG, other, start, words, MPI_LONG, MPI_SUM, win);
    else
        MPI_Get_accumulate(here, words, MPI_LONG, there_before, words, MPI_LONG, other, start, words, MPI_LONG, MPI_SUM, win);
}

/* A window of `size` bytes in each rank, in the memory that --memory asks for. */
static MPI_Win window(MPI_Aint size)
{
    MPI_Win win;
    const int is_dynamic = !strcmp(memory, "dynamic");
    if (!strcmp(memory, "window")) {
        MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
        return win;
    }
    if (!strcmp(memory, "alloc"))
        MPI_Alloc_mem(size, MPI_INFO_NULL, &mine);
    else if (is_dynamic || !strcmp(memory, "malloc"))
        mine = malloc(size);
    else
        refuse("--memory wants malloc, alloc, window or dynamic");
    if (!mine)
        refuse("there is not so much memory");
    if (is_dynamic) {
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_attach(win, mine, size);
        MPI_Get_address(mine, &start);
        if (rank < 2)
            MPI_Sendrecv_replace(&start, 1, MPI_AINT, other, 0, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Win_create(mine, size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    return win;
}

/* Calls, and what is in the other's memory after them; longs of the same value everywhere, so sums are easy. */
static void measure(MPI_Win win, size_t size)
{
    const int is_get = !strcmp(what, "get"), adds = strcmp(what, "put") && !is_get;
    long *words = (long *)here, *theirs = (long *)mine;
    const int count = (int)(size / sizeof(long)), n = warmup(size) + iterations(size);
    double took = 0;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    for (int i = 0; i < count; i++) {
        words[i] = is_get ? 0 : i + 1;
        theirs[i] = is_get ? i + 1 : 0;
    }
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    const int calls = rank == 0 || (both && rank == 1);
    if (calls) {
        MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win);
        for (int i = 0; i < n; i++) {
            if (i == warmup(size)) {
                MPI_Win_flush(other, win);
                took = MPI_Wtime();
            }
            call(win, size);
            if (!once)
                MPI_Win_flush(other, win);
        }
        MPI_Win_flush(other, win);
        took = (MPI_Wtime() - took) * 1e6 / iterations(size);
        MPI_Win_unlock(other, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const long *result = is_get ? words : theirs;
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    const int looks = is_get ? calls : rank == 1 || (both && rank == 0);
    for (int i = 0; options.validate && looks && i < count; i++)
        wrong += result[i] != (i + 1) * (long)(adds ? n : 1);
    MPI_Win_unlock(rank, win);
    row(size, &took, 1);
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"call", "CALL", "put (default), get, accumulate or get_accumulate", &what},
                                  {"memory", "KIND", "malloc (default), alloc (MPI_Alloc_mem), window (MPI_Win_allocate), dynamic", &memory},
                                  {"both", NULL, "rank 1 calls, too, instead of waiting in a barrier", &both},
                                  {"once", NULL, "one flush after all calls, not one after each", &once}, {0}};
    static const Benchmark benchmark = {
        "MPI One-Sided Latency Test", "Size          Latency(us)", NULL, "mixc",
        {.min = 8, .max = 1 << 20, .iterations = 3000, .iterations_large = 200, .warmup = 200, .warmup_large = 20, .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks < 2)
        refuse("this benchmark needs two ranks");
    other = 1 - rank;
    if (strcmp(what, "put") && strcmp(what, "get") && strcmp(what, "accumulate") && strcmp(what, "get_accumulate"))
        refuse("--call wants put, get, accumulate or get_accumulate");
    if (options.min < sizeof(long))
        options.min = sizeof(long);
    if (options.max < options.min || options.max > INT32_MAX)
        refuse("-m ends between 8 bytes and 2 GiB");
    here = buffer(options.max);
    there_before = buffer(options.max);
    MPI_Win win = window((MPI_Aint)options.max);
    for (size_t size = options.min; size <= options.max; size = next_size(size))
        measure(win, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(memory, "dynamic"))
        MPI_Win_detach(win, mine);
    MPI_Win_free(&win);
    if (!strcmp(memory, "alloc"))
        MPI_Free_mem(mine);
    else if (strcmp(memory, "window"))
        free(mine);
    free(here);
    free(there_before);
    return end();
}

/* Claims of the shared heap (mpirun -shared-heap): after MPI_Init long blocks from malloc and kin lie in the job's memory, on the
 * alignment that was asked for, and behave as the standard says: contents survive realloc, calloc is zero in memory that was used
 * before, threads do not disturb each other, short blocks and those from before MPI_Init are libc's. Messages between such
 * blocks arrive. What a child made by fork writes does not reach its parent. Blocks outlive MPI_Finalize. With the arguments `twice` and
 * `inside`, a block that is freed twice, and one freed where it does not begin, end the process with a sentence. */
#include "check.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

enum { LONG = 1 << 20, BLOCKS = 32, STEPS = 1000, THREADS = 3 };

/* Whether `at` lies in the job's memory, as the kernel says. */
static int is_shared(const void *at)
{
    char line[512];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps, "no /proc/self/maps");
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        found = sscanf(line, "%lx-%lx", &from, &to) == 2 && (unsigned long)at >= from && (unsigned long)at < to;
    }
    fclose(maps);
    return found && strstr(line, "memfd:nearmpi");
}

/* Makes, changes and frees blocks of all lengths at random, and looks at what is in them. */
static void *juggle(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    unsigned char *blocks[BLOCKS] = {NULL};
    size_t sizes[BLOCKS] = {0};
    for (int step = 0; step < STEPS; step++) {
        int at = rand_r(&state) % BLOCKS;
        size_t size = 1 + ((size_t)rand_r(&state) << 4) % ((size_t)1 << (4 + rand_r(&state) % 18));
        if (blocks[at]) {
            CHECK_BYTES(blocks[at], sizes[at], at);
            CHECK(malloc_usable_size(blocks[at]) >= sizes[at], "%zu", sizes[at]);
        }
        if (blocks[at] && rand_r(&state) % 2) {
            size_t least = size < sizes[at] ? size : sizes[at];
            blocks[at] = realloc(blocks[at], size);
            CHECK(blocks[at], "no %zu bytes", size);
            CHECK_BYTES(blocks[at], least, at);
        } else {
            free(blocks[at]);
            blocks[at] = rand_r(&state) % 2 ? malloc(size) : calloc(1, size);
            CHECK(blocks[at], "no %zu bytes", size);
        }
        sizes[at] = size;
        fill(blocks[at], size, at);
    }
    for (int at = 0; at < BLOCKS; at++)
        free(blocks[at]);
    return NULL;
}

static void lengths_and_places(void)
{
    char *block = malloc(LONG), *few = malloc(100), *pages = NULL, *lines = aligned_alloc(64, LONG);
    CHECK(is_shared(block) && is_shared(lines) && !is_shared(few), "%p %p %p", block, lines, few);
    CHECK((uintptr_t)lines % 64 == 0, "%p", lines);
    CHECK(posix_memalign((void **)&pages, 4096, LONG) == 0 && (uintptr_t)pages % 4096 == 0 && is_shared(pages), "%p", pages);
    CHECK(posix_memalign((void **)&few, 24, 100) == EINVAL, "alignment 24");
    char *huge = aligned_alloc(1 << 21, LONG);
    CHECK(huge && (uintptr_t)huge % (1 << 21) == 0, "%p", huge);
    memset(block, 7, LONG);
    free(block);
    for (size_t size = 1 << 16; size <= 4 * LONG; size *= 4) {
        unsigned char *zero = calloc(size, 1);
        CHECK(is_shared(zero), "%zu", size);
        for (size_t i = 0; i < size; i++)
            CHECK(zero[i] == 0, "byte %zu of %zu", i, size);
        memset(zero, 9, size);
        free(zero);
    }
    errno = 0;
    CHECK(!malloc((size_t)1 << 60) && errno == ENOMEM, "2^60 bytes");
    free(few), free(pages), free(lines), free(huge);
}

static void messages(void)
{
    int peer = n_ranks - 1 - my_rank;
    for (size_t size = 1 << 14; size <= 1 << 24; size *= 4) {
        unsigned char *out = malloc(size), *in = malloc(size), *all = malloc(size * n_ranks);
        for (int turn = 0; turn < 12; turn++) {
            fill(out, size, turn + my_rank);
            OK(MPI_Sendrecv(out, size, MPI_BYTE, peer, 1, in, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_BYTES(in, size, turn + peer);
            OK(MPI_Allgather(out, size, MPI_BYTE, all, size, MPI_BYTE, MPI_COMM_WORLD));
            for (int r = 0; r < n_ranks; r++)
                CHECK_BYTES(all + r * size, size, turn + r);
        }
        free(out), free(in), free(all);
    }
}

static void children(void)
{
    unsigned char *block = malloc(LONG);
    fill(block, LONG, 1);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        CHECK_BYTES(block, LONG, 1);
        memset(block, 0, LONG);
        char *own = malloc(LONG);
        memset(own, 1, LONG);
        free(own);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", status);
    CHECK_BYTES(block, LONG, 1);
    free(block);
}

/* Blocks of MPI_Alloc_mem, some of which malloc serves (NEARMPI_DIRECT_MIN), are freed in any order. */
static void lent(void)
{
    void *longer, *shorter;
    OK(MPI_Alloc_mem(200000, MPI_INFO_NULL, &longer));
    OK(MPI_Alloc_mem(90000, MPI_INFO_NULL, &shorter));
    OK(MPI_Free_mem(shorter));
    OK(MPI_Free_mem(longer));
}

int main(int argc, char **argv)
{
    unsigned char *early = malloc(LONG), *late;
    fill(early, LONG, 5);
    start(&argc, &argv);
    CHECK(!is_shared(early), "%p is from before MPI_Init", (void *)early);
    early = realloc(early, 2 * LONG);
    CHECK_BYTES(early, LONG, 5);
    if (argc > 1) {
        char *block = malloc(LONG), *behind = malloc(LONG);
        volatile size_t off = !strcmp(argv[1], "inside") ? 8192 : 0;
        if (!off)
            free(block);
        free(block + off);
        free(behind);
    }
    lengths_and_places();
    juggle((void *)1);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, juggle, (void *)(uintptr_t)(t + 2));
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    messages();
    lent();
    children();
    late = malloc(LONG);
    fill(late, LONG, 3);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    CHECK_BYTES(late, LONG, 3);
    unsigned char *after = malloc(LONG);
    memcpy(after, late, LONG);
    CHECK_BYTES(after, LONG, 3);
    free(early), free(late), free(after);
    return 0;
}

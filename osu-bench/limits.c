/* What the hardware and the kernel allow, to hold MPI's numbers against; no MPI in it, start it without a launcher.
 *   limits bounce      8 bytes in a cache line that goes to and fro between two CPUs: us one way
 *   limits memcpy      one process's memcpy between two buffers: MB/s
 *   limits read        process_vm_readv from another process: us; --fresh: it has just rewritten the memory
 *   limits breakdown   where process_vm_readv's time goes: us in all, for the call, for the pages, for copying
 * Two processes on the first two CPUs that this one may use. */
#include "bare.h"

enum { MOST = 4 << 20, PAGE = 4096, REPEATS = 201, FAR = 128, SETTLE = 300000 /* us */ };

typedef struct {
    _Alignas(FAR) _Atomic uint64_t there;
    _Alignas(FAR) _Atomic uint64_t answer;
} Shared;

static Shared *shared;
static char *near_memory, *far_memory; /* far: the same address in the child, its own pages */
static pid_t child;

static void until(_Atomic uint64_t *word, uint64_t value)
{
    while (atomic_load_explicit(word, memory_order_acquire) != value)
        __builtin_ia32_pause();
}

/* The child: answers every number, having rewritten as much memory as the number's upper half says. 0 ends it. */
static void serve(void)
{
    uint64_t seen = 0, word;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left spinning */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    memset(far_memory, 1, MOST);
    for (;;) {
        while ((word = atomic_load_explicit(&shared->there, memory_order_acquire)) == seen)
            __builtin_ia32_pause();
        seen = word;
        memset(far_memory, (int)word, (size_t)(word >> 32));
        atomic_store_explicit(&shared->answer, word, memory_order_release);
        if ((uint32_t)word == 0)
            _exit(0);
    }
}

static uint64_t asked;
static void ask(size_t rewrite)
{
    uint64_t word = ++asked | (uint64_t)rewrite << 32;
    atomic_store_explicit(&shared->there, word, memory_order_release);
    until(&shared->answer, word);
}

static double bounce(void)
{
    double times[REPEATS];
    enum { TURNS = 1000 };
    for (int r = 0; r < REPEATS; r++) {
        double from = now();
        for (int i = 0; i < TURNS; i++)
            ask(0);
        times[r] = (now() - from) / (2.0 * TURNS);
    }
    return median(times, REPEATS);
}

/* One byte from each of `count` pieces of `step` bytes, or with count 1 `length` bytes at once. */
static double read_far(size_t length, size_t count, size_t step, int fresh)
{
    double times[REPEATS];
    static struct iovec from_there[MOST / PAGE];
    struct iovec here = {near_memory, length};
    for (size_t i = 0; i < count; i++)
        from_there[i] = (struct iovec){far_memory + i * step, length / count};
    for (int r = 0; r < REPEATS; r++) {
        ask(fresh ? length : 0);
        double from = now();
        if (process_vm_readv(child, &here, 1, from_there, count, 0) != (ssize_t)length) {
            perror("limits: process_vm_readv");
            exit(1);
        }
        times[r] = now() - from;
    }
    return median(times, REPEATS);
}

static double copy(size_t size)
{
    double times[REPEATS];
    int turns = size < 65536 ? (int)(65536 / size) : 1;
    for (int r = 0; r < REPEATS; r++) {
        double from = now();
        for (int i = 0; i < turns; i++) {
            memcpy(near_memory, near_memory + MOST, size);
            __asm__ volatile("" ::: "memory");
        }
        times[r] = (now() - from) / turns;
    }
    return (double)size / median(times, REPEATS);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "--help";
    int fresh = argc > 2 && !strcmp(argv[2], "--fresh");
    if (!strcmp(what, "-h") || !strcmp(what, "--help")) {
        printf("%s bounce|memcpy|read [--fresh]|breakdown: what the hardware and the kernel allow\n", argv[0]);
        return 0;
    }
    if (strcmp(what, "bounce") && strcmp(what, "memcpy") && strcmp(what, "read") && strcmp(what, "breakdown")) {
        fprintf(stderr, "%s: what is %s? --help lists\n", argv[0], what);
        return 1;
    }
    shared = pages(sizeof *shared, MAP_SHARED);
    near_memory = pages(2 * MOST, MAP_PRIVATE);
    far_memory = pages(MOST, MAP_PRIVATE);
    memset(near_memory, 2, 2 * MOST);
    child = fork();
    place(child == 0);
    if (child == 0)
        serve();
    for (double until = now() + SETTLE; now() < until;) /* clocks up, and a virtual machine's host aware of two busy CPUs */
        ask(0);
    if (!strcmp(what, "bounce")) {
        printf("# Size       Latency(us)\n%-10d%18.3f\n", 8, bounce());
    } else if (!strcmp(what, "memcpy")) {
        printf("# Size       Bandwidth (MB/s)\n");
        for (size_t size = 1; size <= MOST; size *= 2)
            printf("%-10zu%18.2f\n", size, copy(size));
    } else if (!strcmp(what, "read")) {
        printf("# Size       Latency(us)\n");
        for (size_t size = 1; size <= MOST; size *= 2)
            printf("%-10zu%18.3f\n", size, read_far(size, 1, 0, fresh));
    } else {
        printf("# Size       All(us)     Call(us)    Pages(us)     Copy(us)\n");
        double call = read_far(0, 1, 0, 0);
        for (size_t size = PAGE; size <= MOST / 4; size *= 2) {
            size_t n = size / PAGE;
            /* A page more costs what one more piece of a byte costs, less what a piece on the same page costs. */
            double all = read_far(size, 1, 0, 0), spread = read_far(n, n, PAGE, 0), same = read_far(n, n, 1, 0);
            double map = spread > same ? spread - same : 0, rest = all - call - map;
            printf("%-10zu%13.3f%13.3f%13.3f%13.3f\n", size, all, call, map, rest > 0 ? rest : 0);
        }
    }
    atomic_store(&shared->there, (uint64_t)0);
    waitpid(child, NULL, 0);
    return 0;
}

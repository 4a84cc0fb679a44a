/* What a message costs at the least: latency.c's ping-pong, or both sending at once, without MPI. Two processes hand
 * private memory over by bare copies, in each of the ways that MPIs take, and say so in one cache line.
 *   floor pass [--fresh | --vector]       us one way: in the best of the ways, then in each
 *   floor exchange [--fresh | --vector]   the same when both send at once, and wait for each other
 * The first row, of 8 bytes, is the cache line alone.
 * --fresh: each message is rewritten before, and read after. --vector: each is of doubles with stride 2, as types.c's, and
 * never goes through the kernel, which takes them one by one. Start it without a launcher, on two CPUs at least. */
#include "bare.h"
#include <emmintrin.h>

enum { LEAST = 4096, MOST = 4 << 20, PART = 16384, BATCHES = 7, BATCH = 3000 /* us */, SETTLE = 300000 /* us */, FAR = 128 };

typedef enum {
    PULLED, /* process_vm_readv by the receiver */
    JOINED, /* the receiver reads one half, the sender writes the other */
    TWICE,  /* into memory of this direction, and out of it */
    BACK,   /* the same; what a message came in is what the next one goes out in */
    PARTS,  /* as TWICE, in parts: one is copied in while the one before it is copied out */
    PARTS_BACK,
    WAYS
} Way;
static const char *const names[WAYS] = {"Pulled(us)", "Joined(us)", "Twice(us)", "Back(us)", "Parts(us)", "P. back(us)"};

typedef struct {
    _Alignas(FAR) _Atomic uint64_t given; /* what this side has handed over, counted */
    _Alignas(FAR) _Atomic uint64_t taken; /* messages it is through with */
    pid_t pid;
    int turns; /* rank 0's: of the next batch */
} Side;

static Side *sides;
static int me, vector;
static uint64_t given, awaited, taken; /* this process's counts: own, the peer's, own */
static char *out, *in;                 /* at the same addresses in both processes, each its own pages */
static char *common;                   /* the same pages in both */

static void say(void) { atomic_store_explicit(&sides[me].given, ++given, memory_order_release); }

static void until(const _Atomic uint64_t *word, uint64_t count)
{
    while (atomic_load_explicit(word, memory_order_acquire) < count)
        __builtin_ia32_pause();
}

static void hear(void) { until(&sides[!me].given, ++awaited); }

static void kernel(ssize_t (*copies)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long, unsigned long),
                   char *mine, char *theirs, size_t length)
{
    struct iovec here = {mine, length}, there = {theirs, length};
    if (copies(sides[!me].pid, &here, 1, &there, 1, 0) != (ssize_t)length) {
        perror("floor: copying by the kernel");
        _exit(1);
    }
}

/* Bytes `at` to `at + size` of a message, into common memory and out of it. */
static void put(char *to, size_t at, size_t size)
{
    if (!vector)
        memcpy(to + at, out + at, size);
    for (size_t i = at; vector && i < at + size; i += 16) /* MOST and PART are multiples of that */
        _mm_storeu_pd((double *)(to + i), _mm_unpacklo_pd(_mm_loadu_pd((double *)(out + 2 * i)), _mm_loadu_pd((double *)(out + 2 * i + 16))));
}

static void get(const char *from, size_t at, size_t size)
{
    if (!vector)
        memcpy(in + at, from + at, size);
    for (size_t i = at; vector && i < at + size; i += 16) {
        __m128d two = _mm_loadu_pd((const double *)(from + i));
        _mm_storel_pd((double *)(in + 2 * i), two);
        _mm_storeh_pd((double *)(in + 2 * i + 16), two);
    }
}

/* Where message `n` of that sender lies. */
static char *between(Way way, int sender, uint64_t n)
{
    int back = way == BACK || way == PARTS_BACK;
    return common + (back ? (n & 1) ^ (uint64_t)sender : (uint64_t)sender) * MOST;
}

static int in_parts(Way way) { return way == PARTS || way == PARTS_BACK; }

static size_t part(size_t at, size_t size) { return size - at < PART ? size - at : PART; }

static void give(Way way, size_t size, int fresh, uint64_t n)
{
    char *to = between(way, me, n);
    size_t half = size / 2;
    if (fresh)
        memset(out, (int)n, size);
    if (way == TWICE || way == BACK)
        put(to, 0, size);
    for (size_t at = 0; in_parts(way) && at < size; at += PART) {
        put(to, at, part(at, size));
        say();
    }
    if (!in_parts(way))
        say();
    if (way == JOINED) {
        kernel(process_vm_writev, out + half, in + half, size - half);
        say();
    }
}

static void take(Way way, size_t size, int fresh, uint64_t n)
{
    const char *from = between(way, !me, n);
    for (size_t at = 0; in_parts(way) && at < size; at += PART) {
        hear();
        get(from, at, part(at, size));
    }
    if (!in_parts(way))
        hear();
    if (way == TWICE || way == BACK)
        get(from, 0, size);
    else if (way == PULLED)
        kernel(process_vm_readv, in, out, size);
    else if (way == JOINED) {
        kernel(process_vm_readv, in, out, size / 2);
        hear();
    }
    atomic_store_explicit(&sides[me].taken, ++taken, memory_order_release);
    if (fresh) {
        uint64_t sum = 0, word;
        static volatile uint64_t sink;
        for (size_t at = 0; at + sizeof word <= size; at += sizeof word) {
            memcpy(&word, in + at, sizeof word);
            sum += word;
        }
        sink = sum;
        (void)sink;
    }
}

/* us one way; an exchange counts as one way. */
static double measure(Way way, size_t size, int fresh, int both)
{
    double times[BATCHES];
    int turns = 8;
    for (int batch = -2; batch < BATCHES; batch++) { /* the first two warm up, and show how many turns fill a batch */
        double from = now();
        for (uint64_t i = 0; i < (uint64_t)turns; i++) {
            uint64_t mine = both ? i : (uint64_t)me, peers = both ? i : (uint64_t)!me;
            if (both || me == 0)
                give(way, size, fresh, mine);
            take(way, size, fresh, peers);
            if (!both && me == 1)
                give(way, size, fresh, mine);
            if (both)
                until(&sides[!me].taken, taken); /* what the peer still reads is not rewritten */
        }
        double took = (now() - from) / turns;
        if (batch >= 0)
            times[batch] = both ? took : took / 2;
        if (me == 0 && batch < 0)
            sides[0].turns = (int)(BATCH / took) + 2;
        say();
        hear();
        turns = sides[0].turns;
        say();
        hear();
    }
    return median(times, BATCHES);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "--help";
    int fresh = argc > 2 && !strcmp(argv[2], "--fresh"), both = !strcmp(what, "exchange");
    vector = argc > 2 && !strcmp(argv[2], "--vector");
    if (!strcmp(what, "-h") || !strcmp(what, "--help")) {
        printf("%s pass|exchange [--fresh | --vector]: what a message costs at the least, without MPI\n", argv[0]);
        return 0;
    }
    if ((!both && strcmp(what, "pass")) || argc > 2 + fresh + vector) {
        fprintf(stderr, "%s: what is %s? --help lists\n", argv[0], argv[argc - 1]);
        return 1;
    }
    int first = vector ? TWICE : 0;
    sides = pages(2 * sizeof *sides, MAP_SHARED);
    common = pages(2 * MOST, MAP_SHARED);
    out = pages(2 * MOST, MAP_PRIVATE);
    in = pages(2 * MOST, MAP_PRIVATE);
    pid_t child = fork();
    me = child == 0;
    if (me)
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left spinning */
    memset(out, 2, 2 * MOST);
    memset(in, 2, 2 * MOST);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    sides[me].pid = getpid();
    place(me);
    for (double stop = now() + SETTLE; now() < stop;) /* clocks up, and a virtual machine's host aware of two busy CPUs */
        ;
    say();
    hear();
    if (me == 0) {
        printf("# Size      Least(us)");
        for (int way = first; way < WAYS; way++)
            printf("%13s", names[way]);
        putchar('\n');
    }
    for (size_t size = 8; size <= MOST; size = size < LEAST ? LEAST : 2 * size) {
        double times[WAYS], least = 0;
        for (int way = first; way < WAYS; way++) {
            times[way] = size < LEAST ? measure(TWICE, 0, 0, both) : measure((Way)way, size, fresh, both);
            if (way == first || times[way] < least)
                least = times[way];
        }
        if (me)
            continue;
        printf("%-10zu%11.3f", size, least);
        for (int way = first; way < WAYS; way++)
            printf("%13.3f", times[way]);
        putchar('\n');
        fflush(stdout);
    }
    if (me)
        _exit(0);
    waitpid(child, NULL, 0);
    return 0;
}

/* Options, buffers, validation, table and the frame of the collectives: see common.h. */
#include "common.h"
#include <getopt.h>
#include <limits.h>
#include <unistd.h>

Options options;
int rank, ranks;
long wrong;
static long wrong_ever;
static const Benchmark *running;
static const char *program;

static void usage(FILE *to)
{
    const struct { char letter; const char *text; } lines[] = {
        {'m', "  -m, --message-size MIN:MAX  sizes in %s (MIN: or MAX alone leave the other)"},
        {'i', "  -i, --iterations N          measured iterations of every size"},
        {'x', "  -x, --warmup N              iterations before them"},
        {'c', "  -c, --validation            check the data of every message"},
        {'W', "  -W, --window-size N         messages sent before an answer"},
        {'f', "  -f, --full                  minimum, maximum and iterations as well"},
        {'t', "  -t, --num_threads N         receiving threads"},
        {'w', "      --whole                  another column: a whole round, barrier included (with -c the checking too)"},
        {'s', "      --settle MS             exchange messages that long before anything is measured"},
        {'F', "      --fresh                 rewrite each message before it is sent and read it when it has come"}};
    fprintf(to, "%s: %s\n", program, running->title);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (lines[i].letter == 's' || strchr(running->letters, lines[i].letter)) {
            fprintf(to, lines[i].text, options.unit ? options.unit : "bytes");
            fputc('\n', to);
        }
    for (const Extra *e = options.extra; e && e->name; e++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", e->name, e->argument ? e->argument : "");
        fprintf(to, "      %-24s%s\n", left, e->text);
    }
    fprintf(to, "  -h, --help                  this text\n  -v, --version\n");
}

void refuse(const char *why)
{
    if (rank == 0) {
        fprintf(stderr, "%s: %s\n", program, why);
        usage(stderr);
    }
    MPI_Finalize();
    exit(1);
}

static void leave(int version)
{
    if (rank == 0 && version)
        printf("%s v7.0 format, nearmpi's own program\n", program);
    else if (rank == 0)
        usage(stdout);
    MPI_Finalize();
    exit(0);
}

long number(const char *text, long least)
{
    char *rest;
    long value = strtol(text, &rest, 10);
    if (*rest || rest == text || value < least || value > INT_MAX)
        refuse("not a number in range");
    return value;
}

static void sizes(const char *text)
{
    char *rest;
    if (*text != ':') {
        long long value = strtoll(text, &rest, 10);
        if (rest == text || value < 0 || (*rest && *rest != ':'))
            refuse("-m wants MIN:MAX");
        if (*rest == 0) { /* one number is the largest size, as in OSU */
            options.max = (size_t)value;
            return;
        }
        options.min = (size_t)value;
        text = rest;
    }
    if (text[1]) {
        options.max = strtoull(text + 1, &rest, 10);
        if (*rest)
            refuse("-m wants MIN:MAX");
    }
    if (options.max < options.min)
        refuse("the largest size is below the smallest");
}

enum { FIRST_EXTRA = 256, MOST = 32 }; /* what getopt_long returns for the first option of the benchmark's own */

static void parse(int argc, char **argv)
{
    struct option names[MOST] = {
        {"message-size", 1, 0, 'm'}, {"iterations", 1, 0, 'i'}, {"warmup", 1, 0, 'x'}, {"validation", 0, 0, 'c'},
        {"window-size", 1, 0, 'W'}, {"full", 0, 0, 'f'}, {"num_threads", 1, 0, 't'}, {"fresh", 0, 0, 'F'}, {"settle", 1, 0, 's'},
        {"whole", 0, 0, 'w'},
        {"help", 0, 0, 'h'}, {"version", 0, 0, 'v'}};
    int letter, used = 0;
    while (names[used].name)
        used++;
    for (const Extra *e = options.extra; e && e->name && used < MOST - 1; e++)
        names[used++] = (struct option){e->name, e->argument != NULL, 0, FIRST_EXTRA + (int)(e - options.extra)};
    opterr = 0;
    while ((letter = getopt_long(argc, argv, "m:i:x:cW:ft:hv", names, NULL)) != -1) {
        if (letter == 'h' || letter == 'v')
            leave(letter == 'v');
        if (letter >= FIRST_EXTRA) {
            *options.extra[letter - FIRST_EXTRA].value = optarg ? optarg : "";
            continue;
        }
        if (letter == 's') {
            options.settle = (int)number(optarg, 0);
            continue;
        }
        if (letter == '?' || !strchr(running->letters, letter))
            refuse("unknown option or missing value");
        switch (letter) {
        case 'm': sizes(optarg); break;
        case 'i': options.iterations_given = 1, options.iterations = options.iterations_large = (int)number(optarg, 1); break;
        case 'x': options.warmup_given = 1, options.warmup = options.warmup_large = (int)number(optarg, 0); break;
        case 'W': options.window = (int)number(optarg, 1); break;
        case 't': options.threads = (int)number(optarg, 1); break;
        case 'c': options.validate = 1; break;
        case 'f': options.full = 1; break;
        case 'F': options.fresh = 1; break;
        case 'w': options.whole = 1; break;
        }
    }
    if (optind < argc)
        refuse("this benchmark takes options only");
}

/* Pairs of ranks exchange messages for a while, so that clocks are up and a virtual machine's host, which moves CPUs that
 * stay busy, has done so: what starts quickly would otherwise be measured before that, what starts slowly after. */
static void settle(void)
{
    int peer = rank ^ 1, go = 1;
    double until = MPI_Wtime() + options.settle / 1e3;
    while (peer < ranks && go) {
        if (rank < peer) {
            go = MPI_Wtime() < until;
            MPI_Send(&go, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
        }
        MPI_Recv(&go, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank > peer)
            MPI_Send(&go, 1, MPI_INT, peer, 1, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

const char *multiple;

void begin(int *argc, char ***argv, const Benchmark *benchmark, int level)
{
    int provided;
    for (const Extra *e = benchmark->defaults.extra; e && e->name; e++)
        for (int i = 1; e->value == &multiple && i < *argc; i++) /* needed before MPI knows options */
            if (!strcmp((*argv)[i], "--thread-multiple"))
                level = MPI_THREAD_MULTIPLE;
    running = benchmark;
    program = **argv;
    options = benchmark->defaults;
    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    parse(*argc, *argv);
    if (provided < level)
        refuse("the MPI library does not provide the thread level");
    if (options.settle)
        settle();
    if (rank)
        return;
    printf("\n# OSU %s v7.0 (nearmpi's own program, same output)\n", benchmark->title);
    if (options.fresh)
        printf("# Fresh data: each message is rewritten before it is sent and read when it has come\n");
    for (const Extra *e = options.extra; e && e->name; e++)
        if (!e->argument && *e->value)
            printf("# With --%s: %s\n", e->name, e->text);
    if (benchmark->datatype)
        printf("# Datatype: %s.\n", benchmark->datatype);
    if (*benchmark->column)
        printf("# %s%s%s%s%s\n", benchmark->column, options.full ? "   Min Latency(us)   Max Latency(us)" : "",
               options.whole ? "         Round(us)" : "", options.full ? "  Iterations" : "",
               options.validate ? "        Validation" : "");
    fflush(stdout);
}

int end(void)
{
    long all = 0;
    MPI_Allreduce(&wrong_ever, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}

size_t next_size(size_t size) { return size ? size * 2 : 1; }
/* A quarter of the iterations above VERY_LARGE, unless the command line says how many. */
static int fewer(size_t size, int n, int given) { return given || size <= VERY_LARGE ? n : (n + 3) / 4; }

int iterations(size_t size) { return fewer(size, size > LARGE ? options.iterations_large : options.iterations, options.iterations_given); }
int warmup(size_t size) { return fewer(size, size > LARGE ? options.warmup_large : options.warmup, options.warmup_given); }

size_t largest_cache(void)
{
    long most = 0, names[] = {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sysconf((int)names[i]) > most)
            most = sysconf((int)names[i]);
    return most > 0 ? (size_t)most : (size_t)32 << 20;
}

void *buffer(size_t length)
{
    void *memory = NULL;
    if (posix_memalign(&memory, (size_t)sysconf(_SC_PAGESIZE), length ? length : 1)) {
        fprintf(stderr, "rank %d: no memory for %zu bytes\n", rank, length);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(memory, 'a' + rank % 26, length);
    return memory;
}

static unsigned char pattern(size_t i, unsigned seed)
{
    uint32_t x = ((uint32_t)i + 1) * 2654435761u ^ (seed * 2246822519u);
    return (unsigned char)(x >> 24 ^ x >> 13);
}

void fill(void *bytes, size_t length, unsigned seed)
{
    unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        at[i] = pattern(i, seed);
}

void check(const void *bytes, size_t length, unsigned seed)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        if (at[i] != pattern(i, seed)) {
            if (!wrong++)
                fprintf(stderr, "rank %d: byte %zu of %zu is wrong\n", rank, i, length);
            return;
        }
}

void consume(const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    uint64_t sum = 0, word;
    for (; length >= sizeof word; length -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum += word;
    }
    for (; length; length--)
        sum += *at++;
    static volatile uint64_t sink; /* so that the reading cannot be left out */
    sink = sum;
    (void)sink;
}

void row(size_t size, const double *values, int n)
{
    long all = wrong;
    if (options.validate)
        MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    wrong_ever += wrong;
    wrong = 0;
    if (rank)
        return;
    if (size != SIZE_MAX) /* no size column: barrier */
        printf("%-10zu", size);
    for (int i = 0; i < n; i++)
        printf("%18.*f", values[i] < 10 ? 3 : 2, values[i]); /* one digit more than OSU: 0.07 us would be coarse */
    if (options.full)
        printf("%12d", iterations(size == SIZE_MAX ? 0 : size));
    if (options.validate)
        printf("%18s", all ? "Fail" : "Pass");
    putchar('\n');
    fflush(stdout);
}

static int plays(int part, const Run *run) { return part == EVERYBODY || (rank == run->root) == (part == THE_ROOT); }

size_t blocks_sent(const Collective *c) { return (size_t)(c->send_blocks ? c->send_blocks : ranks); }

size_t blocks_received(const Collective *c) { return (size_t)(c->receive_blocks < 0 ? 1 : c->receive_blocks ? c->receive_blocks : ranks); }

void put_anew(const Collective *c, const Run *run, unsigned seed)
{
    void *data = c->receive_blocks < 0 ? run->receive : run->send;
    if (plays(c->from, run))
        memset(data, '@' + (int)(seed % 26), run->bytes * blocks_sent(c)); /* numbers about 3 as floats */
}

void read_all(const Collective *c, const Run *run)
{
    if (plays(c->to, run))
        consume(run->receive, run->bytes * blocks_received(c));
}

/* Times the calls of one size, with --fresh what stands around them too; every rank's mean goes into the average, minimum
 * and maximum of the row. */
static void measure(const Collective *c, Run *run, size_t size)
{
    double spent = 0, whole = 0, values[4] = {0};
    int skip = warmup(size), n = iterations(size);
    for (int i = 0; i < skip + n; i++) {
        run->root = 0;
        if (options.validate && c->put)
            c->put(run, (unsigned)i);
        if (options.validate && c->receive_blocks >= 0)
            memset(run->receive, 0xCC, run->bytes * blocks_received(c));
        if (i == skip)
            whole = -MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        double from = MPI_Wtime();
        if (options.fresh && !options.validate)
            put_anew(c, run, (unsigned)i);
        c->call(run);
        if (options.fresh && !options.validate)
            read_all(c, run);
        if (i >= skip)
            spent += MPI_Wtime() - from;
        if (options.validate && c->verify)
            c->verify(run, (unsigned)i);
    }
    whole += MPI_Wtime();
    spent = spent * 1e6 / n;
    MPI_Reduce(&spent, &values[0], 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&spent, &values[1], 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&spent, &values[2], 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    values[0] /= ranks;
    int used = options.full ? 3 : 1;
    if (options.whole)
        values[used++] = whole * 1e6 / n;
    row(c->unit ? size : SIZE_MAX, values, used);
}

int collective_main(int argc, char **argv, const Collective *c)
{
    begin(&argc, &argv, &c->benchmark, MPI_THREAD_SINGLE);
    Run run = {0};
    if (c->unit == 0) {
        measure(c, &run, 0);
        return end();
    }
    run.send = buffer(options.max * blocks_sent(c));
    run.receive = buffer(options.max * blocks_received(c));
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        run.bytes = size - size % c->unit;
        if (run.bytes || size == 0)
            measure(c, &run, size);
    }
    free(run.send);
    free(run.receive);
    return end();
}

/* What rank `who` contributes to a reduction at `i`, exact in float whatever the order, and the sum over ranks 0 to n - 1. */
static float term(int who, size_t i, unsigned seed) { return (float)((i + seed) % 13 + (size_t)who); }

static float total(int n, size_t i, unsigned seed) { return (float)n * (float)((i + seed) % 13) + (float)(n * (n - 1) / 2); }

void put_terms(const Run *run, unsigned seed)
{
    float *out = run->send;
    for (size_t i = 0; i < run->bytes / sizeof *out; i++)
        out[i] = term(rank, i, seed);
}

/* Of the sums over n ranks those from element `first` on. */
static void check_totals(const float *got, int n, size_t count, size_t first, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        if (got[i] != total(n, first + i, seed)) {
            if (!wrong++)
                fprintf(stderr, "rank %d: element %zu is %g, not %g\n", rank, i, got[i], total(n, first + i, seed));
            return;
        }
}

void verify_totals(const Run *run, unsigned seed) { check_totals(run->receive, ranks, run->bytes / sizeof(float), 0, seed); }

void verify_totals_at_root(const Run *run, unsigned seed)
{
    if (rank == run->root)
        verify_totals(run, seed);
}

void verify_scan(const Run *run, unsigned seed) { check_totals(run->receive, rank + 1, run->bytes / sizeof(float), 0, seed); }

void verify_exscan(const Run *run, unsigned seed)
{
    if (rank) /* what rank 0 gets is not defined */
        check_totals(run->receive, rank, run->bytes / sizeof(float), 0, seed);
}

void verify_share(const Run *run, unsigned seed)
{
    const int *shares = parts(run)->shares;
    size_t first = 0;
    for (int r = 0; r < rank; r++)
        first += (size_t)shares[r];
    check_totals(run->receive, ranks, (size_t)shares[rank], first, seed);
}

void put_message(const Run *run, unsigned seed) { fill(run->receive, run->bytes, rank == run->root ? seed : ~seed); }

void verify_message(const Run *run, unsigned seed) { check(run->receive, run->bytes, seed); }

static char *block(void *data, const Run *run, int i) { return (char *)data + run->bytes * (size_t)i; }

unsigned sent(unsigned seed, int from) { return seed * 1000 + (unsigned)from; }

void put_block(const Run *run, unsigned seed) { fill(run->send, run->bytes, sent(seed, rank)); }

void verify_blocks(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        check(block(run->receive, run, r), run->bytes, sent(seed, r));
}

void verify_blocks_at_root(const Run *run, unsigned seed)
{
    if (rank == run->root)
        verify_blocks(run, seed);
}

void put_blocks(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        fill(block(run->send, run, r), run->bytes, sent(seed, r));
}

void verify_block(const Run *run, unsigned seed) { check(run->receive, run->bytes, sent(seed, rank)); }

unsigned exchanged(unsigned seed, int from, int to) { return (seed * 251 + (unsigned)from) * 257 + (unsigned)to; }

void put_exchange(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        fill(block(run->send, run, r), run->bytes, exchanged(seed, rank, r));
}

void verify_exchange(const Run *run, unsigned seed)
{
    for (int r = 0; r < ranks; r++)
        check(block(run->receive, run, r), run->bytes, exchanged(seed, r, rank));
}

const Parts *parts(const Run *run)
{
    static Parts all;
    static size_t of = SIZE_MAX;
    if (of == run->bytes)
        return &all;
    int n = ranks > 2 ? ranks : 2;
    size_t floats = run->bytes / sizeof(float);
    all.counts = realloc(all.counts, sizeof *all.counts * (size_t)n);
    all.places = realloc(all.places, sizeof *all.places * (size_t)n);
    all.shares = realloc(all.shares, sizeof *all.shares * (size_t)n);
    all.types = realloc(all.types, sizeof *all.types * (size_t)n);
    for (int r = 0; r < n; r++) {
        all.counts[r] = (int)run->bytes;
        all.places[r] = r * (int)run->bytes;
        all.shares[r] = (int)(floats / (size_t)ranks + ((size_t)r < floats % (size_t)ranks));
        all.types[r] = MPI_CHAR;
    }
    of = run->bytes;
    return &all;
}

/* What the benchmarks share: options, buffers, data validation, the table in the format of the OSU micro-benchmarks,
 * and the frame of every collective. All own code; only options and output follow OSU 7, so that its tools work. */
#ifndef COMMON_H
#define COMMON_H
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Messages above these use smaller iteration numbers. */
enum { LARGE = 8192, VERY_LARGE = 1 << 20 };

/* What the command line said, over the defaults that a benchmark gives. */
typedef struct {
    size_t min, max;                        /* bytes */
    int iterations, iterations_large;
    int warmup, warmup_large;
    int iterations_given, warmup_given;     /* by the command line */
    int window;
    int validate, full, fresh, whole;
    int threads;
    int settle;                             /* ms before anything is measured */
    const char *unit;                       /* of -m; NULL: bytes */
    const struct Extra *extra;              /* ends with a NULL name; NULL: none */
} Options;

/* An option of one benchmark alone, long form only. */
typedef struct Extra {
    const char *name, *argument, *text; /* argument: what --help calls its value; NULL: a flag */
    const char **value;                 /* gets the text of the value, "" for a flag */
} Extra;

/* The option that raises the thread level, for those that start with MPI_THREAD_SINGLE. */
#define THREAD_LEVEL {"thread-multiple", NULL, "initialize for MPI_THREAD_MULTIPLE", &multiple}
extern const char *multiple;

typedef struct {
    const char *title;    /* "MPI Latency Test" */
    const char *column;   /* heading of the value, as OSU writes it */
    const char *datatype; /* of the elements; NULL where there are none */
    const char *letters;  /* options that it takes, out of "mixcWft" and 'F' for --fresh */
    Options defaults;
} Benchmark;

extern Options options;
extern int rank, ranks;

/* Starts MPI (with this thread level), reads the command line (ends the program for -h or a wrong one) and prints
 * the head of the table. */
void begin(int *argc, char ***argv, const Benchmark *benchmark, int level);
/* Ends MPI; the exit status is 1 when validation failed anywhere. */
int end(void);
/* Ends the program with a sentence and the usage, on every rank. */
void refuse(const char *why) __attribute__((noreturn));
/* The number in the text of an option, refused below `least`. */
long number(const char *text, long least);

/* The next size of the table after `size`: 0, then 1, then doubled. */
size_t next_size(size_t size);
int iterations(size_t size);
int warmup(size_t size);

/* Bytes of the largest cache of a CPU; a guess where the system does not say. */
size_t largest_cache(void);

/* Page-aligned memory, touched. */
void *buffer(size_t length);
/* The pattern of message `seed`, and whether it is there. Counts what is wrong for the last column and end(). */
void fill(void *bytes, size_t length, unsigned seed);
void check(const void *bytes, size_t length, unsigned seed);
extern long wrong;
/* Reads every byte: what a program that uses its message does. */
void consume(const void *bytes, size_t length);

/* One row, by rank 0: the size, values, and with -c whether the data were right on every rank. */
void row(size_t size, const double *values, int n);

/* A collective: how it is called, what each rank puts in, and what must come out. `blocks` is the number of blocks
 * of `bytes` in a buffer, 0 for one per rank. */
typedef struct {
    void *send, *receive;
    size_t bytes; /* of one block */
    int root;
} Run;

typedef struct {
    Benchmark benchmark;
    int send_blocks, receive_blocks; /* receive_blocks -1: what is sent lies in the receive buffer, one block */
    size_t unit;                     /* of an element: sizes below it are left out */
    void (*call)(const Run *);
    void (*put)(const Run *, unsigned seed);
    void (*verify)(const Run *, unsigned seed);
    enum { EVERYBODY, THE_ROOT, ALL_BUT_THE_ROOT } from, to; /* whose data go in, and who gets data */
} Collective;

/* Blocks in its buffers. */
size_t blocks_sent(const Collective *collective);
size_t blocks_received(const Collective *collective);

/* With --fresh, before a call: what this rank puts in is written anew. After it: what this rank got is read. */
void put_anew(const Collective *collective, const Run *run, unsigned seed);
void read_all(const Collective *collective, const Run *run);

int collective_main(int argc, char **argv, const Collective *collective);

/* put and verify for reductions: the sum to every rank or to the root; over the ranks up to this one, or below it; in shares. */
void put_terms(const Run *run, unsigned seed);
void verify_totals(const Run *run, unsigned seed);
void verify_totals_at_root(const Run *run, unsigned seed);
void verify_scan(const Run *run, unsigned seed);
void verify_exscan(const Run *run, unsigned seed);
void verify_share(const Run *run, unsigned seed);
/* The root's message in the receive buffer goes to every rank. */
void put_message(const Run *run, unsigned seed);
void verify_message(const Run *run, unsigned seed);
/* A block of every rank goes to every rank, or to the root. */
void put_block(const Run *run, unsigned seed);
void verify_blocks(const Run *run, unsigned seed);
void verify_blocks_at_root(const Run *run, unsigned seed);
/* The root has a block for every rank. */
void put_blocks(const Run *run, unsigned seed);
void verify_block(const Run *run, unsigned seed);
/* Every rank sends a block of its own to every rank. */
void put_exchange(const Run *run, unsigned seed);
void verify_exchange(const Run *run, unsigned seed);
/* The seeds of what these send: a block of rank `from`, and one from a rank to another. */
unsigned sent(unsigned seed, int from);
unsigned exchanged(unsigned seed, int from, int to);

/* What calls with counts want of a buffer with a block per rank, one after the other: bytes, where they begin, types; and
 * the elements of each rank where `bytes` of floats are shared out, the first ranks getting one more. For two at least. */
typedef struct {
    int *counts, *places, *shares;
    MPI_Datatype *types;
} Parts;

/* Computed once per size, in the warm-up. */
const Parts *parts(const Run *run);

#define COLLECTIVE_DEFAULTS(smallest, ...) \
    {.min = smallest, .max = 1 << 20, .iterations = 1000, .iterations_large = 100, .warmup = 200, .warmup_large = 10, __VA_ARGS__}
#endif

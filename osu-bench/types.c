/* Ping-pong of data with gaps: half the round trip, in microseconds, against the bytes of data in a message. */
#include "common.h"

/* A layout: `bytes` of data lie in `extent` bytes, then it repeats. */
typedef struct {
    const char *name, *what;
    size_t bytes, extent;
    MPI_Datatype (*make)(int units);
    size_t (*at)(size_t i); /* where byte i of the data lies */
} Layout;

static MPI_Datatype contiguous(int units)
{
    MPI_Datatype made;
    MPI_Type_contiguous(units, MPI_DOUBLE, &made);
    return made;
}
static size_t contiguous_at(size_t i) { return i; }

static MPI_Datatype vector(int units)
{
    MPI_Datatype made;
    MPI_Type_vector(units, 1, 2, MPI_DOUBLE, &made);
    return made;
}
static size_t vector_at(size_t i) { return i / 8 * 16 + i % 8; }

/* Blocks of 1, 2, 3 and 4 doubles, one double between them. */
static const int lengths[] = {1, 2, 3, 4}, starts[] = {0, 2, 5, 9};
enum { BLOCKS = 4, GROUP = 10, SPAN = 14 };

static MPI_Datatype indexed(int units)
{
    int n = units * BLOCKS, *length = malloc(sizeof *length * (size_t)n), *start = malloc(sizeof *start * (size_t)n);
    MPI_Datatype made;
    for (int i = 0; i < n; i++) {
        length[i] = lengths[i % BLOCKS];
        start[i] = starts[i % BLOCKS] + i / BLOCKS * SPAN;
    }
    MPI_Type_indexed(n, length, start, MPI_DOUBLE, &made);
    free(length);
    free(start);
    return made;
}
static size_t indexed_at(size_t i)
{
    size_t element = i / 8 % GROUP, block = 0;
    while (element >= (size_t)lengths[block])
        element -= (size_t)lengths[block++];
    return i / (8 * GROUP) * (8 * SPAN) + 8 * ((size_t)starts[block] + element) + i % 8;
}

/* An int and a double, as C lays them out. */
typedef struct { int number; double value; } Pair;

static MPI_Datatype structure(int units)
{
    int length[] = {1, 1};
    MPI_Aint start[] = {offsetof(Pair, number), offsetof(Pair, value)};
    MPI_Datatype part[] = {MPI_INT, MPI_DOUBLE}, pair, sized, made;
    MPI_Type_create_struct(2, length, start, part, &pair);
    MPI_Type_create_resized(pair, 0, sizeof(Pair), &sized);
    MPI_Type_contiguous(units, sized, &made);
    MPI_Type_free(&pair);
    MPI_Type_free(&sized);
    return made;
}
static size_t structure_at(size_t i)
{
    size_t within = i % (sizeof(int) + sizeof(double));
    return i / (sizeof(int) + sizeof(double)) * sizeof(Pair) + (within < sizeof(int) ? within : within - sizeof(int) + offsetof(Pair, value));
}

/* The middle half of the columns of a matrix with 64 columns of doubles. */
enum { COLUMNS = 64, TAKEN = 32, SKIPPED = 16 };

static MPI_Datatype subarray(int units)
{
    int whole[] = {units, COLUMNS}, part[] = {units, TAKEN}, start[] = {0, SKIPPED};
    MPI_Datatype made;
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &made);
    return made;
}
static size_t subarray_at(size_t i) { return i / (8 * TAKEN) * (8 * COLUMNS) + 8 * SKIPPED + i % (8 * TAKEN); }

static const Layout layouts[] = {
    {"vector", "doubles with stride 2", 8, 16, vector, vector_at},
    {"indexed", "blocks of 1 to 4 doubles, one between them", 8 * GROUP, 8 * SPAN, indexed, indexed_at},
    {"struct", "an int and a double", sizeof(int) + sizeof(double), sizeof(Pair), structure, structure_at},
    {"subarray", "half the columns of a matrix", 8 * TAKEN, 8 * COLUMNS, subarray, subarray_at},
    {"contiguous", "no gaps", 8, 8, contiguous, contiguous_at}};

static const char *type_text = "vector";
static const Layout *layout;
static char *out, *in;
static size_t length; /* of the buffers */

static void put(size_t size, unsigned seed)
{
    char *data = malloc(size);
    fill(data, size, seed);
    memset(in, 0x5A, length);
    for (size_t i = 0; i < size; i++)
        out[layout->at(i)] = data[i];
    free(data);
}

/* The data must be right and the gaps as they were. */
static void verify(size_t size, unsigned seed)
{
    char *data = malloc(size);
    for (size_t i = 0; i < size; i++) {
        data[i] = in[layout->at(i)];
        in[layout->at(i)] = 0x5A;
    }
    check(data, size, seed);
    for (size_t i = 0; i < length; i++)
        if (in[i] != 0x5A) {
            if (!wrong++)
                fprintf(stderr, "rank %d: the gap at byte %zu was written\n", rank, i);
            break;
        }
    free(data);
}

static double ping_pong(size_t size, MPI_Datatype type)
{
    double from = 0;
    int skip = warmup(size), n = iterations(size);
    for (int i = 0; i < skip + n; i++) {
        if (i == skip)
            from = MPI_Wtime();
        if (options.validate)
            put(size, (unsigned)(2 * i + rank));
        if (rank == 0)
            MPI_Send(out, 1, type, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(in, 1, type, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (options.validate)
            verify(size, (unsigned)(2 * i + 1 - rank));
        if (rank == 1)
            MPI_Send(out, 1, type, 0, 1, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - from) * 1e6 / (2.0 * n);
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"type", "NAME", "vector (doubles with stride 2), indexed, struct, subarray, contiguous", &type_text}, {0}};
    static const Benchmark benchmark = {
        "MPI Datatype Latency Test", "Size       Avg Latency(us)", NULL, "mixc",
        {.min = 1 << 10, .max = 4 << 20, .iterations = 1000, .iterations_large = 100, .warmup = 50, .warmup_large = 5,
         .unit = "bytes of data", .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks != 2)
        refuse("needs exactly two ranks");
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (!strcmp(layouts[i].name, type_text))
            layout = &layouts[i];
    if (!layout)
        refuse("no such --type");
    if (rank == 0)
        printf("# Layout: %s, %s.\n", layout->name, layout->what);
    length = (options.max / layout->bytes + 1) * layout->extent;
    out = buffer(length);
    in = buffer(length);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        int units = (int)(size / layout->bytes);
        if (units == 0)
            continue;
        MPI_Datatype type = layout->make(units);
        MPI_Type_commit(&type);
        MPI_Barrier(MPI_COMM_WORLD);
        double took = ping_pong((size_t)units * layout->bytes, type);
        row(size, &took, 1);
        MPI_Type_free(&type);
    }
    return end();
}

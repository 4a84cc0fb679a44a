/* How well nonblocking collectives run beside computation, by the method of the OSU benchmarks: the operation alone
 * takes `pure`; then a computation of about that length is done between its start and the wait for its end. Columns:
 * size, overall time, computation, pure time (us), and the part of the pure time that was hidden (percent).
 * First argument: i and the name of a collective (iallreduce), or p and its name for the persistent one; then the
 * options of the other benchmarks. */
#include "ring.h"

enum { ROUNDS_OF_WORK = 64 };
static float work[ROUNDS_OF_WORK][ROUNDS_OF_WORK];
static volatile float sink;

/* What the calls are given: the buffers, bytes and floats of a block, and what those with counts want. */
static Run run;
static int n, floats;
static const Parts *part;

/* Both forms of a collective: MPI_I..., which starts it, and MPI_..._init, which makes a persistent request. */
#define FORMS(name, Name, ...) \
    static void start_##name(MPI_Request *request) { MPI_I##name(__VA_ARGS__, request); } \
    static void make_##name(MPI_Request *request) { MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request); }

#define WORLD MPI_COMM_WORLD
#define FROM run.send, n, MPI_CHAR
#define TO run.receive, n, MPI_CHAR
#define SUM run.send, run.receive, floats, MPI_FLOAT, MPI_SUM
#define PARTS(buffer) run.buffer, part->counts, part->places, MPI_CHAR
#define TYPED(buffer) run.buffer, part->counts, part->places, part->types

FORMS(barrier, Barrier, WORLD)
FORMS(bcast, Bcast, TO, 0, WORLD)
FORMS(reduce, Reduce, SUM, 0, WORLD)
FORMS(allreduce, Allreduce, SUM, WORLD)
FORMS(scan, Scan, SUM, WORLD)
FORMS(exscan, Exscan, SUM, WORLD)
FORMS(reduce_scatter, Reduce_scatter, run.send, run.receive, part->shares, MPI_FLOAT, MPI_SUM, WORLD)
FORMS(allgather, Allgather, FROM, TO, WORLD)
FORMS(allgatherv, Allgatherv, FROM, PARTS(receive), WORLD)
FORMS(gather, Gather, FROM, TO, 0, WORLD)
FORMS(gatherv, Gatherv, FROM, PARTS(receive), 0, WORLD)
FORMS(scatter, Scatter, FROM, TO, 0, WORLD)
FORMS(scatterv, Scatterv, PARTS(send), TO, 0, WORLD)
FORMS(alltoall, Alltoall, FROM, TO, WORLD)
FORMS(alltoallv, Alltoallv, PARTS(send), PARTS(receive), WORLD)
FORMS(alltoallw, Alltoallw, TYPED(send), TYPED(receive), WORLD)
FORMS(neighbor_allgather, Neighbor_allgather, FROM, TO, ring())
FORMS(neighbor_alltoall, Neighbor_alltoall, FROM, TO, ring())

/* Each with what its data are; receive_blocks as in Collective. */
static const struct Operation {
    const char *name;
    void (*start)(MPI_Request *);
    void (*make)(MPI_Request *);
    Collective data;
} operations[] = {
#define NAMED(name) #name, start_##name, make_##name
#define DATA(send_blocks, receive_blocks, unit, ...) {{0}, send_blocks, receive_blocks, unit, NULL, __VA_ARGS__}
    {NAMED(barrier), DATA(1, 1, 0, NULL, NULL, EVERYBODY, EVERYBODY)},
    {NAMED(bcast), DATA(1, -1, 1, put_message, verify_message, THE_ROOT, ALL_BUT_THE_ROOT)},
    {NAMED(reduce), DATA(1, 1, sizeof(float), put_terms, verify_totals_at_root, EVERYBODY, THE_ROOT)},
    {NAMED(allreduce), DATA(1, 1, sizeof(float), put_terms, verify_totals, EVERYBODY, EVERYBODY)},
    {NAMED(scan), DATA(1, 1, sizeof(float), put_terms, verify_scan, EVERYBODY, EVERYBODY)},
    {NAMED(exscan), DATA(1, 1, sizeof(float), put_terms, verify_exscan, EVERYBODY, ALL_BUT_THE_ROOT)},
    {NAMED(reduce_scatter), DATA(1, 1, sizeof(float), put_terms, verify_share, EVERYBODY, EVERYBODY)},
    {NAMED(allgather), DATA(1, 0, 1, put_block, verify_blocks, EVERYBODY, EVERYBODY)},
    {NAMED(allgatherv), DATA(1, 0, 1, put_block, verify_blocks, EVERYBODY, EVERYBODY)},
    {NAMED(gather), DATA(1, 0, 1, put_block, verify_blocks_at_root, EVERYBODY, THE_ROOT)},
    {NAMED(gatherv), DATA(1, 0, 1, put_block, verify_blocks_at_root, EVERYBODY, THE_ROOT)},
    {NAMED(scatter), DATA(0, 1, 1, put_blocks, verify_block, THE_ROOT, EVERYBODY)},
    {NAMED(scatterv), DATA(0, 1, 1, put_blocks, verify_block, THE_ROOT, EVERYBODY)},
    {NAMED(alltoall), DATA(0, 0, 1, put_exchange, verify_exchange, EVERYBODY, EVERYBODY)},
    {NAMED(alltoallv), DATA(0, 0, 1, put_exchange, verify_exchange, EVERYBODY, EVERYBODY)},
    {NAMED(alltoallw), DATA(0, 0, 1, put_exchange, verify_exchange, EVERYBODY, EVERYBODY)},
    {NAMED(neighbor_allgather), DATA(1, 2, 1, put_block, verify_neighbors, EVERYBODY, EVERYBODY)},
    {NAMED(neighbor_alltoall), DATA(2, 2, 1, put_for_neighbors, verify_for_neighbors, EVERYBODY, EVERYBODY)}};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* What is called so without the first letter; refuses other names. */
static const struct Operation *operation(const char *name)
{
    char why[1024] = "the first argument is i or p and one of these names, as in iallreduce:";
    for (int i = 0; i < OPERATIONS; i++) {
        if ((*name == 'i' || *name == 'p') && !strcmp(operations[i].name, name + 1))
            return &operations[i];
        strcat(strcat(why, i ? ", " : " "), operations[i].name);
    }
    refuse(why);
}

/* Computes for about so many seconds. */
static void compute(double seconds)
{
    double until = MPI_Wtime() + seconds;
    do {
        float sum = 0;
        for (int i = 0; i < ROUNDS_OF_WORK; i++)
            sum += work[i][(i * 7) % ROUNDS_OF_WORK] * 1.0001f;
        sink = sum;
    } while (MPI_Wtime() < until);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {"MPI Nonblocking Collective Overlap Test",
        "Size        Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)", NULL, "mixcF",
        {.min = 1, .max = 1 << 20, .iterations = 1000, .iterations_large = 100, .warmup = 100, .warmup_large = 10}};
    const char *what = argc > 1 && argv[1][0] != '-' ? argv[1] : "iallreduce";
    if (argc > 1 && what == argv[1]) {
        argv[1] = argv[0];
        argc--, argv++;
    }
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    const struct Operation *op = operation(what);
    const Collective *data = &op->data;
    int persistent = what[0] == 'p', fresh = options.fresh && !options.validate;
    run.send = buffer(options.max * blocks_sent(data));
    run.receive = buffer(options.max * blocks_received(data));
    for (size_t size = data->unit ? options.min : 0; size <= options.max; size = next_size(size)) {
        double pure = 0, overall = 0, busy = 0;
        run.bytes = data->unit ? size - size % data->unit : 0;
        if (size && !run.bytes)
            continue;
        n = (int)run.bytes;
        floats = n / (int)sizeof(float);
        part = parts(&run);
        MPI_Request request;
        if (persistent)
            op->make(&request);
        for (int overlapped = 0; overlapped < 2; overlapped++)
            for (int i = -warmup(size); i < iterations(size); i++) {
                if (options.validate && data->put) {
                    memset(run.receive, 0xCC, run.bytes * blocks_received(data));
                    data->put(&run, (unsigned)i);
                }
                MPI_Barrier(MPI_COMM_WORLD);
                double from = MPI_Wtime(), computed = 0;
                if (fresh)
                    put_anew(data, &run, (unsigned)i);
                if (persistent)
                    MPI_Start(&request);
                else
                    op->start(&request);
                if (overlapped) {
                    double before = MPI_Wtime();
                    compute(pure / iterations(size));
                    computed = MPI_Wtime() - before;
                }
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                if (fresh)
                    read_all(data, &run);
                double took = MPI_Wtime() - from;
                if (i >= 0) {
                    *(overlapped ? &overall : &pure) += took;
                    busy += computed;
                }
                if (options.validate && data->verify)
                    data->verify(&run, (unsigned)i);
            }
        double mine[3] = {overall, busy, pure}, all[3];
        MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++)
            all[i] *= 1e6 / iterations(size) / ranks;
        double hidden = 100 * (1 - (all[0] - all[1]) / all[2]);
        double values[4] = {all[0], all[1], all[2], hidden < 0 ? 0 : hidden > 100 ? 100 : hidden};
        row(size, values, 4);
        if (persistent)
            MPI_Request_free(&request);
        if (!data->unit)
            break;
    }
    return end();
}

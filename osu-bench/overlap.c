/* How well nonblocking collectives run beside computation, by the method of the OSU benchmarks: the operation alone
 * takes `pure`; then a computation of about that length is done between its start and the wait for its end. Columns:
 * size, overall time, computation, pure time (us), and the part of the pure time that was hidden (percent).
 * First argument: ibarrier, iallreduce, ibcast, iallgather or ialltoall, or pbarrier ... for persistent ones; then the
 * options of the other benchmarks. */
#include "common.h"

enum { ROUNDS_OF_WORK = 64 };
static float work[ROUNDS_OF_WORK][ROUNDS_OF_WORK];
static volatile float sink;

static MPI_Request kept = MPI_REQUEST_NULL;

/* Makes the persistent request. */
static void keep(const char *what, void *in, void *out, size_t bytes)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    if (!strcmp(what, "pbarrier"))
        MPI_Barrier_init(comm, MPI_INFO_NULL, &kept);
    else if (!strcmp(what, "pallreduce"))
        MPI_Allreduce_init(in, out, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, comm, MPI_INFO_NULL, &kept);
    else if (!strcmp(what, "pbcast"))
        MPI_Bcast_init(in, (int)bytes, MPI_CHAR, 0, comm, MPI_INFO_NULL, &kept);
    else if (!strcmp(what, "pallgather"))
        MPI_Allgather_init(in, (int)bytes, MPI_CHAR, out, (int)bytes, MPI_CHAR, comm, MPI_INFO_NULL, &kept);
    else
        MPI_Alltoall_init(in, (int)bytes, MPI_CHAR, out, (int)bytes, MPI_CHAR, comm, MPI_INFO_NULL, &kept);
}

static void start(const char *what, void *in, void *out, size_t bytes, MPI_Request *request)
{
    if (kept != MPI_REQUEST_NULL)
        MPI_Start(request);
    else if (!strcmp(what, "ibarrier"))
        MPI_Ibarrier(MPI_COMM_WORLD, request);
    else if (!strcmp(what, "iallreduce"))
        MPI_Iallreduce(in, out, (int)(bytes / sizeof(float)), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
    else if (!strcmp(what, "ibcast"))
        MPI_Ibcast(in, (int)bytes, MPI_CHAR, 0, MPI_COMM_WORLD, request);
    else if (!strcmp(what, "iallgather"))
        MPI_Iallgather(in, (int)bytes, MPI_CHAR, out, (int)bytes, MPI_CHAR, MPI_COMM_WORLD, request);
    else
        MPI_Ialltoall(in, (int)bytes, MPI_CHAR, out, (int)bytes, MPI_CHAR, MPI_COMM_WORLD, request);
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
        "Size        Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)", NULL, "mix",
        {.min = 1, .max = 1 << 20, .iterations = 1000, .iterations_large = 100, .warmup = 100, .warmup_large = 10}};
    const char *what = argc > 1 && strchr("ip", argv[1][0]) ? argv[1] : "iallreduce";
    if (argc > 1 && what == argv[1]) {
        argv[1] = argv[0];
        argc--, argv++;
    }
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    size_t each = strstr(what, "alltoall") || strstr(what, "allgather") ? (size_t)ranks : 1;
    void *in = buffer(options.max * each), *out = buffer(options.max * each);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        double pure = 0, overall = 0, busy = 0;
        if (what[0] == 'p')
            keep(what, in, out, size);
        for (int overlapped = 0; overlapped < 2; overlapped++)
            for (int i = -warmup(size); i < iterations(size); i++) {
                MPI_Request request = kept;
                MPI_Barrier(MPI_COMM_WORLD);
                double from = MPI_Wtime(), computed = 0;
                start(what, in, out, size, &request);
                if (overlapped) {
                    double before = MPI_Wtime();
                    compute(pure / iterations(size));
                    computed = MPI_Wtime() - before;
                }
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                double took = MPI_Wtime() - from;
                if (i >= 0) {
                    *(overlapped ? &overall : &pure) += took;
                    busy += computed;
                }
            }
        double mine[3] = {overall, busy, pure}, all[3];
        MPI_Allreduce(mine, all, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 3; i++)
            all[i] *= 1e6 / iterations(size) / ranks;
        double hidden = 100 * (1 - (all[0] - all[1]) / all[2]);
        double values[4] = {all[0], all[1], all[2], hidden < 0 ? 0 : hidden > 100 ? 100 : hidden};
        row(size, values, 4);
        if (kept != MPI_REQUEST_NULL)
            MPI_Request_free(&kept);
        if (!strcmp(what + 1, "barrier"))
            break;
    }
    return end();
}

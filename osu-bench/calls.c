/* A message by other calls than MPI_Send and MPI_Recv, between ranks 0 and 1, in microseconds: half of a ping-pong whose receiver
 * asks in this way, or an exchange of two messages. */
#include "common.h"

static char *out, *in;
static int n, peer;
static MPI_Request persistent[2]; /* a receive and a send */
static MPI_Request partitioned[2]; /* the same in so many partitions */
static int partitions;
static MPI_Status status;

static void by_probe(void)
{
    MPI_Probe(peer, 1, MPI_COMM_WORLD, &status);
    MPI_Recv(in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &status);
}

static void by_iprobe(void)
{
    for (int found = 0; !found;)
        MPI_Iprobe(peer, 1, MPI_COMM_WORLD, &found, &status);
    MPI_Recv(in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &status);
}

/* What mpi4py's recv does, from any source. */
static void by_mprobe(void)
{
    MPI_Message message;
    MPI_Mprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in, n, MPI_CHAR, &message, &status);
}

static void by_test(void)
{
    MPI_Request request;
    MPI_Irecv(in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request);
    for (int over = 0; !over;)
        MPI_Test(&request, &over, &status);
}

static void by_wait(void)
{
    MPI_Request request;
    MPI_Irecv(in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, &status);
}

static void by_start(void)
{
    MPI_Start(&persistent[0]);
    MPI_Wait(&persistent[0], &status);
}

static void send(void) { MPI_Send(out, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD); }

static void start_send(void)
{
    MPI_Start(&persistent[1]);
    MPI_Wait(&persistent[1], &status);
}

static void by_start_of_partitions(void)
{
    MPI_Start(&partitioned[0]);
    MPI_Wait(&partitioned[0], &status);
}

static void send_partitions(void)
{
    MPI_Start(&partitioned[1]);
    for (int i = 0; i < partitions; i++)
        MPI_Pready(i, partitioned[1]);
    MPI_Wait(&partitioned[1], &status);
}

static void exchange(void)
{
    MPI_Request requests[2];
    MPI_Irecv(in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void exchange_again(void)
{
    MPI_Startall(2, persistent);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
}

static void sendrecv(void)
{
    MPI_Sendrecv(out, n, MPI_CHAR, peer, 1, in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &status);
}

/* One step along a line and one back, whose ends have nobody beside them. */
static void line(void)
{
    int right = rank ? MPI_PROC_NULL : 1, left = rank ? 0 : MPI_PROC_NULL;
    MPI_Sendrecv(out, n, MPI_CHAR, right, 1, in, n, MPI_CHAR, left, 1, MPI_COMM_WORLD, &status);
    MPI_Sendrecv(out, n, MPI_CHAR, left, 1, in, n, MPI_CHAR, right, 1, MPI_COMM_WORLD, &status);
}

/* Those without a send exchange. */
static const struct Way {
    const char *name;
    void (*receive)(void), (*send)(void);
} ways[] = {{"probe", by_probe, send},   {"iprobe", by_iprobe, send}, {"mprobe", by_mprobe, send},
            {"test", by_test, send},     {"wait", by_wait, send},     {"start", by_start, start_send},
            {"pready", by_start_of_partitions, send_partitions}, {"exchange", exchange, NULL},
            {"startall", exchange_again, NULL}, {"sendrecv", sendrecv, NULL}, {"line", line, NULL}};

static const struct Way *way_of(const char *name)
{
    static char why[200] = "calls: --by takes";
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (!strcmp(ways[i].name, name))
            return &ways[i];
        strcat(strcat(why, i ? ", " : " "), ways[i].name);
    }
    refuse(why);
}

static double measure(const struct Way *way, size_t size)
{
    double from = 0;
    int skip = warmup(size), count = iterations(size);
    for (int i = 0; i < skip + count; i++) {
        if (i == skip)
            from = MPI_Wtime();
        if (options.validate) {
            fill(out, size, 2u * (unsigned)i + (unsigned)rank);
            memset(in, 0xCC, size);
        }
        if (way->send && rank == 0)
            way->send();
        way->receive();
        if (way->send && rank == 1)
            way->send();
        if (options.validate)
            check(in, size, 2u * (unsigned)i + (unsigned)peer);
    }
    return (MPI_Wtime() - from) * 1e6 / (way->send ? 2.0 * count : count);
}

int main(int argc, char **argv)
{
    static const char *by = "exchange";
    static const Extra extra[] = {
        {"by", "CALLS", "probe, iprobe, mprobe, test, wait, start, pready (a ping-pong; in 16 partitions); exchange, startall, sendrecv, line (exchanges)", &by},
        {0}};
    static const Benchmark benchmark = {
        "MPI Calls Latency Test", "Size       Avg Latency(us)", "MPI_CHAR", "mixc",
        {.min = 1, .max = 4 << 20, .iterations = 10000, .iterations_large = 1000, .warmup = 100, .warmup_large = 10,
         .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    if (ranks != 2)
        refuse("calls: needs exactly two ranks");
    const struct Way *way = way_of(by);
    peer = 1 - rank;
    out = buffer(options.max);
    in = buffer(options.max);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        n = (int)size;
        MPI_Recv_init(in, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &persistent[0]);
        MPI_Send_init(out, n, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &persistent[1]);
        if (way->send == send_partitions) {
            partitions = n % 16 ? 1 : 16;
            MPI_Precv_init(in, partitions, n / partitions, MPI_CHAR, peer, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned[0]);
            MPI_Psend_init(out, partitions, n / partitions, MPI_CHAR, peer, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned[1]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double took = measure(way, size);
        row(size, &took, 1);
        for (int k = 0; k < 2; k++) {
            MPI_Request_free(&persistent[k]);
            if (way->send == send_partitions)
                MPI_Request_free(&partitioned[k]);
        }
    }
    return end();
}

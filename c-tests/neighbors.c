/* Claim: the five exchanges with neighbours bring every block where it belongs, blocking, nonblocking and persistent, of any
 * length and type: on a grid with edges whose processes are their own neighbours too, and on a graph with edges that come
 * twice. With "own": a block for oneself that is longer than its room is an error (MPICH cuts it). */
#include "check.h"

enum { BLOCKS = 4, BLOCKING = 0, NONBLOCKING, PERSISTENT, FORMS };

/* Who is around, and where what comes was sent from; -1: nothing comes. */
static struct {
    MPI_Comm comm;
    int n, source[BLOCKS], from[BLOCKS];
} around;
static MPI_Datatype spread; /* a byte and a gap of one */

static void grid(void)
{
    int dims[2] = {n_ranks, 1}, periods[2] = {0, 1};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &around.comm));
    int above = my_rank + 1 < n_ranks ? my_rank + 1 : -1;
    around.n = 4;
    memcpy(around.source, (int[]){my_rank - 1, above, my_rank, my_rank}, sizeof around.source);
    memcpy(around.from, (int[]){1, 0, 3, 2}, sizeof around.from);
}

static void graph(void)
{
    int below = (my_rank + n_ranks - 1) % n_ranks, above = (my_rank + 1) % n_ranks;
    int sources[] = {below, below, my_rank}, destinations[] = {above, above, my_rank};
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, sources, MPI_UNWEIGHTED, 3, destinations, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &around.comm));
    around.n = 3;
    memcpy(around.source, (int[]){below, below, my_rank, -1}, sizeof around.source);
    memcpy(around.from, (int[]){0, 1, 2, -1}, sizeof around.from);
}

static unsigned seed(int rank, int block) { return (unsigned)(rank * BLOCKS + block); }

/* Bytes of a rank's block in the forms with counts; some have none. */
static int varying(int rank, int block, int base) { return (rank + block) % 3 == 2 ? 0 : base + 5 * block; }

/* One call in one of its forms; a persistent one is started twice. */
#define CALL(name, ...)                                                                  \
    do {                                                                                 \
        MPI_Request request = MPI_REQUEST_NULL;                                          \
        if (form == BLOCKING)                                                            \
            OK(MPI_Neighbor_##name(__VA_ARGS__, around.comm));                           \
        else if (form == NONBLOCKING)                                                    \
            OK(MPI_Ineighbor_##name(__VA_ARGS__, around.comm, &request));                \
        else                                                                             \
            OK(MPI_Neighbor_##name##_init(__VA_ARGS__, around.comm, MPI_INFO_NULL, &request)); \
        for (int starts = form == PERSISTENT ? 2 : form == NONBLOCKING; starts > 0; starts--) { \
            if (form == PERSISTENT) {                                                    \
                memset(in, 0xee, (size_t)room * n);                                      \
                OK(MPI_Start(&request));                                                 \
            }                                                                            \
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                   \
        }                                                                                \
        if (form == PERSISTENT)                                                          \
            OK(MPI_Request_free(&request));                                              \
    } while (0)

static void exchanges(int form, int base)
{
    int n = around.n, room = base + 5 * BLOCKS;
    unsigned char *out = need((size_t)room * n), *apart = need((size_t)room * n * 2);
    unsigned char *in = need((size_t)room * n);
    int sends[BLOCKS], receives[BLOCKS], places[BLOCKS], counts[BLOCKS]; /* counts: of what is the same for all neighbours */
    MPI_Aint bytes[BLOCKS], twice[BLOCKS];
    MPI_Datatype gaps[BLOCKS], plain[BLOCKS];
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < room; i++)
            out[k * room + i] = apart[2 * (k * room + i)] = byte_at(seed(my_rank, k), i);
        sends[k] = varying(my_rank, k, base);
        receives[k] = around.source[k] < 0 ? room : varying(around.source[k], around.from[k], base);
        counts[k] = around.source[k] < 0 ? room : base + around.source[k] % 2;
        places[k] = k * room, bytes[k] = places[k], twice[k] = 2 * bytes[k];
        gaps[k] = spread, plain[k] = MPI_BYTE;
    }
    for (int operation = 0; operation < 5; operation++) {
        memset(in, 0xee, (size_t)room * n);
        switch (operation) {
        case 0: CALL(allgather, out, base, MPI_BYTE, in, base, MPI_BYTE); break;
        case 1: CALL(allgatherv, out, base + my_rank % 2, MPI_BYTE, in, counts, places, MPI_BYTE); break;
        case 2: CALL(alltoall, apart, room, spread, in, room, MPI_BYTE); break;
        case 3: CALL(alltoallv, out, sends, places, MPI_BYTE, in, receives, places, MPI_BYTE); break;
        case 4: CALL(alltoallw, apart, sends, twice, gaps, in, receives, bytes, plain); break;
        }
        for (int k = 0; k < n; k++) {
            int source = around.source[k], block = operation < 2 ? 0 : around.from[k];
            int len = source < 0 ? 0 : (int[]){base, counts[k], room, receives[k], receives[k]}[operation];
            int width = operation == 0 ? base : room;
            const unsigned char *got = in + (size_t)k * width;
            CHECK_BYTES(got, len, seed(source, block));
            CHECK_GUARD(got, len, width, 0xee);
        }
    }
    free(in), free(out), free(apart);
}

/* One's own block of two bytes has room for one. */
static void too_long(void)
{
    unsigned char out[2 * BLOCKS] = {0}, room[2 * BLOCKS];
    int sends[BLOCKS], receives[BLOCKS], places[BLOCKS];
    for (int k = 0; k < around.n; k++) {
        sends[k] = receives[k] = 2, places[k] = 2 * k;
        if (around.source[k] == my_rank)
            receives[k] = 1;
    }
    OK(MPI_Comm_set_errhandler(around.comm, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_TRUNCATE, MPI_Neighbor_alltoallv(out, sends, places, MPI_BYTE, room, receives, places, MPI_BYTE, around.comm));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Type_create_resized(MPI_BYTE, 0, 2, &spread));
    OK(MPI_Type_commit(&spread));
    for (int which = 0; which < 2; which++) {
        (which ? graph : grid)();
        const int bases[] = {1, 700, 5000, 100000};
        for (int form = 0; form < FORMS; form++)
            for (int i = 0; i < 4; i++)
                exchanges(form, bases[i]);
        if (argc > 1)
            too_long();
        OK(MPI_Comm_free(&around.comm));
    }
    OK(MPI_Type_free(&spread));
    return finish();
}

/* Claim: the large-count (`_c`) forms do what the plain ones do, and mix with them: point to point, persistent,
 * matched, types, packing, status, reductions and the collectives with counts in arrays. */
#include "check.h"

enum { N = 5000 };
static int out[N], in[N * 8];
static const MPI_Count n = N;

static void stamp(int seed)
{
    for (int i = 0; i < N; i++)
        out[i] = seed * N + i + my_rank;
    memset(in, -1, sizeof in);
}

static void arrived(const int *got, int from, int seed, const char *name)
{
    for (int i = 0; i < N; i++)
        CHECK(got[i] == seed * N + i + from, "%s: [%d] = %d", name, i, got[i]);
}

static void point_to_point(void)
{
    int peer = 1 - my_rank;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    MPI_Count count, room = n * 4 + MPI_BSEND_OVERHEAD;
    void *space = need(room);
    typedef int Isend(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    typedef int Send(const void *, MPI_Count, MPI_Datatype, int, int, MPI_Comm);
    Isend *const isends[] = {MPI_Isend_c, MPI_Ibsend_c, MPI_Issend_c, MPI_Irsend_c};
    Isend *const inits[] = {MPI_Send_init_c, MPI_Bsend_init_c, MPI_Ssend_init_c, MPI_Rsend_init_c};
    Send *const sends[] = {MPI_Send_c, MPI_Bsend_c, MPI_Ssend_c, MPI_Rsend_c};
    OK(MPI_Buffer_attach_c(space, room));
    for (int form = 0; form < 12; form++) {
        stamp(form);
        if (form < 8) {
            (form % 2 ? MPI_Irecv(in, N, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[0])
                      : MPI_Irecv_c(in, n, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[0]));
        } else {
            OK(MPI_Recv_init_c(in, n, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[0]));
            OK(MPI_Start(&requests[0]));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* the receive is posted: ready sends may go */
        if (form < 4) {
            OK(sends[form](out, n, MPI_INT, peer, 1, MPI_COMM_WORLD));
        } else if (form < 8) {
            OK(isends[form - 4](out, n, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]));
            OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        } else {
            OK(inits[form - 8](out, n, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[1]));
            OK(MPI_Start(&requests[1]));
            OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&requests[1]));
        }
        OK(MPI_Wait(&requests[0], &status));
        if (form >= 8)
            OK(MPI_Request_free(&requests[0]));
        OK(MPI_Get_count_c(&status, MPI_INT, &count));
        CHECK(count == n, "form %d: count %lld", form, (long long)count);
        arrived(in, peer, form, "point to point");
    }
    MPI_Count given = 0;
    OK(MPI_Buffer_detach_c(&space, &given));
    CHECK(given == room, "detached %lld", (long long)given);
    stamp(20);
    OK(MPI_Isend_c(out, n, MPI_INT, peer, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Mprobe(peer, 2, MPI_COMM_WORLD, &message, &status));
    OK(MPI_Mrecv_c(in, n, MPI_INT, &message, &status));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    arrived(in, peer, 20, "Mrecv_c");
    stamp(21);
    OK(MPI_Sendrecv_c(out, n, MPI_INT, peer, 3, in, n, MPI_INT, peer, 3, MPI_COMM_WORLD, &status));
    arrived(in, peer, 21, "Sendrecv_c");
    OK(MPI_Sendrecv_replace_c(out, n, MPI_INT, peer, 3, peer, 3, MPI_COMM_WORLD, &status));
    arrived(out, peer, 21, "Sendrecv_replace_c");
}

static void types(void)
{
    MPI_Datatype type, again;
    MPI_Count size, lower, extent, position = 0, packed;
    int peer = 1 - my_rank;
    static int bytes[N];
    OK(MPI_Type_vector_c(10, 2, 5, MPI_INT, &type));
    OK(MPI_Type_create_resized_c(type, 0, 400, &again));
    OK(MPI_Type_commit(&again));
    OK(MPI_Type_size_c(again, &size));
    OK(MPI_Type_get_extent_c(again, &lower, &extent));
    CHECK(size == 80 && lower == 0 && extent == 400, "size %lld extent %lld", (long long)size, (long long)extent);
    stamp(1);
    OK(MPI_Pack_size_c(3, again, MPI_COMM_WORLD, &packed));
    CHECK(packed >= 240, "pack size %lld", (long long)packed);
    OK(MPI_Pack_c(out, 3, again, bytes, sizeof bytes, &position, MPI_COMM_WORLD));
    CHECK(position == 240, "position %lld", (long long)position);
    for (int i = 0; i < 60; i++)
        CHECK(bytes[i] == out[i / 20 * 100 + i % 20 / 2 * 5 + i % 2], "packed [%d] = %d", i, bytes[i]);
    OK(MPI_Sendrecv(bytes, 60, MPI_INT, peer, 1, in, 3, again, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 300; i++)
        CHECK(in[i] == (i % 100 < 50 && i % 5 < 2 ? N + i + peer : -1), "placed [%d] = %d", i, in[i]);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&again));
}

static void collectives(void)
{
    MPI_Count counts[2] = {n, n};
    MPI_Aint places[2] = {n, 0};
    stamp(1);
    OK(MPI_Allgather_c(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD));
    arrived(in, 0, 1, "Allgather_c");
    arrived(in + N, 1, 1, "Allgather_c");
    OK(MPI_Allgatherv_c(out, n, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD));
    arrived(in + N, 0, 1, "Allgatherv_c");
    arrived(in, 1, 1, "Allgatherv_c");
    memset(in, -1, sizeof in);
    OK(MPI_Gatherv_c(out, n, MPI_INT, in, counts, places, MPI_INT, 1, MPI_COMM_WORLD));
    if (my_rank == 1)
        arrived(in, 1, 1, "Gatherv_c");
    OK(MPI_Bcast_c(in, 2 * n, MPI_INT, 1, MPI_COMM_WORLD));
    arrived(in + N, 0, 1, "Bcast_c");
    OK(MPI_Scatterv_c(in, counts, places, MPI_INT, out, n, MPI_INT, 1, MPI_COMM_WORLD));
    arrived(out, my_rank, 1, "Scatterv_c");
    OK(MPI_Alltoallv_c(in, counts, places, MPI_INT, in + 2 * N, counts, places, MPI_INT, MPI_COMM_WORLD));
    arrived(in + 2 * N, my_rank, 1, "Alltoallv_c");
    OK(MPI_Allreduce_c(out, in, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    arrived(in, 1, 1, "Allreduce_c");
    OK(MPI_Reduce_c(out, in, n, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD));
    if (my_rank == 0)
        arrived(in, 0, 1, "Reduce_c");
    OK(MPI_Scan_c(out, in, n, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    arrived(in, 0, 1, "Scan_c");
    MPI_Count parts[2] = {3, n - 3};
    OK(MPI_Reduce_scatter_c(out, in, parts, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    for (int i = 0; i < parts[my_rank]; i++)
        CHECK(in[i] == N + i + (my_rank ? 3 : 0) + 1, "Reduce_scatter_c [%d] = %d", i, in[i]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    point_to_point();
    types();
    collectives();
    return finish();
}

/* Claim: Alltoall, Alltoallv and Alltoallw bring block j of rank i to block i of rank j: all counts, MPI_IN_PLACE,
 * uneven counts, zero blocks, and types that differ per partner. */
#include "comms.h"

static int *out, *in, *lengths, *places, *from_lengths, *from_places;

/* Element `i` of what `from` sends to `to`. */
static int item(int from, int to, int i) { return element(from, i) + to * 101; }
/* How much `from` sends to `to`. */
static int length(int from, int to, int unit) { return (from + 2 * to) % 3 == 0 ? 0 : unit * ((from + to) % 3 + 1) / 3; }

static void even(MPI_Comm comm, int rank, int size, int count)
{
    for (int i = 0; i < size * count; i++) {
        out[i] = item(rank, i / count, i % count);
        in[i] = -1;
    }
    OK(MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm));
    for (int i = 0; i < size * count; i++)
        CHECK(in[i] == item(i / count, rank, i % count), "count %d: [%d] = %d", count, i, in[i]);
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, out, count, MPI_INT, comm));
    CHECK(!memcmp(in, out, sizeof(int) * size * count), "in place differs, count %d", count);
}

static void check_uneven(int rank, int size, int unit, const char *name)
{
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < length(r, rank, unit); i++)
            CHECK(in[from_places[r] + i] == item(r, rank, i), "%s unit %d from %d [%d] = %d", name, unit, r, i, in[from_places[r] + i]);
        CHECK(in[from_places[r] + length(r, rank, unit)] == -1, "%s wrote into a gap", name);
    }
}

static void uneven(MPI_Comm comm, int rank, int size, int unit)
{
    int to_at = 0, from_at = 0;
    for (int r = size - 1; r >= 0; r--) {
        lengths[r] = length(rank, r, unit), from_lengths[r] = length(r, rank, unit);
        places[r] = to_at, from_places[r] = from_at;
        to_at += lengths[r] + 1, from_at += from_lengths[r] + 1;
        for (int i = 0; i < lengths[r]; i++)
            out[places[r] + i] = item(rank, r, i);
    }
    memset(in, -1, sizeof(int) * from_at);
    OK(MPI_Alltoallv(out, lengths, places, MPI_INT, in, from_lengths, from_places, MPI_INT, comm));
    check_uneven(rank, size, unit, "alltoallv");
    MPI_Datatype *to_types = need(size * sizeof *to_types), *from_types = need(size * sizeof *from_types);
    for (int r = 0; r < size; r++) { /* bytes to even ranks, ints to odd ones; displacements are bytes */
        to_types[r] = r % 2 ? MPI_INT : MPI_FLOAT;
        from_types[r] = rank % 2 ? MPI_INT : MPI_FLOAT;
        places[r] *= 4, from_places[r] *= 4;
    }
    memset(in, -1, sizeof(int) * from_at);
    OK(MPI_Alltoallw(out, lengths, places, to_types, in, from_lengths, from_places, from_types, comm));
    for (int r = 0; r < size; r++)
        from_places[r] /= 4;
    check_uneven(rank, size, unit, "alltoallw");
    /* in place: what I send to r is as long as what I get from r */
    int at = 0;
    for (int r = 0; r < size; r++) {
        lengths[r] = unit * ((rank + r) % 3) / 2, places[r] = at;
        at += lengths[r] + 1;
        for (int i = 0; i < lengths[r]; i++)
            out[places[r] + i] = item(rank, r, i);
    }
    OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, out, lengths, places, MPI_INT, comm));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < lengths[r]; i++)
            CHECK(out[places[r] + i] == item(r, rank, i), "alltoallv in place from %d [%d]", r, i);
    free(to_types);
    free(from_types);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    size_t room = sizeof(int) * ((size_t)MOST + 2) * n_ranks;
    out = need(room), in = need(room);
    lengths = need(n_ranks * 4), places = need(n_ranks * 4), from_lengths = need(n_ranks * 4), from_places = need(n_ranks * 4);
    MPI_Comm comms[COMMS];
    make_comms(comms);
    for (int k = 0; k < COMMS; k++)
        for (int c = 0; c < COUNTS; c++) {
            int rank, size;
            OK(MPI_Comm_rank(comms[k], &rank));
            OK(MPI_Comm_size(comms[k], &size));
            even(comms[k], rank, size, counts[c]);
            uneven(comms[k], rank, size, counts[c]);
        }
    free_comms(comms);
    return finish();
}

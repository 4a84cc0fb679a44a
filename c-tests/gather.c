/* Claim: Gather, Gatherv, Scatter and Scatterv move every block to its place for every root, count and communicator,
 * with MPI_IN_PLACE at the root, uneven counts, gaps and zero blocks. */
#include "comms.h"

static int *mine, *all;

static void even(MPI_Comm comm, int rank, int size, int root, int count)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int i = 0; i < count; i++)
            mine[i] = element(rank, i);
        for (int i = 0; i < size * count; i++)
            all[i] = -1;
        if (in_place && rank == root) {
            memcpy(all + root * count, mine, count * sizeof(int));
            OK(MPI_Gather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, count, MPI_INT, root, comm));
        } else {
            OK(MPI_Gather(mine, count, MPI_INT, rank == root ? all : NULL, count, MPI_INT, root, comm));
        }
        for (int i = 0; rank == root && i < size * count; i++)
            CHECK(all[i] == element(i / count, i % count), "gather root %d count %d: [%d] = %d", root, count, i, all[i]);
        for (int i = 0; i < count; i++)
            mine[i] = -1;
        if (in_place && rank == root) {
            OK(MPI_Scatter(all, count, MPI_INT, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root, comm));
            memcpy(mine, all + root * count, count * sizeof(int));
        } else {
            OK(MPI_Scatter(rank == root ? all : NULL, count, MPI_INT, mine, count, MPI_INT, root, comm));
        }
        for (int i = 0; i < count; i++)
            CHECK(mine[i] == element(rank, i), "scatter root %d count %d: [%d] = %d", root, count, i, mine[i]);
    }
}

static void uneven(MPI_Comm comm, int rank, int size, int root, int unit)
{
    int *lengths = need(size * sizeof(int)), *places = need(size * sizeof(int)), at = 1;
    for (int r = size - 1; r >= 0; r--) { /* blocks in reverse order, a gap of one between them, some empty */
        lengths[r] = r % 3 == 1 ? 0 : unit * (r % 4 + 1) / 2;
        places[r] = at;
        at += lengths[r] + 1;
    }
    for (int i = 0; i < lengths[rank]; i++)
        mine[i] = element(rank, i);
    for (int i = 0; i < at; i++)
        all[i] = -1;
    OK(MPI_Gatherv(mine, lengths[rank], MPI_INT, all, lengths, places, MPI_INT, root, comm));
    for (int r = 0; rank == root && r < size; r++) {
        for (int i = 0; i < lengths[r]; i++)
            CHECK(all[places[r] + i] == element(r, i), "gatherv root %d from %d [%d]", root, r, i);
        CHECK(all[places[r] + lengths[r]] == -1, "gatherv wrote into a gap");
    }
    for (int i = 0; i <= lengths[rank]; i++)
        mine[i] = -1;
    OK(MPI_Scatterv(all, lengths, places, MPI_INT, mine, lengths[rank], MPI_INT, root, comm));
    for (int i = 0; i < lengths[rank]; i++)
        CHECK(mine[i] == element(rank, i), "scatterv root %d [%d] = %d", root, i, mine[i]);
    CHECK(mine[lengths[rank]] == -1, "scatterv wrote past its block");
    free(lengths);
    free(places);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    mine = need(sizeof(int) * (2 * MOST + 2));
    all = need(sizeof(int) * (2 * (size_t)MOST + 2) * n_ranks);
    MPI_Comm comms[COMMS];
    make_comms(comms);
    for (int k = 0; k < COMMS; k++) {
        int rank, size;
        OK(MPI_Comm_rank(comms[k], &rank));
        OK(MPI_Comm_size(comms[k], &size));
        for (int root = 0; root < size; root++)
            for (int c = 0; c < COUNTS; c++) {
                even(comms[k], rank, size, root, counts[c]);
                uneven(comms[k], rank, size, root, counts[c]);
            }
    }
    free_comms(comms);
    return finish();
}

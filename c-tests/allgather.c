/* Claim: Allgather and Allgatherv give every rank every block in its place: all counts, MPI_IN_PLACE, uneven counts,
 * gaps and zero blocks. */
#include "comms.h"

static int *mine, *all;

int main(int argc, char **argv)
{
    start(&argc, &argv);
    mine = need(sizeof(int) * (2 * MOST + 2));
    all = need(sizeof(int) * (2 * (size_t)MOST + 2) * n_ranks);
    int *lengths = need(n_ranks * sizeof(int)), *places = need(n_ranks * sizeof(int));
    MPI_Comm comms[COMMS];
    make_comms(comms);
    for (int k = 0; k < COMMS; k++)
        for (int c = 0; c < COUNTS; c++)
            for (int in_place = 0; in_place < 2; in_place++) {
                int rank, size, count = counts[c], at = 0;
                OK(MPI_Comm_rank(comms[k], &rank));
                OK(MPI_Comm_size(comms[k], &size));
                for (int i = 0; i < 2 * count; i++)
                    mine[i] = element(rank, i);
                for (int i = 0; i < size * count; i++)
                    all[i] = in_place && i / count == rank ? element(rank, i % count) : -1;
                if (in_place)
                    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, comms[k]));
                else
                    OK(MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, comms[k]));
                for (int i = 0; i < size * count; i++)
                    CHECK(all[i] == element(i / count, i % count), "count %d: [%d] = %d", count, i, all[i]);
                for (int r = size - 1; r >= 0; r--) {
                    lengths[r] = r % 3 == 1 ? 0 : count * (r % 4 + 1) / 2;
                    places[r] = at;
                    at += lengths[r] + 1;
                }
                for (int i = 0; i < at; i++)
                    all[i] = -1;
                for (int i = 0; in_place && i < lengths[rank]; i++)
                    all[places[rank] + i] = element(rank, i);
                if (in_place)
                    OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, lengths, places, MPI_INT, comms[k]));
                else
                    OK(MPI_Allgatherv(mine, lengths[rank], MPI_INT, all, lengths, places, MPI_INT, comms[k]));
                for (int r = 0; r < size; r++) {
                    for (int i = 0; i < lengths[r]; i++)
                        CHECK(all[places[r] + i] == element(r, i), "allgatherv from %d [%d]", r, i);
                    CHECK(all[places[r] + lengths[r]] == -1, "allgatherv wrote into a gap");
                }
            }
    free_comms(comms);
    return finish();
}

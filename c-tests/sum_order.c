/* Claim: MPI_Reduce of ranks that use boards adds up in one order, from the last rank down, whatever the length and the root: the
 * same bits. */
#include "check.h"

/* Of very different sizes, so that any other order rounds differently. */
static double term(int who, int i)
{
    double value = 1 + who / 3.0 + i % 11 / 7.0;
    for (int k = (who * 7 + i) % 13; k > 0; k--)
        value *= 17;
    return (who + i) % 2 ? -value : value;
}

static double total(int i)
{
    double sum = term(n_ranks - 1, i);
    for (int who = n_ranks - 2; who >= 0; who--)
        sum = term(who, i) + sum;
    return sum;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static const int counts[] = {1, 7, 900, 5000, 40000, 70001, 300001};
    double *mine = need(300001 * sizeof *mine), *got = need(300001 * sizeof *got);
    for (int k = 0; k < 7; k++)
        for (int root = 0; root < n_ranks; root++) {
            int n = counts[k], in_place = (k + root) % 2;
            for (int i = 0; i < n; i++)
                (in_place && my_rank == root ? got : mine)[i] = term(my_rank, i);
            OK(MPI_Reduce(in_place && my_rank == root ? MPI_IN_PLACE : mine, got, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD));
            for (int i = 0; i < n && my_rank == root; i++) {
                double want = total(i);
                CHECK(!memcmp(&got[i], &want, sizeof want), "%d elements to %d, element %d: %a, expected %a", n, root, i, got[i], want);
            }
        }
    free(mine);
    free(got);
    return finish();
}

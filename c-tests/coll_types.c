/* Claim: collectives take derived types on either side: rows sent, columns received (a distributed transpose by
 * Alltoall), strided Gather and Scatter, resized Allgather; gaps keep their bytes. */
#include "check.h"

enum { BLOCK = 6 };

/* Each rank holds BLOCK rows of an n x n matrix; afterwards BLOCK rows of its transpose. */
static void transpose(void)
{
    int n = BLOCK * n_ranks;
    int *a = need(sizeof(int) * BLOCK * n), *b = need(sizeof(int) * BLOCK * n);
    MPI_Datatype column, columns, row_part, rows;
    for (int i = 0; i < BLOCK * n; i++) {
        a[i] = (my_rank * BLOCK + i / n) * 10000 + i % n;
        b[i] = -1;
    }
    OK(MPI_Type_vector(BLOCK, 1, n, MPI_INT, &column)); /* one column of my block */
    OK(MPI_Type_create_resized(column, 0, sizeof(int), &columns));
    OK(MPI_Type_contiguous(BLOCK, columns, &column)); /* BLOCK columns, column after column */
    OK(MPI_Type_commit(&column));
    OK(MPI_Type_vector(BLOCK, BLOCK, n, MPI_INT, &row_part));
    OK(MPI_Type_create_resized(row_part, 0, BLOCK * sizeof(int), &rows));
    OK(MPI_Type_commit(&rows));
    OK(MPI_Alltoall(a, 1, column, b, 1, rows, MPI_COMM_WORLD));
    for (int i = 0; i < BLOCK * n; i++)
        CHECK(b[i] == (i % n) * 10000 + my_rank * BLOCK + i / n, "transposed [%d][%d] = %d", i / n, i % n, b[i]);
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&rows));
    free(a);
    free(b);
}

/* Rank r's block becomes column r of a table, by Gather, Allgather and back by Scatter. */
static void columns(int length)
{
    int n = n_ranks;
    int *mine = need(sizeof(int) * length), *table = need(sizeof(int) * length * (n + 1)), *back = need(sizeof(int) * length);
    MPI_Datatype raw, column;
    OK(MPI_Type_vector(length, 1, n + 1, MPI_INT, &raw)); /* the last column of the table belongs to nobody */
    OK(MPI_Type_create_resized(raw, 0, sizeof(int), &column));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < length; i++)
        mine[i] = my_rank * 1000000 + i;
    for (int way = 0; way <= n; way++) { /* every root, then all */
        for (int i = 0; i < length * (n + 1); i++)
            table[i] = -1;
        if (way < n)
            OK(MPI_Gather(mine, length, MPI_INT, table, 1, column, way, MPI_COMM_WORLD));
        else
            OK(MPI_Allgather(mine, length, MPI_INT, table, 1, column, MPI_COMM_WORLD));
        if (way == my_rank || way == n)
            for (int i = 0; i < length * (n + 1); i++)
                CHECK(table[i] == (i % (n + 1) == n ? -1 : i % (n + 1) * 1000000 + i / (n + 1)), "table[%d] = %d", i, table[i]);
        if (way < n) {
            memset(back, -1, sizeof(int) * length);
            OK(MPI_Scatter(table, 1, column, back, length, MPI_INT, way, MPI_COMM_WORLD));
            CHECK(!memcmp(back, mine, sizeof(int) * length), "scatter of columns, root %d", way);
        }
    }
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&raw));
    free(mine);
    free(table);
    free(back);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    transpose();
    columns(1);
    columns(50);
    columns(3000);
    columns(40000);
    return finish();
}

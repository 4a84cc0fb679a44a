/* Claim: a 2-D Jacobi solver that swaps halos with four neighbours (rows plain, columns by MPI_Type_vector,
 * MPI_PROC_NULL at the rim, nonblocking or persistent) gives bit for bit the field of a serial run.
 * Arguments: grid side (default 256), steps (default 200). */
#include "check.h"

static int side, steps;

static double boundary(int i, int j) { return i == 0 ? 100.0 : j == 0 ? 75.0 : i == side + 1 ? 10.0 : (double)(i % 17); }

/* Cells first..last of `parts` equal shares of the side, counted from 1. */
static int share(int part, int parts) { return side * part / parts + 1; }

static void relax(const double *old, double *new, int rows, int columns)
{
    int width = columns + 2;
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= columns; j++)
            new[i * width + j] = 0.25 * ((old[(i - 1) * width + j] + old[(i + 1) * width + j]) + (old[i * width + j - 1] + old[i * width + j + 1]));
}

static void initial(double *field, int top, int left, int rows, int columns)
{
    for (int i = 0; i <= rows + 1; i++)
        for (int j = 0; j <= columns + 1; j++) {
            int y = top - 1 + i, x = left - 1 + j;
            field[i * (columns + 2) + j] = y == 0 || x == 0 || y == side + 1 || x == side + 1 ? boundary(y, x) : 0.0;
        }
}

static uint64_t hash(uint64_t sum, double value, int y, int x)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return sum + bits * (2ull * ((uint64_t)y * 131071 + x) + 1);
}

/* Persistent requests for one field: receive into the rim, send the outermost own cells, on four sides. */
static int make_halo(double *field, int rows, int columns, const int *neighbour, MPI_Datatype column, MPI_Request *requests)
{
    int width = columns + 2, n = 0;
    struct { double *in, *out; int count; MPI_Datatype type; } sides[4] = {
        {field + 1, field + width + 1, columns, MPI_DOUBLE},
        {field + (rows + 1) * width + 1, field + rows * width + 1, columns, MPI_DOUBLE},
        {field + width, field + width + 1, 1, column},
        {field + width + columns + 1, field + width + columns, 1, column}};
    for (int s = 0; s < 4; s++) { /* what goes up arrives from below: the tag is the direction of travel */
        OK(MPI_Recv_init(sides[s].in, sides[s].count, sides[s].type, neighbour[s], s ^ 1, MPI_COMM_WORLD, &requests[n++]));
        OK(MPI_Send_init(sides[s].out, sides[s].count, sides[s].type, neighbour[s], s, MPI_COMM_WORLD, &requests[n++]));
    }
    return n;
}

static uint64_t serial_hash(void)
{
    double *a = need(sizeof(double) * (side + 2) * (side + 2)), *b = need(sizeof(double) * (side + 2) * (side + 2));
    initial(a, 1, 1, side, side);
    initial(b, 1, 1, side, side);
    for (int step = 0; step < steps; step++) {
        relax(a, b, side, side);
        double *swap = a;
        a = b, b = swap;
    }
    uint64_t sum = 0;
    for (int y = 1; y <= side; y++)
        for (int x = 1; x <= side; x++)
            sum = hash(sum, a[y * (side + 2) + x], y, x);
    free(a), free(b);
    return sum;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    side = argc > 1 ? atoi(argv[1]) : 256;
    steps = argc > 2 ? atoi(argv[2]) : 200;
    int down = n_ranks; /* the most square grid of ranks */
    for (int d = 1; d * d <= n_ranks; d++)
        if (n_ranks % d == 0)
            down = n_ranks / d;
    int across = n_ranks / down, y = my_rank / across, x = my_rank % across;
    int top = share(y, down), left = share(x, across), rows = share(y + 1, down) - top, columns = share(x + 1, across) - left;
    int neighbour[4] = {y ? my_rank - across : MPI_PROC_NULL, y + 1 < down ? my_rank + across : MPI_PROC_NULL,
                        x ? my_rank - 1 : MPI_PROC_NULL, x + 1 < across ? my_rank + 1 : MPI_PROC_NULL};
    size_t cells = (size_t)(rows + 2) * (columns + 2);
    double *fields[2] = {need(cells * sizeof(double)), need(cells * sizeof(double))}, change = 0;
    MPI_Datatype column;
    MPI_Request halos[2][8];
    OK(MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column));
    OK(MPI_Type_commit(&column));
    for (int k = 0; k < 2; k++) {
        initial(fields[k], top, left, rows, columns);
        make_halo(fields[k], rows, columns, neighbour, column, halos[k]);
    }
    double begin = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        double *old = fields[step % 2], *new = fields[1 - step % 2], local = 0;
        OK(MPI_Startall(8, halos[step % 2]));
        OK(MPI_Waitall(8, halos[step % 2], MPI_STATUSES_IGNORE));
        relax(old, new, rows, columns);
        if (step % 50 == 0 || step == steps - 1) {
            for (size_t i = 0; i < cells; i++)
                local = local > new[i] - old[i] ? local : new[i] - old[i];
            OK(MPI_Allreduce(&local, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        }
    }
    double took = MPI_Wtime() - begin;
    uint64_t sum = 0, whole = 0;
    for (int i = 1; i <= rows; i++)
        for (int j = 1; j <= columns; j++)
            sum = hash(sum, fields[steps % 2][i * (columns + 2) + j], top - 1 + i, left - 1 + j);
    OK(MPI_Reduce(&sum, &whole, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
    if (my_rank == 0) {
        uint64_t want = serial_hash();
        CHECK(whole == want, "field %016llx, serial %016llx", (unsigned long long)whole, (unsigned long long)want);
        printf("answer: jacobi side %d steps %d field %016llx change %.17g\n", side, steps, (unsigned long long)whole, change);
        printf("jacobi: %d x %d ranks, %.6f s\n", down, across, took);
    }
    for (int k = 0; k < 8; k++) {
        OK(MPI_Request_free(&halos[0][k]));
        OK(MPI_Request_free(&halos[1][k]));
    }
    OK(MPI_Type_free(&column));
    return finish();
}

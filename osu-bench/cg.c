/* Conjugate gradient: solves the five-point Laplace equation on a square grid, split by rows: halo rows by MPI_Isend and
 * MPI_Irecv, two MPI_Allreduce of one double an iteration. Milliseconds for 25 iterations against the grid's width; -c
 * compares the residual with what one rank alone gets. Own code. */
#include "common.h"
#include <math.h>

enum { STEPS = 25 };

typedef struct {
    size_t width, rows; /* rows of this rank; each vector has one more on either side */
    double *x, *r, *p, *q;
    MPI_Comm comm;
    int me, all;
} Grid;

static double dot(const Grid *g, const double *a, const double *b)
{
    double mine = 0, sum;
    for (size_t i = g->width; i < (g->rows + 1) * g->width; i++)
        mine += a[i] * b[i];
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, g->comm);
    return sum;
}

static void halo(const Grid *g, double *v)
{
    int up = g->me > 0 ? g->me - 1 : MPI_PROC_NULL, down = g->me < g->all - 1 ? g->me + 1 : MPI_PROC_NULL, n = (int)g->width;
    MPI_Request four[4];
    MPI_Irecv(v, n, MPI_DOUBLE, up, 1, g->comm, &four[0]);
    MPI_Irecv(v + (g->rows + 1) * g->width, n, MPI_DOUBLE, down, 2, g->comm, &four[1]);
    MPI_Isend(v + g->width, n, MPI_DOUBLE, up, 2, g->comm, &four[2]);
    MPI_Isend(v + g->rows * g->width, n, MPI_DOUBLE, down, 1, g->comm, &four[3]);
    MPI_Waitall(4, four, MPI_STATUSES_IGNORE);
}

static void apply(const Grid *g, const double *v, double *out)
{
    size_t w = g->width;
    for (size_t i = 1; i <= g->rows; i++)
        for (size_t j = 0; j < w; j++) {
            const double *at = v + i * w + j;
            out[i * w + j] = 4 * at[0] - at[-(long)w] - at[w] - (j ? at[-1] : 0) - (j < w - 1 ? at[1] : 0);
        }
}

/* STEPS iterations from zero for a right-hand side of ones; -> the residual's square. */
static double solve(Grid *g)
{
    size_t all = (g->rows + 2) * g->width;
    memset(g->x, 0, all * sizeof(double));
    memset(g->p, 0, all * sizeof(double));
    memset(g->r, 0, all * sizeof(double));
    for (size_t i = g->width; i < (g->rows + 1) * g->width; i++)
        g->r[i] = g->p[i] = 1;
    double rr = dot(g, g->r, g->r);
    for (int step = 0; step < STEPS; step++) {
        halo(g, g->p);
        apply(g, g->p, g->q);
        double alpha = rr / dot(g, g->p, g->q), before = rr;
        for (size_t i = g->width; i < (g->rows + 1) * g->width; i++) {
            g->x[i] += alpha * g->p[i];
            g->r[i] -= alpha * g->q[i];
        }
        rr = dot(g, g->r, g->r);
        for (size_t i = g->width; i < (g->rows + 1) * g->width; i++)
            g->p[i] = g->r[i] + rr / before * g->p[i];
    }
    return rr;
}

static Grid grid(size_t width, MPI_Comm comm)
{
    Grid g = {.width = width, .comm = comm};
    MPI_Comm_rank(comm, &g.me);
    MPI_Comm_size(comm, &g.all);
    g.rows = width * (size_t)(g.me + 1) / (size_t)g.all - width * (size_t)g.me / (size_t)g.all;
    double **all[] = {&g.x, &g.r, &g.p, &g.q};
    for (int i = 0; i < 4; i++)
        *all[i] = buffer((g.rows + 2) * width * sizeof(double));
    return g;
}

static void drop(Grid *g)
{
    free(g->x);
    free(g->r);
    free(g->p);
    free(g->q);
}

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Conjugate Gradient Test", "Width      Time(ms)", NULL, "mixc",
        {.min = 64, .max = 1024, .iterations = 10, .iterations_large = 10, .warmup = 1, .warmup_large = 1, .unit = "points of the grid's side"}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    for (size_t width = options.min; width <= options.max; width = next_size(width)) {
        if (width < (size_t)ranks) /* halo rows need a row on every rank */
            continue;
        Grid g = grid(width, MPI_COMM_WORLD);
        int skip = warmup(width), n = iterations(width);
        double from = 0, left = 0;
        for (int i = 0; i < skip + n; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (i == skip)
                from = MPI_Wtime();
            left = solve(&g);
        }
        double took = (MPI_Wtime() - from) * 1e3 / n;
        if (options.validate) {
            Grid alone = grid(width, MPI_COMM_SELF);
            double right = solve(&alone);
            wrong += !(fabs(left - right) <= 1e-9 * fabs(right));
            drop(&alone);
        }
        row(width, &took, 1);
        drop(&g);
    }
    return end();
}

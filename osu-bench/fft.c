/* Two-dimensional Fourier transform of a square of complex numbers, split by rows: transform the rows, transpose by
 * MPI_Alltoall of blocks, transform again. Milliseconds against the square's side, a power of two that the ranks divide;
 * -c transforms back and compares. Own code. */
#include "common.h"
#include <complex.h>
#include <math.h>

typedef double complex C;

/* One row in place, radix 2; `sign` -1 forward, 1 back (not scaled). `root`: the n-th roots of one. */
static void transform(C *a, size_t n, int sign, const C *root)
{
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            C kept = a[i];
            a[i] = a[j];
            a[j] = kept;
        }
    }
    for (size_t half = 1; half < n; half *= 2)
        for (size_t i = 0; i < n; i += 2 * half)
            for (size_t k = 0; k < half; k++) {
                C w = root[k * (n / (2 * half))], *low = &a[i + k], *high = &a[i + k + half];
                C odd = *high * (sign < 0 ? conj(w) : w);
                *high = *low - odd;
                *low += odd;
            }
}

/* Rows of the transposed square: blocks packed for each rank, exchanged, and turned while they are taken out. */
static void transpose(C *a, C *packed, C *came, size_t n, size_t rows)
{
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < rows; i++)
            memcpy(packed + ((size_t)r * rows + i) * rows, a + i * n + (size_t)r * rows, rows * sizeof(C));
    int count = (int)(rows * rows);
    MPI_Alltoall(packed, count, MPI_C_DOUBLE_COMPLEX, came, count, MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < rows; j++)
                a[i * n + (size_t)r * rows + j] = came[((size_t)r * rows + j) * rows + i];
}

static void square(C *a, C *packed, C *came, size_t n, size_t rows, int sign, const C *root)
{
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < rows; i++)
            transform(a + i * n, n, sign, root);
        transpose(a, packed, came, n, rows);
    }
}

static C start(size_t i, size_t j) { return (double)((i * 7 + j * 3) % 11) + I * (double)((i + 5 * j) % 7); }

int main(int argc, char **argv)
{
    static const Benchmark benchmark = {
        "MPI Fourier Transform Test", "Side       Time(ms)", NULL, "mixc",
        {.min = 64, .max = 1024, .iterations = 10, .iterations_large = 10, .warmup = 1, .warmup_large = 1, .unit = "points of the square's side"}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    for (size_t n = options.min; n <= options.max; n = next_size(n)) {
        if (n % (size_t)ranks || (n & (n - 1)) || n == 0)
            continue;
        size_t rows = n / (size_t)ranks;
        C *a = buffer(n * rows * sizeof(C)), *packed = buffer(n * rows * sizeof(C)), *came = buffer(n * rows * sizeof(C)), *root = buffer(n * sizeof(C));
        for (size_t k = 0; k < n; k++)
            root[k] = cexp(2 * M_PI * I * (double)k / (double)n);
        int skip = warmup(n), times = iterations(n);
        double from = 0, spent = 0;
        for (int i = 0; i < skip + times; i++) {
            for (size_t y = 0; y < rows; y++)
                for (size_t x = 0; x < n; x++)
                    a[y * n + x] = start(rows * (size_t)rank + y, x);
            MPI_Barrier(MPI_COMM_WORLD);
            from = MPI_Wtime();
            square(a, packed, came, n, rows, -1, root);
            spent += i < skip ? 0 : MPI_Wtime() - from;
        }
        if (options.validate) {
            square(a, packed, came, n, rows, 1, root);
            for (size_t y = 0; y < rows && !wrong; y++)
                for (size_t x = 0; x < n; x++)
                    wrong += cabs(a[y * n + x] / (double)(n * n) - start(rows * (size_t)rank + y, x)) > 1e-9;
        }
        spent = spent * 1e3 / times;
        row(n, &spent, 1);
        free(a);
        free(packed);
        free(came);
        free(root);
    }
    return end();
}

/* How long MPI_Init takes: minimum, maximum and mean over the ranks, in milliseconds. With --barrier up to the end of
 * the first MPI_Barrier: a library may put off what it does until then. --version names the library instead. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    int barrier = argc > 1 && !strcmp(argv[1], "--barrier");
    double from = now();
    MPI_Init(&argc, &argv);
    if (barrier)
        MPI_Barrier(MPI_COMM_WORLD);
    double took = now() - from, least, most, sum;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && !strcmp(argv[1], "--version")) {
        char text[MPI_MAX_LIBRARY_VERSION_STRING];
        int length;
        MPI_Get_library_version(text, &length);
        if (rank == 0)
            printf("%s\n", text);
        MPI_Finalize();
        return 0;
    }
    int help = argc > 1 && (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help"));
    MPI_Reduce(&took, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0 && help)
        printf("%s: MPI Init Test; --barrier: up to the end of the first MPI_Barrier\n", argv[0]);
    else if (rank == 0)
        printf("\n# OSU MPI Init Test v7.0 (nearmpi's own program, same output)%s\nnprocs: %d, min: %.2f ms, max: %.2f ms, avg: %.2f ms\n",
               barrier ? "\n# up to the first barrier" : "", ranks, least, most, sum / ranks);
    MPI_Finalize();
    return 0;
}

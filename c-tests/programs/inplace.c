/* Compiled with another MPI's mpicc and run on this library: sends, reduces, gathers, and says which MPI
 * library is mapped. With the argument "abort" rank 1 ends the job with code 7 while the others wait. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies the path of the one MPI library mapped into this process, or "two libraries" if there is another. */
static void mapped_library(char *path, size_t size) {
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    snprintf(path, size, "no library");
    while (maps && fgets(line, sizeof line, maps)) {
        char *file = strchr(line, '/');
        if (!file) continue;
        file[strcspn(file, "\n")] = 0;
        char *name = strrchr(file, '/') + 1;
        if (strncmp(name, "libmpi.so", 9) && strncmp(name, "libmpich.so", 11)) continue;
        if (strcmp(path, "no library") && strcmp(path, file)) snprintf(path, size, "two libraries");
        else snprintf(path, size, "%s", file);
    }
    if (maps) fclose(maps);
}

/* Passes blocks of several sizes around the ring; returns the number of wrong bytes. */
static long ring(int rank, int ranks) {
    static const int sizes[] = {0, 1, 48, 4096, 70000, 3000000};
    long wrong = 0;
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int n = sizes[s], got;
        unsigned char *out = malloc(n + 1), *in = calloc(n + 1, 1);
        MPI_Status status;
        for (int i = 0; i < n; i++) out[i] = (unsigned char)(i * 7 + rank);
        MPI_Sendrecv(out, n, MPI_BYTE, right, 5, in, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        wrong += got != n || status.MPI_SOURCE != left || status.MPI_TAG != 5;
        for (int i = 0; i < n; i++) wrong += in[i] != (unsigned char)(i * 7 + left);
        MPI_Barrier(MPI_COMM_WORLD); /* ANY_SOURCE must not see the next size */
        free(out);
        free(in);
    }
    return wrong;
}

int main(int argc, char **argv) {
    int rank, ranks, code = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1 && !strcmp(argv[1], "abort")) {
        if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 7);
        MPI_Recv(&code, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return 1;
    }
    long wrong = ring(rank, ranks), sum = -1, mine = rank + 1;
    double half[2] = {rank * 0.5, -rank}, most[2];
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(half, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    wrong += sum != (long)ranks * (ranks + 1) / 2 || most[0] != (ranks - 1) * 0.5 || most[1] != 0;
    int *all = calloc(ranks, sizeof *all);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) wrong += all[i] != i;
    free(all);
    char path[4096];
    mapped_library(path, sizeof path);
    printf("rank %d of %d: %s, on %s\n", rank, ranks, wrong ? "WRONG" : "right", path);
    fflush(stdout);
    MPI_Finalize();
    return wrong != 0;
}

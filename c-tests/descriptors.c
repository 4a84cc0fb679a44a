/* Claim: a program that closes all descriptors but the first three after MPI_Init, and opens files of its own, finds these as it
 * wrote them: messages go on, and what would need the job's memory anew is an error or goes another way. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { BYTES = 1 << 20, COPIES = 60 };

int main(int argc, char **argv)
{
    start(&argc, &argv);
    static unsigned char block[BYTES], seen[BYTES];
    int peer = n_ranks - 1 - my_rank;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int number = 3; number < 256; number++)
        close(number);
    int file = memfd_create("the program's", 0);
    fill(block, BYTES, my_rank);
    CHECK(file >= 0 && write(file, block, BYTES) == BYTES && ftruncate(file, 8L << 40) == 0, "no file of its own");
    int last = file;
    for (int i = 0; i < COPIES; i++)
        CHECK((last = dup(file)) >= 0, "no copy");

    unsigned char *memory = NULL;
    MPI_Win window;
    MPI_Comm started;
    if (MPI_Alloc_mem(8 * BYTES, MPI_INFO_NULL, &memory) == MPI_SUCCESS) {
        memset(memory, 0xEE, 8 * BYTES);
        OK(MPI_Free_mem(memory));
    }
    FAILS(MPI_ERR_NO_MEM, MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    FAILS(MPI_ERR_SPAWN, MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &started, MPI_ERRCODES_IGNORE));
    for (int length = 1; length <= BYTES; length *= 4) {
        OK(MPI_Sendrecv(block, length, MPI_BYTE, peer, 1, seen, length, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_BYTES(seen, length, peer);
    }

    struct stat about;
    CHECK(fstat(file, &about) == 0 && about.st_size == 8L << 40, "the file has %lld bytes", (long long)about.st_size);
    CHECK(pread(file, seen, BYTES, 0) == BYTES, "the file cannot be read");
    CHECK_BYTES(seen, BYTES, my_rank);
    CHECK(about.st_blocks <= 2 * BYTES / 512, "the file holds %lld blocks", (long long)about.st_blocks);
    finish();
    for (int number = file; number <= last; number++)
        if (fcntl(number, F_GETFD) < 0) {
            fprintf(stderr, "rank %d: descriptor %d, the program's own, is closed\n", my_rank, number);
            return 1;
        }
    return 0;
}

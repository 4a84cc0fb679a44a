/* Claim: Alloc_mem gives memory of any size that can be written, sent from and received into, and freed; with the
 * argument `strict`, too much gives MPI_ERR_NO_MEM. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int peer = n_ranks - 1 - my_rank;
    for (MPI_Aint size = 1; size <= 1 << 25; size *= 8) {
        unsigned char *out = NULL, *in = NULL;
        OK(MPI_Alloc_mem(size, MPI_INFO_NULL, &out));
        OK(MPI_Alloc_mem(size, MPI_INFO_NULL, &in));
        CHECK(out && in && out != in && (uintptr_t)out % 8 == 0, "%p %p", (void *)out, (void *)in);
        fill(out, size, my_rank);
        OK(MPI_Sendrecv(out, size, MPI_BYTE, peer, 1, in, size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_BYTES(in, size, peer);
        OK(MPI_Free_mem(out));
        OK(MPI_Free_mem(in));
    }
    void *much;
    if (argc > 1) /* strict */
        FAILS(MPI_ERR_NO_MEM, MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &much));
    return finish();
}

/* Claim: a preloaded tool that defines MPI_Send sees each of the program's sends once and none of the library's own
 * (collectives never call an MPI_ function by its public name), and PMPI_ names bypass it. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

static int seen(const char *name)
{
    int *counter = dlsym(RTLD_DEFAULT, name);
    CHECK(counter != NULL, "the tool is not loaded: no %s", name);
    return *counter;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int peer = 1 - my_rank, value = my_rank, sum = 0;
    CHECK(seen("tool_inits") == 1, "%d inits", seen("tool_inits"));
    for (int i = 0; i < 25; i++) {
        if (my_rank == 0)
            OK(MPI_Send(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD));
        else
            OK(MPI_Recv(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    CHECK(seen("tool_sends") == (my_rank ? 0 : 25), "%d sends seen", seen("tool_sends"));
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD));
    OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, peer, 2, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (my_rank == 0)
        OK(PMPI_Send(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD));
    else
        OK(MPI_Recv(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(seen("tool_sends") == (my_rank ? 0 : 25), "%d sends seen after calls that are not MPI_Send", seen("tool_sends"));
    MPI_Comm twin;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    OK(MPI_Comm_free(&twin));
    CHECK(seen("tool_barriers") == 0, "%d barriers seen, none made", seen("tool_barriers"));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(seen("tool_barriers") == 1, "%d barriers seen", seen("tool_barriers"));
    return finish();
}

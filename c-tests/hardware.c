/* Claim: MPI_Comm_split_type divides a communicator by the hardware its processes are confined to, and a reordered grid
 * or graph keeps neighbours together. Ranks bind themselves to two CPUs in turn, if there are two. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>

static int confine(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < 2)
        return 0;
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE && seen < 2; cpu++)
        if (CPU_ISSET(cpu, &all) && seen++ == my_rank % 2)
            CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

static MPI_Comm part(int type, const char *key, const char *value, MPI_Info *told)
{
    MPI_Comm new;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    if (key)
        OK(MPI_Info_set(info, key, value));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, info, &new));
    if (told)
        *told = info;
    else
        OK(MPI_Info_free(&info));
    return new;
}

static int size_of(MPI_Comm comm)
{
    int size = 0;
    if (comm != MPI_COMM_NULL) {
        OK(MPI_Comm_size(comm, &size));
        OK(MPI_Comm_free(&comm));
    }
    return size;
}

/* Sends the old rank around to each neighbour, and checks that what comes is from the neighbour. */
static void neighbours_work(MPI_Comm comm, int n)
{
    int mine = my_rank, theirs[8];
    OK(MPI_Neighbor_allgather(&mine, 1, MPI_INT, theirs, 1, MPI_INT, comm));
    int rank, all[64];
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm));
    (void)n;
    if (n == 2) { /* A ring: before, after. */
        CHECK(theirs[0] == all[(rank + n_ranks - 1) % n_ranks], "before me is %d", theirs[0]);
        CHECK(theirs[1] == all[(rank + 1) % n_ranks], "after me is %d", theirs[1]);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int half = (n_ranks + (my_rank % 2 == 0)) / 2, here = confine(), confined = 0;
    OK(MPI_Allreduce(&here, &confined, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    CHECK(size_of(part(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "mpi_shared_memory", NULL)) == n_ranks, "machine");
    CHECK(size_of(part(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF", NULL)) == 1, "set of one");
    CHECK(size_of(part(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD", NULL)) == n_ranks, "set of all");
    CHECK(size_of(part(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "no such thing", NULL)) == 0, "unknown");
    CHECK(size_of(part(MPI_COMM_TYPE_HW_GUIDED, NULL, NULL, NULL)) == 0, "no type");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm some = part(my_rank ? MPI_COMM_TYPE_HW_UNGUIDED : MPI_UNDEFINED, NULL, NULL, NULL);
    CHECK(my_rank || some == MPI_COMM_NULL, "part of those who want none");
    CHECK(size_of(some) < n_ranks, "whom nobody asked is in a part");
    CHECK(size_of(part(MPIX_COMM_TYPE_NEIGHBORHOOD, "nbhd_common_dirname", "/proc/.", NULL)) == n_ranks, "one directory");
    CHECK(size_of(part(MPIX_COMM_TYPE_NEIGHBORHOOD, "nbhd_common_dirname", my_rank % 2 ? "/proc" : "/", NULL)) == half, "two");
    CHECK(size_of(part(MPIX_COMM_TYPE_NEIGHBORHOOD, "nbhd_common_dirname", "/no such place", NULL)) == 0, "no directory");
    if (confined) {
        CHECK(size_of(part(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://PU", NULL)) == half, "CPU");
        MPI_Info told;
        MPI_Comm new = part(MPI_COMM_TYPE_HW_UNGUIDED, NULL, NULL, &told);
        char name[64] = "";
        int flag;
        OK(MPI_Info_get(told, "mpi_hw_resource_type", 63, name, &flag));
        OK(MPI_Info_free(&told));
        CHECK(n_ranks == 1 ? new == MPI_COMM_NULL : flag, "the outermost that divides: \"%s\"", name);
        CHECK(n_ranks == 1 || size_of(new) == half, "%s", name);
        MPI_Info all;
        OK(MPI_Get_hw_resource_info(&all));
        OK(MPI_Info_get(all, "hwloc://PU", 63, name, &flag));
        CHECK(flag && !strcmp(name, "true"), "confined to a CPU: %s", name);
        OK(MPI_Info_free(&all));
    }

    MPI_Comm cart, graph;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n_ranks, (int[]){1}, 1, &cart));
    neighbours_work(cart, 2);
    int rank, before = (my_rank + n_ranks - 1) % n_ranks, after = (my_rank + 1) % n_ranks;
    if (confined && n_ranks >= 4 && n_ranks % 2 == 0) {
        /* Ranks alternate between CPUs; if these share less than all, half of the ring goes to each. */
        MPI_Comm together = part(MPI_COMM_TYPE_HW_UNGUIDED, NULL, NULL, NULL);
        int parity[64], mine = my_rank % 2, changes = 0;
        OK(MPI_Allgather(&mine, 1, MPI_INT, parity, 1, MPI_INT, cart));
        for (int i = 0; i < n_ranks; i++)
            changes += parity[i] != parity[(i + 1) % n_ranks];
        OK(MPI_Comm_rank(cart, &rank));
        CHECK(changes == 2 || changes == n_ranks, "%d edges of the ring change the CPU", changes);
        OK(MPI_Comm_free(&together));
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, (int[]){before, after}, MPI_UNWEIGHTED, 2, (int[]){before, after},
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &graph));
    neighbours_work(graph, 2);
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &my_rank, (int[]){1}, &after, (int[]){3}, MPI_INFO_NULL, 1, &graph));
    int sources = 0, ends = 0, weighted, source = -1, end = -1, weight[2];
    OK(MPI_Dist_graph_neighbors_count(graph, &sources, &ends, &weighted));
    CHECK(sources == 1 && ends == 1 && weighted, "%d sources, %d destinations", sources, ends);
    OK(MPI_Dist_graph_neighbors(graph, 1, &source, weight, 1, &end, weight + 1));
    OK(MPI_Comm_rank(graph, &rank));
    CHECK(source == (rank + n_ranks - 1) % n_ranks && end == (rank + 1) % n_ranks && weight[1] == 3, "%d to %d", source, end);
    OK(MPI_Comm_free(&graph));
    OK(MPI_Comm_free(&cart));
    return finish();
}

/* Claim: communicators, groups, datatypes, requests, info objects, windows of attributes and error handlers that are
 * freed leave nothing behind: thousands of rounds need no more memory than the first few. */
#include "check.h"

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size, &resident) == 2, "no /proc/self/statm");
    fclose(file);
    return resident;
}

static int ignore(MPI_Comm comm, int key, void *value, void *state)
{
    return (void)comm, (void)key, (void)value, (void)state, MPI_SUCCESS;
}
static void quiet(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }

static void round_of_objects(int round)
{
    MPI_Comm dup, half, cart, later, inter = MPI_COMM_NULL, merged;
    MPI_Group group, part;
    MPI_Info info;
    MPI_Datatype vector, again;
    MPI_Errhandler handler;
    MPI_Request request;
    int key, buffer[2] = {round, 0};
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "round", "and round"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &dup));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, ignore, &key, NULL));
    OK(MPI_Comm_set_attr(dup, key, buffer));
    OK(MPI_Comm_create_errhandler(quiet, &handler));
    OK(MPI_Comm_set_errhandler(dup, handler));
    OK(MPI_Comm_set_name(dup, "a name"));
    OK(MPI_Comm_split(dup, my_rank % 2, my_rank, &half));
    OK(MPI_Cart_create(dup, 1, &n_ranks, (int[]){1}, 0, &cart));
    OK(MPI_Comm_idup(dup, &later, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_group(half, &group));
    OK(MPI_Group_incl(group, 1, (int[]){0}, &part));
    if (n_ranks > 1) {
        OK(MPI_Intercomm_create(half, 0, dup, 1 - my_rank % 2, 3, &inter));
        OK(MPI_Intercomm_merge(inter, my_rank % 2, &merged));
        OK(MPI_Comm_free(&merged));
        OK(MPI_Comm_free(&inter));
    }
    OK(MPI_Type_vector(10, 1, 2, MPI_INT, &vector));
    OK(MPI_Type_dup(vector, &again));
    OK(MPI_Type_commit(&again));
    int from = (my_rank + n_ranks - 1) % n_ranks, to = (my_rank + 1) % n_ranks;
    OK(MPI_Irecv(buffer + 1, 1, MPI_INT, from, 1, later, &request));
    OK(MPI_Send(buffer, 1, MPI_INT, to, 1, later));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(buffer[1] == round, "%d came in round %d", buffer[1], round);
    OK(MPI_Type_free(&again));
    OK(MPI_Type_free(&vector));
    OK(MPI_Group_free(&part));
    OK(MPI_Group_free(&group));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&later));
    OK(MPI_Comm_free(&cart));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&dup));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 3000, settled = rounds / 3;
    long before = 0;
    for (int round = 0; round < rounds; round++) {
        round_of_objects(round);
        if (round == settled)
            before = resident_pages();
    }
    long grown = resident_pages() - before;
    CHECK(grown < 64, "%ld pages more after %d rounds", grown, rounds - settled);
    return finish();
}

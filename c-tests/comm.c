/* Claim: every way to make a communicator gives the right members in the right order and a message space of its own;
 * freeing returns it, and bad arguments are refused. Runs on 1 rank or more. */
#include "check.h"

/* The members are these ranks of MPI_COMM_WORLD: everybody sends its own to the next in the ring. */
static void members(MPI_Comm comm, int size, const int *expected)
{
    int n, rank, came = -1;
    OK(MPI_Comm_size(comm, &n));
    OK(MPI_Comm_rank(comm, &rank));
    CHECK(n == size, "%d members, expected %d", n, size);
    CHECK(expected[rank] == my_rank, "place %d is mine, expected %d there", rank, expected[rank]);
    OK(MPI_Sendrecv(&my_rank, 1, MPI_INT, (rank + 1) % n, 0, &came, 1, MPI_INT, (rank + n - 1) % n, 0, comm,
                    MPI_STATUS_IGNORE));
    CHECK(came == expected[(rank + n - 1) % n], "message of %d from place %d", came, (rank + n - 1) % n);
}

static void message_spaces(void)
{
    MPI_Comm dup;
    int result, in[2] = {-1, -1}, out[2] = {1, 2}, next = (my_rank + 1) % n_ranks, flag = 1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, dup, &result));
    CHECK(result == MPI_CONGRUENT, "compare %d", result);
    OK(MPI_Comm_compare(dup, dup, &result));
    CHECK(result == MPI_IDENT, "compare %d", result);
    MPI_Request requests[4];
    OK(MPI_Isend(&out[0], 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&out[1], 1, MPI_INT, next, 3, dup, &requests[1]));
    OK(MPI_Irecv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &requests[2]));
    OK(MPI_Irecv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[3]));
    /* The handle may go while its messages are under way. */
    OK(MPI_Comm_free(&dup));
    CHECK(dup == MPI_COMM_NULL, "a freed handle is not null");
    OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    CHECK(in[0] == 1 && in[1] == 2, "messages crossed: %d %d", in[0], in[1]);
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    CHECK(flag == 0, "the world is an intercommunicator");
}

static void parts(void)
{
    int *order = need(n_ranks * sizeof *order), n = 0;
    MPI_Comm part, other;
    for (int i = n_ranks - 1; i >= 0; i--)
        order[n++] = i;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 7, -my_rank, &part));
    members(part, n_ranks, order);
    OK(MPI_Comm_free(&part));

    n = 0;
    for (int i = my_rank % 2; i < n_ranks; i += 2)
        order[n++] = i;
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, 0, &part));
    members(part, n, order);
    OK(MPI_Comm_split(part, my_rank == 0 ? MPI_UNDEFINED : 1, 0, &other));
    CHECK((other == MPI_COMM_NULL) == (my_rank == 0), "undefined colour");
    if (other != MPI_COMM_NULL)
        OK(MPI_Comm_free(&other));

    /* The same parts again from groups, together and each for itself. */
    MPI_Group world, group;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, n, order, &group));
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &other));
    members(other, n, order);
    OK(MPI_Comm_free(&other));
    OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 99, &other));
    members(other, n, order);
    OK(MPI_Comm_free(&other));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_incl(world, 1, (int[]){n_ranks - 1}, &group));
    OK(MPI_Comm_create(MPI_COMM_WORLD, group, &other));
    CHECK((other == MPI_COMM_NULL) == (my_rank < n_ranks - 1), "who is in a group of one");
    if (other != MPI_COMM_NULL)
        OK(MPI_Comm_free(&other));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    OK(MPI_Comm_free(&part));

    for (int i = 0; i < n_ranks; i++)
        order[i] = i;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, my_rank, MPI_INFO_NULL, &part));
    members(part, n_ranks, order);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &part));
    CHECK(part == MPI_COMM_NULL, "undefined split type");

    MPI_Request request;
    OK(MPI_Comm_idup(MPI_COMM_WORLD, &part, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    members(part, n_ranks, order);
    OK(MPI_Comm_disconnect(&part));
    free(order);
}

static void two_groups(void)
{
    if (n_ranks < 2)
        return;
    int odd = my_rank % 2, evens = (n_ranks + 1) / 2, odds = n_ranks / 2, n, flag, came = -1, rank;
    MPI_Comm half, inter, dup, merged;
    MPI_Request request;
    OK(MPI_Comm_split(MPI_COMM_WORLD, odd, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, odd ? 0 : 1, 12, &inter));
    OK(MPI_Comm_test_inter(inter, &flag));
    OK(MPI_Comm_remote_size(inter, &n));
    CHECK(flag && n == (odd ? evens : odds), "remote size %d", n);
    OK(MPI_Comm_size(inter, &n));
    CHECK(n == (odd ? odds : evens), "local size %d", n);
    OK(MPI_Comm_dup(inter, &dup));
    OK(MPI_Comm_rank(dup, &rank));
    OK(MPI_Isend(&my_rank, 1, MPI_INT, 0, rank, dup, &request));
    if (rank == 0)
        for (int i = 0; i < (odd ? evens : odds); i++) {
            OK(MPI_Recv(&came, 1, MPI_INT, i, i, dup, MPI_STATUS_IGNORE));
            CHECK(came == 2 * i + !odd, "remote %d is %d", i, came);
        }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int *order = need(n_ranks * sizeof *order);
    for (int i = 0; i < n_ranks; i++)
        order[i] = i < odds ? 2 * i + 1 : 2 * (i - odds);
    OK(MPI_Intercomm_merge(dup, !odd, &merged));
    members(merged, n_ranks, order);
    free(order);
    OK(MPI_Comm_free(&merged));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

static void names_and_errors(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm dup, bad = MPI_COMM_WORLD;
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14, "%s", name);
    OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &length));
    CHECK(strcmp(name, "MPI_COMM_NULL") == 0, "%s", name);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    OK(MPI_Comm_set_name(dup, "a copy"));
    OK(MPI_Comm_get_name(dup, name, &length));
    CHECK(strcmp(name, "a copy") == 0 && length == 6, "%s", name);
    OK(MPI_Comm_free(&dup));
    FAILS(MPI_ERR_COMM, MPI_Comm_free(&bad));
    bad = MPI_COMM_NULL;
    FAILS(MPI_ERR_COMM, MPI_Comm_free(&bad));
    FAILS(MPI_ERR_COMM, MPI_Comm_size(MPI_COMM_NULL, &length));
    FAILS(MPI_ERR_GROUP, MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &dup));
    FAILS(MPI_ERR_RANK, MPI_Intercomm_create(MPI_COMM_WORLD, n_ranks, MPI_COMM_WORLD, 0, 0, &dup));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    message_spaces();
    parts();
    two_groups();
    names_and_errors();
    /* Contexts come back: many more communicators than can live at once. */
    for (int i = 0; i < 5000; i++) {
        MPI_Comm dup;
        OK(MPI_Comm_dup(MPI_COMM_SELF, &dup));
        OK(MPI_Comm_free(&dup));
    }
    return finish();
}

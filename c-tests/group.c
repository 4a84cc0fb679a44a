/* Claim: groups are ordered sets: union, intersection, difference, chosen ranks and ranges keep the standard's order,
 * translation and comparison agree with them, and wrong ranks, ranges and handles are refused. Runs on 1 rank or more. */
#include "check.h"

static int rank_in(MPI_Group group)
{
    int rank;
    OK(MPI_Group_rank(group, &rank));
    return rank;
}

static int size_of(MPI_Group group)
{
    int size;
    OK(MPI_Group_size(group, &size));
    return size;
}

static int compare(MPI_Group a, MPI_Group b)
{
    int result = -1;
    OK(MPI_Group_compare(a, b, &result));
    return result;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI_Group world, self, reversed, evens, rest, both, none, again;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    CHECK(size_of(world) == n_ranks && rank_in(world) == my_rank, "world group");
    CHECK(size_of(self) == 1 && rank_in(self) == 0, "self group");

    int backwards[1][3] = {{n_ranks - 1, 0, -1}}, pairs[1][3] = {{0, n_ranks - 1, 2}};
    OK(MPI_Group_range_incl(world, 1, backwards, &reversed));
    CHECK(rank_in(reversed) == n_ranks - 1 - my_rank, "reversed rank %d", rank_in(reversed));
    CHECK(compare(world, reversed) == (n_ranks > 1 ? MPI_SIMILAR : MPI_IDENT), "reversed");
    OK(MPI_Group_range_incl(world, 1, pairs, &evens));
    OK(MPI_Group_range_excl(world, 1, pairs, &rest));
    CHECK(size_of(evens) == (n_ranks + 1) / 2 && size_of(rest) == n_ranks / 2, "evens and odds");
    CHECK(rank_in(my_rank % 2 ? rest : evens) == my_rank / 2, "place among evens or odds");
    CHECK(rank_in(my_rank % 2 ? evens : rest) == MPI_UNDEFINED, "a stranger has a rank");
    if (n_ranks == 1)
        CHECK(rest == MPI_GROUP_EMPTY, "an empty group has another handle");

    OK(MPI_Group_union(rest, evens, &both));
    CHECK(compare(both, world) == (n_ranks > 1 ? MPI_SIMILAR : MPI_IDENT), "union");
    CHECK(rank_in(both) == (my_rank % 2 ? my_rank / 2 : n_ranks / 2 + my_rank / 2), "order of a union");
    OK(MPI_Group_intersection(evens, rest, &none));
    CHECK(none == MPI_GROUP_EMPTY && size_of(none) == 0, "evens and odds meet");
    OK(MPI_Group_difference(reversed, rest, &again));
    CHECK(compare(again, evens) == (size_of(evens) > 1 ? MPI_SIMILAR : MPI_IDENT), "difference");
    CHECK(compare(again, world) == (n_ranks > 1 ? MPI_UNEQUAL : MPI_IDENT), "difference and world");
    OK(MPI_Group_free(&again));
    OK(MPI_Group_intersection(reversed, evens, &again));
    CHECK(rank_in(again) == (my_rank % 2 ? MPI_UNDEFINED : size_of(evens) - 1 - my_rank / 2), "intersection");

    int ask[3] = {0, MPI_PROC_NULL, n_ranks - 1}, answer[3];
    OK(MPI_Group_translate_ranks(reversed, 3, ask, evens, answer));
    int last = n_ranks - 1;
    CHECK(answer[0] == (last % 2 ? MPI_UNDEFINED : last / 2), "last rank translates to %d", answer[0]);
    CHECK(answer[1] == MPI_PROC_NULL, "the null process translates to %d", answer[1]);
    CHECK(answer[2] == 0, "first rank translates to %d", answer[2]);

    MPI_Group bad = world;
    int twice[2] = {0, 0}, outside[1] = {n_ranks}, negative[1] = {-5}, endless[1][3] = {{0, 0, 0}};
    FAILS(MPI_ERR_RANK, MPI_Group_incl(world, 1, outside, &bad));
    FAILS(MPI_ERR_RANK, MPI_Group_excl(world, 1, negative, &bad));
    FAILS(MPI_ERR_ARG, MPI_Group_incl(world, -1, twice, &bad));
    FAILS(MPI_ERR_ARG, MPI_Group_range_incl(world, 1, endless, &bad));
    FAILS(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, outside, evens, answer));
    FAILS(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, answer));
    FAILS(MPI_ERR_GROUP, MPI_Group_union(world, MPI_GROUP_NULL, &bad));
    bad = MPI_GROUP_NULL;
    FAILS(MPI_ERR_GROUP, MPI_Group_free(&bad));

    MPI_Group *groups[] = {&world, &self, &reversed, &evens, &rest, &both, &none, &again};
    for (int i = 0; i < 8; i++) {
        OK(MPI_Group_free(groups[i]));
        CHECK(*groups[i] == MPI_GROUP_NULL, "a freed handle is not null");
    }
    return finish();
}

/* Processes that are started later (MPI-4.1 §11.8): they have a world of their own, their parents are joined to them by an
 * intercommunicator, messages of every length and collective operations go both ways, both become one communicator by a
 * merge, and when they have left each other each side goes on alone. What cannot be started is MPI_ERR_SPAWN. */
#include "check.h"

enum { LONGEST = 1 << 21, CHILDREN = 3 };

/* Ping-pongs with rank `peer` of `comm`, one side first. */
static void talk(MPI_Comm comm, int peer, int first)
{
    unsigned char *out = malloc(LONGEST), *in = malloc(LONGEST);
    for (int len = 0; len <= LONGEST; len = len ? len * 8 : 1) {
        fill(out, len, my_rank + len);
        memset(in, 0, len);
        if (first)
            OK(MPI_Send(out, len, MPI_BYTE, peer, 7, comm));
        OK(MPI_Recv(in, len, MPI_BYTE, peer, 7, comm, MPI_STATUS_IGNORE));
        if (!first)
            OK(MPI_Send(in, len, MPI_BYTE, peer, 7, comm));
        else
            CHECK(first_difference(in, len, my_rank + len) < 0, "%d bytes came back changed", len);
    }
    free(out);
    free(in);
}

/* Both sides of one family: `inter` joins parents and children. */
static void family(MPI_Comm inter, int is_child, int parents)
{
    int rank, here, there, sum = 0, ones = 1;
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Comm_size(inter, &here));
    OK(MPI_Comm_remote_size(inter, &there));
    CHECK(is_child ? there == parents : here == parents, "%d here, %d there", here, there);
    if (rank < there)
        talk(inter, rank, is_child);
    OK(MPI_Allreduce(&ones, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK(sum == there, "the others are %d, not %d", sum, there);

    MPI_Comm all;
    OK(MPI_Intercomm_merge(inter, is_child, &all));
    int place, size;
    OK(MPI_Comm_rank(all, &place));
    OK(MPI_Comm_size(all, &size));
    CHECK(size == here + there && place == (is_child ? there + rank : rank), "rank %d of %d", place, size);
    int *ranks = malloc(size * sizeof *ranks), *shares = malloc(1 << 16);
    for (int turn = 0; turn < 20; turn++) {
        OK(MPI_Allgather(&place, 1, MPI_INT, ranks, 1, MPI_INT, all));
        for (int i = 0; i < size; i++)
            CHECK(ranks[i] == i, "place %d has %d", i, ranks[i]);
        for (int i = 0; i < 1 << 14; i++)
            shares[i] = place == turn % size ? i * turn : -1;
        OK(MPI_Bcast(shares, 1 << 14, MPI_INT, turn % size, all));
        for (int i = 0; i < 1 << 14; i += 97)
            CHECK(shares[i] == i * turn, "bcast %d: %d at %d", turn, shares[i], i);
        OK(MPI_Barrier(all));
    }
    if ((place ^ 1) < size)
        talk(all, place ^ 1, place & 1);
    free(ranks);
    free(shares);

    /* A window over both sides, and a duplicate of the intercommunicator. */
    int *mine, value = place + 1, got = 0;
    MPI_Win win;
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, all, &mine, &win));
    *mine = 0;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, (place + 1) % size, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(&got, 1, MPI_INT, (place + 1) % size, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(got == place + 1 && *mine == (place + size - 1) % size + 1, "put %d, got %d", *mine, got);
    OK(MPI_Win_free(&win));
    MPI_Comm twin;
    OK(MPI_Comm_dup(inter, &twin));
    OK(MPI_Comm_free(&twin));
    OK(MPI_Comm_disconnect(&all));
}

static int child(MPI_Comm parent, char **argv)
{
    int parents = atoi(argv[2]), rank, *appnum, set;
    CHECK(strcmp(argv[3], "two words : and a colon") == 0 && strcmp(argv[4], ":") == 0, "%s, %s", argv[3], argv[4]);
    CHECK(n_ranks == CHILDREN, "%d children", n_ranks);
    OK(MPI_Comm_rank(parent, &rank));
    CHECK(rank == my_rank, "rank %d there, %d here", rank, my_rank);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &set));
    CHECK(set && *appnum == atoi(argv[5]), "program %d", set ? *appnum : -1);
    char alike[16]; /* MPICH does not say */
    OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", sizeof alike - 1, alike, &set));
    CHECK(!set || strcmp(alike, argv[6]) == 0, "%s of the program, expected %s", alike, argv[6]);
    int sum = 0;
    OK(MPI_Allreduce(&my_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == CHILDREN * (CHILDREN - 1) / 2, "the children's ranks are %d", sum);
    family(parent, 1, parents);
    OK(MPI_Comm_disconnect(&parent));
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL, "a parent after disconnecting");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return finish();
}

int main(int argc, char **argv)
{
    MPI_Comm parent, inter;
    start(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        char name[MPI_MAX_OBJECT_NAME];
        int length;
        CHECK(parent != MPI_COMM_NULL, "no parent");
        OK(MPI_Comm_get_name(parent, name, &length));
        CHECK(strcmp(name, "MPI_COMM_PARENT") == 0, "the parents' name is %s", name);
        return child(parent, argv);
    }
    CHECK(parent == MPI_COMM_NULL, "a parent");
    char parents[16];
    snprintf(parents, sizeof parents, "%d", n_ranks);
    char *words[] = {"child", parents, "two words : and a colon", ":", "0", "3", NULL};
    int codes[CHILDREN] = {-1, -1, -1};
    for (int turn = 0; turn < 2; turn++) {
        OK(MPI_Comm_spawn(argv[0], words, CHILDREN, MPI_INFO_NULL, n_ranks - 1, MPI_COMM_WORLD, &inter, codes));
        for (int i = 0; i < CHILDREN; i++)
            CHECK(codes[i] == MPI_SUCCESS, "child %d: code %d", i, codes[i]);
        family(inter, 0, n_ranks);
        OK(MPI_Comm_disconnect(&inter));
        CHECK(inter == MPI_COMM_NULL, "a handle of what is gone");
    }
    /* Each rank has a family of its own, with two programs. */
    char *second[] = {"child", "1", "two words : and a colon", ":", "1", "2", NULL};
    words[1] = "1";
    words[5] = "1";
    char *commands[] = {argv[0], argv[0]}, **args[] = {words, second};
    int numbers[] = {1, CHILDREN - 1};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    OK(MPI_Comm_spawn_multiple(2, commands, args, numbers, infos, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE));
    family(inter, 0, 1);
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return finish();
}

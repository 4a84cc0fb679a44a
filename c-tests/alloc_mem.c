/* Claim: Alloc_mem gives memory of any size that can be written, sent from and received into, and freed, also when it has been used
 * before, and a window over it can be accessed; at the alignment that a hint asks for; with the argument `strict`, many short blocks do not take a page each, too much
 * gives MPI_ERR_NO_MEM, what does not begin a block cannot be freed, and who reads all memory there is (a core dump, valgrind) does not
 * make more of it than that. */
#include "check.h"

/* MiB that can be read, of files that are mapped in common. */
static long readable(void)
{
    char line[512], access[8];
    unsigned long from, to, sum = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps != NULL, "no /proc");
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) == 3 && access[0] == 'r' && access[3] == 's')
            sum += to - from;
    fclose(maps);
    return sum >> 20;
}

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
    enum { MANY = 6000 };
    int *many[MANY];
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Alloc_mem(sizeof(int), MPI_INFO_NULL, &many[i]));
        *many[i] = i;
    }
    /* malloc may begin elsewhere now and then: where every block took a page, none of the last 1,000 would be near the one before. */
    int n_near = 0;
    for (int i = MANY - 1000; i < MANY; i++)
        n_near += labs((char *)many[i] - (char *)many[i - 1]) < 4096;
    if (argc > 1)
        CHECK(n_near > 900, "of 1000 short blocks %d are near the one before: they take pages, however many there are", n_near);
    for (int i = 0; i < MANY; i++) {
        CHECK(*many[i] == i, "block %d has %d", i, *many[i]);
        OK(MPI_Free_mem(many[i]));
    }
    if (argc > 1)
        CHECK(readable() < 600, "%ld MiB can be read", readable());
    MPI_Info info;
    OK(MPI_Info_create(&info));
    for (long alignment = 8; alignment <= 1 << 21; alignment *= 2) {
        char text[16], *aligned[3];
        snprintf(text, sizeof text, "%ld", alignment);
        OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", text));
        for (int i = 0; i < 3; i++) {
            OK(MPI_Alloc_mem(5000, info, &aligned[i]));
            CHECK((uintptr_t)aligned[i] % alignment == 0, "%p is no multiple of %s", aligned[i], text);
        }
        for (int i = 0; i < 3; i++)
            OK(MPI_Free_mem(aligned[i]));
    }
    char *block = NULL, seen[8];
    MPI_Win window;
    OK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &block));
    fill(block, 1 << 20, my_rank);
    OK(MPI_Win_create(block, 1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Get(seen, 8, MPI_BYTE, peer, 0, 8, MPI_BYTE, window));
    OK(MPI_Win_fence(0, window));
    CHECK_BYTES((unsigned char *)seen, 8, peer);
    OK(MPI_Put(&my_rank, 1, MPI_INT, peer, (1 << 20) - 4, 1, MPI_INT, window));
    OK(MPI_Win_fence(0, window));
    CHECK(*(int *)(block + (1 << 20) - 4) == peer, "%d", *(int *)(block + (1 << 20) - 4));
    OK(MPI_Win_free(&window));
    if (argc > 1)
        FAILS(MPI_ERR_BASE, MPI_Free_mem(block + 4096));
    OK(MPI_Free_mem(block));
    void *much;
    if (argc > 1) /* strict */
        FAILS(MPI_ERR_NO_MEM, MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &much));
    OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "24"));
    if (argc > 1)
        FAILS(MPI_ERR_INFO_VALUE, MPI_Alloc_mem(8, info, &much));
    OK(MPI_Info_free(&info));
    return finish();
}

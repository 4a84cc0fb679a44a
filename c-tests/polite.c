/* Claim: ranks that poll with MPI_Test, MPI_Testall or MPI_Iprobe in a loop leave their CPU to ranks that work: two ranks
 * exchange 1,000 messages in bounded time while all others poll on the same CPU. A polling rank that kept the CPU for its
 * slice of the kernel's time, milliseconds, would make them wait for each. */
#include "check.h"

enum { ROUNDS = 1000, LAST = 9, WORDS = 8 };

static const char *const WAYS[] = {"MPI_Test", "MPI_Testall", "MPI_Iprobe"};

/* Polls until rank 0 sends the end. */
static void poll_for_the_end(int way)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int end = 0, over = 0;
    if (way < 2)
        OK(MPI_Irecv(&end, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD, &requests[0]));
    while (!over) {
        if (way == 0)
            OK(MPI_Test(&requests[0], &over, MPI_STATUS_IGNORE));
        else if (way == 1)
            OK(MPI_Testall(2, requests, &over, MPI_STATUSES_IGNORE));
        else
            OK(MPI_Iprobe(0, LAST, MPI_COMM_WORLD, &over, MPI_STATUS_IGNORE));
    }
    if (way == 2)
        OK(MPI_Recv(&end, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(end == way + 1, "%d", end);
}

/* Ranks 0 and 1: 1,000 messages there and back; four times what the quickest quarter of them took. */
static double exchange(void)
{
    int peer = 1 - my_rank, words[WORDS] = {0};
    double best = 1e9;
    for (int part = 0; part < 4; part++) {
        double begin = MPI_Wtime();
        for (int i = 0; i < ROUNDS / 4; i++) {
            if (my_rank == 0)
                OK(MPI_Send(words, WORDS, MPI_INT, peer, 1, MPI_COMM_WORLD));
            OK(MPI_Recv(words, WORDS, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (my_rank == 1)
                OK(MPI_Send(words, WORDS, MPI_INT, peer, 1, MPI_COMM_WORLD));
        }
        double took = MPI_Wtime() - begin;
        best = took < best ? took : best;
    }
    return best * 4;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int way = 0; way < 3; way++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank > 1) {
            poll_for_the_end(way);
            continue;
        }
        double took = exchange();
        for (int rank = 2, end = way + 1; rank < n_ranks && my_rank == 0; rank++)
            OK(MPI_Send(&end, 1, MPI_INT, rank, LAST, MPI_COMM_WORLD));
        if (my_rank == 0)
            printf("polite: %s by %d ranks: %d messages there and back %.4f s\n", WAYS[way], n_ranks - 2, ROUNDS, took);
        CHECK(took < 0.5, "%s by %d ranks: %.3f s for %d messages there and back", WAYS[way], n_ranks - 2, took, ROUNDS);
    }
    return finish();
}

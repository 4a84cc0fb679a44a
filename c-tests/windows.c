/* Claim: Messages of windows arrive whole and where they belong, whatever their lengths, in whichever order their receives are posted,
 * if some receives have too little room, some come late, and some are blocking; a sender may overwrite what it has sent. */
#include "check.h"

enum { WINDOW = 40, LONGEST = 150000, TURNS = 12 };
static const int lengths[] = {16384, 20000, 32768, 100, 65536, 17000, LONGEST, 40000, 0, 16400};
static unsigned char *out[WINDOW], *in[WINDOW];

static int length_of(int turn, int i) { return lengths[(turn * 3 + i) % 10]; }
static unsigned seed_of(int from, int turn, int i) { return (unsigned)(from * 100000 + turn * 100 + i); }

/* Every third receive of odd turns has room for half only. */
static int room_of(int turn, int i) { return turn % 2 && i % 3 == 0 ? length_of(turn, i) / 2 : length_of(turn, i); }

static void has_come(int from, int turn, int i, int code, const MPI_Status *status)
{
    int class, count, length = length_of(turn, i), room = room_of(turn, i);
    OK(MPI_Error_class(code, &class));
    CHECK(class == (room < length ? MPI_ERR_TRUNCATE : MPI_SUCCESS), "turn %d, message %d: class %d", turn, i, class);
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK(count == room && status->MPI_SOURCE == from && status->MPI_TAG == i, "turn %d, message %d: %d bytes", turn, i, count);
    CHECK(first_difference(in[i], room, seed_of(from, turn, i)) < 0, "turn %d, message %d, byte %ld", turn, i,
          (long)first_difference(in[i], room, seed_of(from, turn, i)));
    CHECK(in[i][room] == 0xaa, "turn %d, message %d wrote behind its room", turn, i);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < WINDOW; i++) {
        out[i] = malloc(LONGEST);
        in[i] = malloc(LONGEST + 1);
    }
    int to = (my_rank + 1) % n_ranks, from = (my_rank + n_ranks - 1) % n_ranks;
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request sends[WINDOW], receives[WINDOW];
        MPI_Status statuses[WINDOW];
        int late = turn % 3 * WINDOW / 4; /* so many receives are blocking ones, after all has been sent */
        for (int i = 0; i < WINDOW; i++) {
            fill(out[i], length_of(turn, i), seed_of(my_rank, turn, i));
            memset(in[i], 0xaa, LONGEST + 1);
        }
        for (int n = late; n < WINDOW; n++) {
            int i = turn % 2 ? n : WINDOW - 1 - n + late; /* backwards in even turns */
            OK(MPI_Irecv(in[i], room_of(turn, i), MPI_BYTE, from, i, MPI_COMM_WORLD, &receives[i]));
        }
        if (turn % 4 < 2)
            OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < WINDOW; i++)
            OK(MPI_Isend(out[i], length_of(turn, i), MPI_BYTE, to, i, MPI_COMM_WORLD, &sends[i]));
        for (int i = 0; i < late; i++) {
            int code = MPI_Recv(in[i], room_of(turn, i), MPI_BYTE, from, i, MPI_COMM_WORLD, &statuses[i]);
            has_come(from, turn, i, code, &statuses[i]);
        }
        if (turn % 2 == 0)
            OK(MPI_Waitall(WINDOW - late, receives + late, statuses + late));
        for (int i = late; i < WINDOW; i++) {
            int code = turn % 2 ? MPI_Wait(&receives[i], &statuses[i]) : MPI_SUCCESS;
            has_come(from, turn, i, code, &statuses[i]);
        }
        for (int i = WINDOW - 1; i >= 0; i--) {
            OK(MPI_Wait(&sends[i], MPI_STATUS_IGNORE));
            memset(out[i], 0xee, length_of(turn, i));
        }
    }
    return finish();
}

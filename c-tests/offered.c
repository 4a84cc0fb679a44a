/* Claim: Messages that wait for their receivers arrive whole and where they belong, in windows and one after the other, whatever their
 * lengths, in whichever order their receives are posted, if some receives have too little room, some come late, and some are
 * blocking; those that match one receive come in the order they were sent; a sender may overwrite what it has sent. */
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

/* Every fifth message is short: it comes when the next one is wanted, and stays. */
static int is_short(int i) { return i % 5 == 4; }
static int tag_of(int i) { return i == 3 ? 8 : is_short(i) ? 9 : 7; }

static void comes_next(int from, int turn, int i, const MPI_Status *status)
{
    int count, length = is_short(i) ? 100 : length_of(turn, i);
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK(count == length && status->MPI_TAG == tag_of(i), "turn %d, message %d: %d bytes, tag %d", turn, i, count, status->MPI_TAG);
    CHECK(first_difference(in[i], length, seed_of(from, turn, i)) < 0 && in[i][length] == 0xaa, "turn %d, message %d", turn, i);
}

/* Blocking sends: the first and the fourth have receives before; a late receiver finds some kept by their sender. */
static void in_order(int peer, int sends)
{
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request first, fourth;
        MPI_Status status;
        if (!sends) {
            for (int i = 0; i < WINDOW; i++)
                memset(in[i], 0xaa, LONGEST + 1);
            OK(MPI_Irecv(in[0], LONGEST, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &first));
            OK(MPI_Irecv(in[3], LONGEST, MPI_BYTE, peer, 8, MPI_COMM_WORLD, &fourth));
        }
        OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 99, NULL, 0, MPI_BYTE, peer, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; sends && i < WINDOW; i++) {
            int length = is_short(i) ? 100 : length_of(turn, i);
            fill(out[0], length, seed_of(my_rank, turn, i));
            OK(MPI_Send(out[0], length, MPI_BYTE, peer, tag_of(i), MPI_COMM_WORLD));
            memset(out[0], 0xee, length);
        }
        if (!sends && turn % 3 == 2)
            usleep(3000);
        for (int i = 0; !sends && i <= WINDOW; i++) {
            if (i < WINDOW && !is_short(i)) {
                if (i == 0 || i == 3)
                    OK(MPI_Wait(i == 0 ? &first : &fourth, &status));
                else
                    OK(MPI_Recv(in[i], LONGEST, MPI_BYTE, i % 2 ? peer : MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status));
                comes_next(peer, turn, i, &status);
            }
            if (i > 0 && is_short(i - 1)) {
                OK(MPI_Recv(in[i - 1], LONGEST, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                comes_next(peer, turn, i - 1, &status);
            }
        }
    }
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
    for (int times = 0; times < 2 && (my_rank ^ 1) < n_ranks; times++)
        in_order(my_rank ^ 1, my_rank % 2 == times);
    return finish();
}

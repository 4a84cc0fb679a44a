/* A standard send whose receiver is late returns when its sender would fall asleep: the message is kept. A
 * synchronous one waits, and so does one that is longer than NEARMPI_LATE_MAX. What was kept and what was sent after
 * it stay in order. */
#include "check.h"
#include <time.h>

enum { LENGTH = 200000, LONG = 400000 };

static unsigned char bytes[LONG];

static void pause_ms(long ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* One message to a receiver that comes after a second. */
static void to_a_late_receiver(int length, int synchronous, int early)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0) {
        fill(bytes, length, 1);
        double from = MPI_Wtime();
        OK((synchronous ? MPI_Ssend : MPI_Send)(bytes, length, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
        double spent = MPI_Wtime() - from;
        CHECK(early ? spent < 0.7 : spent > 0.9, "%d bytes: %f s", length, spent);
        memset(bytes, 0xee, length);
    } else {
        pause_ms(1000);
        OK(MPI_Recv(bytes, length, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(first_difference(bytes, length, 1) < 0, "%d bytes", length);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    to_a_late_receiver(LENGTH, 0, 1);
    to_a_late_receiver(LENGTH, 1, 0);
    to_a_late_receiver(LONG, 0, 0);
    for (int turn = 0; turn < 6; turn++) {
        int length = turn % 2 ? 100 : LENGTH, count;
        MPI_Status status;
        if (my_rank == 0) {
            fill(bytes, length, turn);
            OK(MPI_Send(bytes, length, MPI_BYTE, 1, 9, MPI_COMM_WORLD));
            continue;
        }
        if (turn == 0)
            pause_ms(300);
        OK(MPI_Recv(bytes, LENGTH, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK(count == length && first_difference(bytes, length, turn) < 0, "message %d", turn);
    }
    return finish();
}

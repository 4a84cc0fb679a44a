/* Claim: messages between two ranks with one communicator and matching tags are received in the order they were
 * sent, whatever their sizes and paths, for exact and wildcard receives, posted early or late. */
#include "check.h"

enum { MESSAGES = 400, LARGEST = 200000 };
static const int sizes[] = {4, 60, 9000, 4, LARGEST, 700, 4, 70000, 33000};
static unsigned char *in[MESSAGES];
static MPI_Request requests[MESSAGES];

static int size_of(int i) { return sizes[i % 9]; }

static void send_all(int mixed)
{
    for (int i = 0; i < MESSAGES; i++) {
        unsigned char *message = need(size_of(i));
        fill(message, size_of(i), i + my_rank * 1000);
        memcpy(message, &i, sizeof i);
        in[i] = message;
        OK(MPI_Isend(message, size_of(i), MPI_BYTE, 0, mixed ? i % 3 : 7, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES; i++)
        free(in[i]);
}

static void take(unsigned char *message, int number, int from)
{
    int got = -1;
    memcpy(&got, message, sizeof got);
    CHECK(got == number, "message %d of rank %d came where %d belongs", got, from, number);
    for (int i = 4; i < size_of(number); i++)
        CHECK(message[i] == byte_at(number + from * 1000, i), "byte %d of message %d", i, number);
}

/* Late receives from everybody: per sender the order holds, and per tag when tags are asked for. */
static void receive_late(int wild_source)
{
    int next[64] = {0};
    unsigned char *message = need(LARGEST);
    MPI_Status status;
    for (int n = 0; n < MESSAGES * (n_ranks - 1); n++) {
        int ask = wild_source ? MPI_ANY_SOURCE : 1 + n % (n_ranks - 1);
        OK(MPI_Recv(message, LARGEST, MPI_BYTE, ask, n % 2 ? 7 : MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        int from = status.MPI_SOURCE, number = next[from]++;
        CHECK_STATUS(status, from, 7, MPI_BYTE, size_of(number));
        take(message, number, from);
    }
    free(message);
}

/* Early receives: the k-th posted receive of a tag takes the k-th message of that tag. */
static void receive_early(int from)
{
    for (int i = 0; i < MESSAGES; i++) {
        in[i] = need(LARGEST);
        OK(MPI_Irecv(in[i], LARGEST, MPI_BYTE, i % 2 ? from : MPI_ANY_SOURCE, i % 3, MPI_COMM_WORLD, &requests[i]));
    }
    OK(MPI_Send(NULL, 0, MPI_BYTE, from, 9, MPI_COMM_WORLD));
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Status status;
        OK(MPI_Wait(&requests[i], &status));
        CHECK_STATUS(status, from, i % 3, MPI_BYTE, size_of(i));
        take(in[i], i, from);
        free(in[i]);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int wild = 0; wild < 2; wild++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        my_rank ? send_all(0) : receive_late(wild);
    }
    for (int from = 1; from < n_ranks; from++) {
        if (my_rank == 0)
            receive_early(from);
        if (my_rank == from) {
            OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            send_all(1);
        }
    }
    return finish();
}

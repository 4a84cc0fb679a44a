/* Claim: messages of every size class from 0 to 4 MiB, odd sizes and neighbours of powers of two included, from and
 * to buffers of any alignment, posted early or late, arrive whole and write nothing else. */
#include "check.h"

enum { LARGEST = (4 << 20) + 1, GUARD = 64 };
static unsigned char *out, *in;

static void exchange(size_t size, int tag, int late)
{
    size_t from = tag % 13, to = tag * 7 % 17;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int peer = 1 - my_rank;
    fill(out + from, size, tag * 2 + my_rank);
    memset(in + to, 0xEE, size + GUARD);
    memset(in, 0xEE, to);
    if (late) {
        OK(MPI_Isend(out + from, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Probe(peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Irecv(in + to, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
    } else {
        OK(MPI_Irecv(in + to, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Isend(out + from, (int)size, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
    }
    OK(MPI_Waitall(2, requests, statuses));
    CHECK_STATUS(statuses[0], peer, tag, MPI_BYTE, size);
    CHECK_BYTES(in + to, size, tag * 2 + peer);
    CHECK_GUARD(in, 0, to, 0xEE);
    CHECK_GUARD(in, to + size, to + size + GUARD, 0xEE);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    out = need(LARGEST + 32);
    in = need(LARGEST + 32 + GUARD);
    int tag = 0;
    for (size_t size = 0; size <= 300; size++)
        exchange(size, tag++, size % 2);
    for (size_t power = 256; power <= 4 << 20; power *= 2)
        for (int d = -2; d <= 2; d++)
            if (power + d <= LARGEST)
                for (int late = 0; late < 2; late++)
                    exchange(power + d, tag++, late);
    uint32_t state = 1;
    for (int i = 0; i < 100; i++)
        exchange(next_random(&state) % (1u << (8 + i % 13)), tag++, i % 2);
    return finish();
}

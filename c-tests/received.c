/* Claim: however a rank asks for a message (received, probed for first, matched, started and tested or waited for, before or after it has
 * come, with other receives posted), it gets the first that matches, whole, and its status says so; MPI_PROC_NULL always answers at once,
 * and what a probe comes across gets where it is waited for. */
#include "check.h"

enum { MESSAGES = 40, TAGS = 3, LARGEST = 70000 };
static unsigned char in[2][LARGEST], out[MESSAGES][LARGEST];
static struct { int tag, size, is_here; } sent[MESSAGES];
static int partner;
static uint32_t common, own;

/* The first of the messages still to come with `tag`, or with any; -1 if there is none. */
static int first_of(int tag)
{
    for (int i = 0; i < MESSAGES; i++)
        if (!sent[i].is_here && (tag == MPI_ANY_TAG || sent[i].tag == tag))
            return i;
    return -1;
}

static int room(void)
{
    return next_random(&own) % 2 ? LARGEST : LARGEST - 1;
}

static void came(int which, int at, MPI_Status status)
{
    sent[which].is_here = 1;
    CHECK_STATUS(status, partner, sent[which].tag, MPI_BYTE, sent[which].size);
    CHECK_BYTES(in[at], sent[which].size, 1000 * partner + which);
}

static void receive_one(int way)
{
    int any_tag = next_random(&own) % 3 == 0, any_source = next_random(&own) % 3 == 0, found = 0, length = -1;
    int start = next_random(&own) % TAGS, tag = -1;
    for (int i = 0; i < TAGS && tag < 0; i++)
        if (first_of((start + i) % TAGS) >= 0)
            tag = (start + i) % TAGS;
    if (any_tag)
        tag = MPI_ANY_TAG;
    int source = any_source ? MPI_ANY_SOURCE : partner, which = first_of(tag);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Status status, probed;
    MPI_Message message, second;
    MPI_Request request[2];
    int behind;
    switch (way) {
    case 0:
        OK(MPI_Recv(in[0], room(), MPI_BYTE, source, tag, world, &status));
        break;
    case 1:
        for (int i = 0; i < 2; i++) {
            OK(MPI_Probe(source, tag, world, &probed));
            CHECK_STATUS(probed, partner, sent[which].tag, MPI_BYTE, sent[which].size);
        }
        OK(MPI_Recv(in[0], sent[which].size, MPI_BYTE, source, tag, world, &status));
        break;
    case 2:
        while (!found)
            OK(MPI_Iprobe(source, tag, world, &found, &probed));
        CHECK_STATUS(probed, partner, sent[which].tag, MPI_BYTE, sent[which].size);
        OK(MPI_Irecv(in[0], sent[which].size, MPI_BYTE, probed.MPI_SOURCE, probed.MPI_TAG, world, request));
        OK(MPI_Wait(request, &status));
        break;
    case 3:
        OK(MPI_Mprobe(source, tag, world, &message, &probed));
        CHECK_STATUS(probed, partner, sent[which].tag, MPI_BYTE, sent[which].size);
        OK(MPI_Mrecv(in[0], room(), MPI_BYTE, &message, &status));
        CHECK(message == MPI_MESSAGE_NULL, "the message is still there");
        break;
    case 4:
        while (!found)
            OK(MPI_Improbe(source, tag, world, &found, &message, &probed));
        CHECK_STATUS(probed, partner, sent[which].tag, MPI_BYTE, sent[which].size);
        OK(MPI_Imrecv(in[0], sent[which].size, MPI_BYTE, &message, request));
        OK(MPI_Wait(request, &status));
        break;
    case 5:
        OK(MPI_Irecv(in[0], room(), MPI_BYTE, source, tag, world, request));
        while (!found)
            OK(MPI_Test(request, &found, &status));
        CHECK(request[0] == MPI_REQUEST_NULL, "the request is still there");
        break;
    case 6: /* Two that match alike, the second waited for first. */
        OK(MPI_Irecv(in[0], room(), MPI_BYTE, source, tag, world, &request[0]));
        sent[which].is_here = 1;
        behind = first_of(tag);
        sent[which].is_here = 0;
        if (behind >= 0) {
            OK(MPI_Irecv(in[1], room(), MPI_BYTE, source, tag, world, &request[1]));
            OK(MPI_Wait(&request[1], &probed));
            came(behind, 1, probed);
        }
        OK(MPI_Wait(&request[0], &status));
        break;
    case 7: /* Both at once. */
        sent[which].is_here = 1;
        behind = first_of(tag);
        sent[which].is_here = 0;
        request[1] = MPI_REQUEST_NULL;
        OK(MPI_Irecv(in[0], room(), MPI_BYTE, source, tag, world, &request[0]));
        if (behind >= 0)
            OK(MPI_Irecv(in[1], room(), MPI_BYTE, source, tag, world, &request[1]));
        MPI_Status both[2];
        OK(MPI_Waitall(2, request, both));
        if (behind >= 0)
            came(behind, 1, both[1]);
        status = both[0];
        break;
    case 8: /* A probe does not see what a posted receive takes. */
        OK(MPI_Irecv(in[0], room(), MPI_BYTE, source, tag, world, &request[0]));
        sent[which].is_here = 1;
        behind = first_of(MPI_ANY_TAG);
        if (behind >= 0) {
            OK(MPI_Probe(partner, sent[behind].tag, world, &probed));
            CHECK_STATUS(probed, partner, sent[behind].tag, MPI_BYTE, sent[behind].size);
            OK(MPI_Recv(in[1], LARGEST, MPI_BYTE, partner, sent[behind].tag, world, &probed));
            came(behind, 1, probed);
        }
        OK(MPI_Wait(&request[0], &status));
        break;
    case 9: /* Matched messages are received in any order. */
        OK(MPI_Mprobe(source, tag, world, &message, &probed));
        sent[which].is_here = 1;
        behind = first_of(tag);
        if (behind >= 0) {
            OK(MPI_Mprobe(source, tag, world, &second, &probed));
            CHECK_STATUS(probed, partner, sent[behind].tag, MPI_BYTE, sent[behind].size);
            OK(MPI_Mrecv(in[1], LARGEST, MPI_BYTE, &second, &probed));
            came(behind, 1, probed);
        }
        OK(MPI_Mrecv(in[0], sent[which].size, MPI_BYTE, &message, &status));
        break;
    default:
        OK(MPI_Recv_init(in[0], room(), MPI_BYTE, source, tag, world, request));
        OK(MPI_Start(request));
        OK(MPI_Wait(request, &status));
        came(which, 0, status);
        OK(MPI_Wait(request, &status));
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE, "an inactive request has source %d", status.MPI_SOURCE);
        OK(MPI_Request_free(request));
        return;
    }
    MPI_Get_count(&status, MPI_BYTE, &length);
    CHECK(length == sent[which].size, "%d bytes by way %d, expected %d", length, way, sent[which].size);
    came(which, 0, status);
}

/* A probe that takes up what a started operation waits for takes that operation further. */
static void beside(void)
{
    MPI_Comm ring;
    MPI_Message message;
    MPI_Request request;
    int around = 1, found = 0, mine[2] = {my_rank, my_rank}, theirs[2] = {-1, -1};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n_ranks, &around, 0, &ring));
    for (int round = 0; round < 20; round++) {
        int rounds = round % 4 * 1000;
        OK(MPI_Ineighbor_alltoall(mine, 1, MPI_INT, theirs, 1, MPI_INT, ring, &request));
        for (int i = 0; i < rounds; i++) {
            OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
            CHECK(!found, "nobody sends with this tag");
            OK(MPI_Improbe((my_rank + 1) % n_ranks, 99, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE));
            CHECK(!found, "nobody sends with this tag");
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(theirs[0] == (my_rank + n_ranks - 1) % n_ranks && theirs[1] == (my_rank + 1) % n_ranks, "%d and %d", theirs[0], theirs[1]);
    }
    OK(MPI_Comm_free(&ring));
}

static void nobody(void)
{
    MPI_Request request[3];
    MPI_Status status[3];
    int found = 0, index = -1, indices[3];
    for (int way = 0; way < 7; way++) {
        for (int i = 0; i < 2; i++)
            OK(MPI_Irecv(in[0], 4, MPI_BYTE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request[i]));
        OK(MPI_Isend(in[0], 4, MPI_BYTE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request[2]));
        memset(status, 0x55, sizeof status);
        switch (way) {
        case 0: OK(MPI_Wait(&request[0], &status[0])); break;
        case 1: OK(MPI_Test(&request[0], &found, &status[0])); break;
        case 2: OK(MPI_Waitany(2, request, &index, &status[0])); break;
        case 3: OK(MPI_Testsome(2, request, &found, indices, status)); break;
        case 4: OK(MPI_Request_get_status(request[0], &found, &status[0])); break;
        case 5: OK(MPI_Cancel(&request[0])); OK(MPI_Wait(&request[0], &status[0])); break;
        default: OK(MPI_Request_free(&request[0])); status[0].MPI_SOURCE = MPI_PROC_NULL;
        }
        CHECK(status[0].MPI_SOURCE == MPI_PROC_NULL, "way %d: source %d", way, status[0].MPI_SOURCE);
        if (way < 6)
            CHECK_STATUS(status[0], MPI_PROC_NULL, MPI_ANY_TAG, MPI_BYTE, 0);
        OK(MPI_Waitall(3, request, status));
        CHECK(request[0] == MPI_REQUEST_NULL && request[1] == MPI_REQUEST_NULL && request[2] == MPI_REQUEST_NULL,
              "way %d: a request is still there", way);
        if (way != 3)
            CHECK(status[1].MPI_SOURCE == MPI_PROC_NULL, "way %d: source %d", way, status[1].MPI_SOURCE);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    partner = my_rank ^ 1;
    nobody();
    beside();
    own = 17 * my_rank + 3;
    for (int round = 0; round < 60 && partner < n_ranks; round++) {
        static const int sizes[] = {0, 8, 22, 23, 48, 49, 500, 512, 4096, 9000, 33000, LARGEST - 1};
        MPI_Request sends[MESSAGES];
        common = 99 * round + 7;
        for (int i = 0; i < MESSAGES; i++) {
            sent[i].tag = next_random(&common) % TAGS;
            /* Most are short, as in programs. */
            sent[i].size = sizes[next_random(&common) % (round % 3 ? 9 : 12)];
            sent[i].is_here = 0;
            fill(out[i], sent[i].size, 1000 * my_rank + i);
        }
        /* The even rank's are there before the odd one looks, or come while it does, or one by one. */
        if (my_rank % 2 == 0 || round % 3 == 0)
            for (int i = 0; i < MESSAGES; i++)
                OK(MPI_Isend(out[i], sent[i].size, MPI_BYTE, partner, sent[i].tag, MPI_COMM_WORLD, &sends[i]));
        if (round % 4 == 0)
            OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, partner, 77, NULL, 0, MPI_BYTE, partner, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (my_rank % 2 == 1 || round % 3 == 0)
            while (first_of(MPI_ANY_TAG) >= 0)
                receive_one(next_random(&own) % 11);
        if (my_rank % 2 == 1 && round % 3 != 0)
            for (int i = 0; i < MESSAGES; i++)
                OK(MPI_Isend(out[i], sent[i].size, MPI_BYTE, partner, sent[i].tag, MPI_COMM_WORLD, &sends[i]));
        if (my_rank % 2 == 0 && round % 3 != 0)
            while (first_of(MPI_ANY_TAG) >= 0)
                receive_one(next_random(&own) % 11);
        OK(MPI_Waitall(MESSAGES, sends, MPI_STATUSES_IGNORE));
    }
    return finish();
}

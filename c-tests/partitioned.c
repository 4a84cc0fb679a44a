/* Claim: a partitioned message arrives whole and right whatever the order in which its partitions become ready,
 * however many partitions each side has, none too, start after start; partitioned operations match one another in the order
 * in which they were made, if they have the same tag, and no other receive takes their messages. The argument `early` adds
 * that a partition can be seen to arrive before the others are ready. */
#include "check.h"

enum { PARTS = 12, COUNT = 5000, TOTAL = PARTS * COUNT, ROUNDS = 20 };
static int out[2][TOTAL], in[2][TOTAL];

static void order(MPI_Request request, int parts, int round)
{
    int list[PARTS], n = 0;
    switch (round % 4) {
    case 0:
        for (int i = 0; i < parts; i++)
            OK(MPI_Pready(i, request));
        break;
    case 1:
        for (int i = parts; i-- > 0;)
            OK(MPI_Pready(i, request));
        break;
    case 2:
        OK(MPI_Pready_range(0, parts - 1, request));
        break;
    default:
        for (int i = 1; i < parts; i += 2)
            list[n++] = i;
        for (int i = 0; i < parts; i += 2)
            list[n++] = i;
        OK(MPI_Pready_list(n, list, request));
    }
}

static void pair(int send_parts, int recv_parts, MPI_Datatype type, int ints)
{
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks, flag, got;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    for (int k = 0; k < 2; k++)
        OK(MPI_Precv_init(in[k], recv_parts, TOTAL / recv_parts / ints, type, left, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &requests[k]));
    for (int k = 0; k < 2; k++)
        OK(MPI_Psend_init(out[k], send_parts, TOTAL / send_parts, MPI_INT, right, 7, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &requests[2 + k]));
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < TOTAL; i++)
                out[k][i] = ((my_rank * 2 + k) * ROUNDS + round) * TOTAL + i, in[k][i] = -1;
        OK(MPI_Startall(4, requests));
        order(requests[2], send_parts, round);
        order(requests[3], send_parts, round + 1);
        if (round % 3 == 0)
            for (int i = 0; i < recv_parts; i++)
                for (flag = 0; !flag;)
                    OK(MPI_Parrived(requests[i % 2], i, &flag));
        OK(MPI_Waitall(4, requests, statuses));
        for (int k = 0; k < 2; k++) {
            OK(MPI_Get_count(&statuses[k], type, &got));
            CHECK(statuses[k].MPI_SOURCE == left && statuses[k].MPI_TAG == 7, "source %d tag %d",
                  statuses[k].MPI_SOURCE, statuses[k].MPI_TAG);
            for (int i = 0; i < TOTAL; i++)
                CHECK(in[k][i] == ((left * 2 + k) * ROUNDS + round) * TOTAL + i, "%d to %d parts, round %d: [%d] = %d",
                      send_parts, recv_parts, round, i, in[k][i]);
        }
        OK(MPI_Parrived(requests[0], 0, &flag));
        CHECK(flag, "the partition of an inactive request has arrived");
    }
    for (int k = 0; k < 4; k++)
        OK(MPI_Request_free(&requests[k]));
}

static void nothing(void)
{
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks, got;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Precv_init(in[0], 0, 4, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Psend_init(out[0], 0, 4, MPI_INT, right, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, statuses));
        OK(MPI_Get_count(&statuses[0], MPI_INT, &got));
        CHECK(got == 0, "%d elements of no partitions", got);
    }
    for (int k = 0; k < 2; k++)
        OK(MPI_Request_free(&requests[k]));
}

/* Two messages, received in the other order, whose tags have all lower bits in common. */
static void tags(int tag)
{
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    for (int k = 0; k < 2; k++)
        OK(MPI_Psend_init(out[k], 1, 1, MPI_INT, right, k * tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[k]));
    for (int k = 2; k-- > 0;)
        OK(MPI_Precv_init(in[k], 1, 1, MPI_INT, left, k * tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2 + k]));
    for (int k = 0; k < 2; k++)
        out[k][0] = 1 + k, in[k][0] = -1;
    OK(MPI_Startall(4, requests));
    for (int k = 0; k < 2; k++)
        OK(MPI_Pready(0, requests[k]));
    OK(MPI_Waitall(4, requests, statuses));
    for (int k = 0; k < 2; k++)
        CHECK(in[k][0] == 1 + k && statuses[2 + k].MPI_TAG == k * tag, "tag %d: %d", k * tag, in[k][0]);
    for (int k = 0; k < 4; k++)
        OK(MPI_Request_free(&requests[k]));
}

static void early(void)
{
    int right = (my_rank + 1) % n_ranks, left = (my_rank + n_ranks - 1) % n_ranks, flag, token = 0;
    MPI_Request send, recv;
    OK(MPI_Psend_init(out[0], PARTS, COUNT, MPI_INT, right, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in[0], PARTS, COUNT, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
    OK(MPI_Start(&recv));
    OK(MPI_Start(&send));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_ARG, MPI_Pready_range(4, 2, send));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Pready(3, send));
    for (flag = 0; !flag;)
        OK(MPI_Parrived(recv, 3, &flag));
    OK(MPI_Parrived(recv, 4, &flag));
    CHECK(!flag, "partition 4 is not ready");
    /* Everybody has seen its partition 3 before anybody marks the others. */
    OK(MPI_Allreduce(MPI_IN_PLACE, &token, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Pready_range(0, 2, send));
    OK(MPI_Pready_range(4, PARTS - 1, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&recv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_ARG, MPI_Psend_init(out, -1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    FAILS(MPI_ERR_RANK, MPI_Precv_init(in, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Psend_init(out, 2, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    FAILS(MPI_ERR_REQUEST, MPI_Pready(0, send));
    OK(MPI_Start(&send));
    FAILS(MPI_ERR_ARG, MPI_Pready(2, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Psend_init(out[0], 2, 1, MPI_INT, my_rank, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in[0], 2, 1, MPI_INT, my_rank, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
    OK(MPI_Start(&send));
    OK(MPI_Start(&recv));
    OK(MPI_Pready(1, send));
    FAILS(MPI_ERR_ARG, MPI_Pready(1, send));
    OK(MPI_Pready(0, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&recv));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    int parts[] = {1, 2, 3, PARTS}, flag;
    for (int s = 0; s < 4; s++)
        for (int r = 0; r < 4; r++)
            pair(parts[s], parts[r], MPI_INT, 1);
    for (int bit = 1; bit < 28; bit++)
        tags(1 << bit);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag, "a partition is seen by a probe");
    if (argc > 1 && !strcmp(argv[1], "early")) {
        /* The sender's partitions cut the receiver's elements, which have gaps. */
        MPI_Datatype swapped;
        int lengths[] = {10, 10}, places[] = {10, 0};
        OK(MPI_Type_indexed(2, lengths, places, MPI_INT, &swapped));
        OK(MPI_Type_commit(&swapped));
        MPI_Request send, recv;
        for (int k = 0; k < 2; k++) {
            int to = (my_rank + 1) % n_ranks, from = (my_rank + n_ranks - 1) % n_ranks;
            for (int i = 0; i < 60; i++)
                out[0][i] = i, in[0][i] = -1;
            OK(MPI_Precv_init(in[0], 3, 1, swapped, from, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &recv));
            OK(MPI_Psend_init(out[0], 4, 15, MPI_INT, to, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
            OK(MPI_Start(&recv));
            OK(MPI_Start(&send));
            order(send, 4, k);
            for (flag = !k; !flag;)
                OK(MPI_Parrived(recv, 1, &flag));
            OK(MPI_Wait(&recv, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            for (int i = 0; i < 60; i++)
                CHECK(in[0][i] == (i / 10 % 2 ? i - 10 : i + 10), "swapped [%d] = %d", i, in[0][i]);
            OK(MPI_Request_free(&send));
            OK(MPI_Request_free(&recv));
        }
        OK(MPI_Type_free(&swapped));
        early();
        nothing(); /* MPICH 5.0.2 insists on one. */
    }
    return finish();
}

/* Claim: every Wait and Test form and Request_get_status completes the right requests once, reports index, count and
 * status, and gives the empty answers for null, inactive and empty lists. */
#include "check.h"

enum { N = 8 };
static int in[N];
static MPI_Request requests[N];
static MPI_Status statuses[N];
static int indices[N];

static void post(int peer)
{
    for (int i = 0; i < N; i++) {
        in[i] = -1;
        OK(MPI_Irecv(&in[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]));
    }
}

static void send_one(int peer, int i)
{
    int value = 1000 + i;
    OK(MPI_Send(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD));
}

/* The peer sends what the receiver asks for: a tag, or -1 for the end of the round. */
static void serve(void)
{
    int want = 0;
    for (;;) {
        OK(MPI_Recv(&want, 1, MPI_INT, 0, 500, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (want < 0)
            return;
        send_one(0, want);
    }
}
static void ask(int i) { OK(MPI_Send(&i, 1, MPI_INT, 1, 500, MPI_COMM_WORLD)); }

static void arrived(int i, const MPI_Status *status)
{
    CHECK_STATUS(*status, 1, i, MPI_INT, 1);
    CHECK(in[i] == 1000 + i, "in[%d] = %d", i, in[i]);
    CHECK(requests[i] == MPI_REQUEST_NULL, "request %d survived", i);
}

static void any_forms(int testing)
{
    int index = -1, flag = 0;
    MPI_Status status;
    post(1);
    OK(MPI_Testany(N, requests, &index, &flag, &status));
    CHECK(!flag && index == MPI_UNDEFINED, "flag %d index %d", flag, index);
    for (int n = 0, i = 5; n < N; n++, i = (i + 3) % N) {
        ask(i);
        if (testing) {
            do
                OK(MPI_Testany(N, requests, &index, &flag, &status));
            while (!flag);
        } else {
            OK(MPI_Waitany(N, requests, &index, &status));
        }
        CHECK(index == i, "index %d, expected %d", index, i);
        arrived(i, &status);
    }
    index = flag = 0;
    OK(testing ? MPI_Testany(N, requests, &index, &flag, &status) : MPI_Waitany(N, requests, &index, &status));
    CHECK(index == MPI_UNDEFINED && (!testing || flag), "all null: index %d flag %d", index, flag);
    CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_INT, 0);
    OK(testing ? MPI_Testany(0, NULL, &index, &flag, &status) : MPI_Waitany(0, NULL, &index, &status));
    CHECK(index == MPI_UNDEFINED, "empty list: index %d", index);
}

static void some_forms(int testing)
{
    int count = -1, seen = 0, done[N] = {0};
    post(1);
    OK(MPI_Testsome(N, requests, &count, indices, statuses));
    CHECK(count == 0, "%d done before anything was sent", count);
    for (int i = 0; i < N; i++)
        ask(N - 1 - i);
    while (seen < N) {
        if (testing)
            OK(MPI_Testsome(N, requests, &count, indices, statuses));
        else
            OK(MPI_Waitsome(N, requests, &count, indices, statuses));
        CHECK(count >= !testing && count <= N - seen, "count %d", count);
        for (int k = 0; k < count; k++, seen++) {
            CHECK(!done[indices[k]]++, "index %d twice", indices[k]);
            arrived(indices[k], &statuses[k]);
        }
    }
    OK(testing ? MPI_Testsome(N, requests, &count, indices, statuses)
               : MPI_Waitsome(N, requests, &count, indices, MPI_STATUSES_IGNORE));
    CHECK(count == MPI_UNDEFINED, "all null: count %d", count);
}

static void all_forms(int testing)
{
    int flag = 0;
    post(1);
    for (int i = 0; i < N; i++) {
        OK(MPI_Testall(N, requests, &flag, statuses));
        CHECK(!flag, "all done with %d of %d sent", i, N);
        for (int k = 0; k < N; k++)
            CHECK(requests[k] != MPI_REQUEST_NULL, "Testall freed one of an incomplete list");
        ask(i);
    }
    if (testing) {
        do
            OK(MPI_Testall(N, requests, &flag, statuses));
        while (!flag);
    } else {
        OK(MPI_Waitall(N, requests, statuses));
    }
    for (int i = 0; i < N; i++)
        arrived(i, &statuses[i]);
    flag = 0;
    OK(testing ? MPI_Testall(N, requests, &flag, statuses) : MPI_Waitall(N, requests, statuses));
    CHECK(!testing || flag, "a list of nulls is complete");
    for (int i = 0; i < N; i++)
        CHECK_STATUS(statuses[i], MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_INT, 0);
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag, "the empty list is complete");
}

static void single_forms(void)
{
    int flag = 1;
    MPI_Status status;
    post(1);
    for (int i = 0; i < N; i++) {
        OK(MPI_Test(&requests[i], &flag, &status));
        CHECK(!flag, "done before it was sent");
        OK(MPI_Request_get_status(requests[i], &flag, &status));
        CHECK(!flag, "done before it was sent");
        ask(i);
        if (i % 2) { /* asking does not free */
            for (int again = 0; again < 2; again++) {
                do
                    OK(MPI_Request_get_status(requests[i], &flag, &status));
                while (!flag);
                CHECK_STATUS(status, 1, i, MPI_INT, 1);
                CHECK(requests[i] != MPI_REQUEST_NULL, "Request_get_status freed the request");
            }
        }
        if (i % 4 < 2) {
            OK(MPI_Wait(&requests[i], &status));
        } else {
            do
                OK(MPI_Test(&requests[i], &flag, &status));
            while (!flag);
        }
        arrived(i, &status);
        OK(MPI_Wait(&requests[i], &status));
        CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_INT, 0);
        flag = 0;
        OK(MPI_Test(&requests[i], &flag, &status));
        CHECK(flag, "a null request is complete");
        flag = 0;
        OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
        CHECK(flag, "a null request is complete");
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    if (my_rank == 1) {
        serve();
    } else if (my_rank == 0) {
        for (int testing = 0; testing < 2; testing++) {
            any_forms(testing);
            some_forms(testing);
            all_forms(testing);
        }
        single_forms();
        ask(-1);
    }
    return finish();
}

/* Ports and published names (MPI-4.1 §11.9): groups of one job connect, again and again, at a port that is known by its name or
 * by that of a service; two processes join over a socket. What is not open, or not published, is an error of its class. */
#include "check.h"
#include <sys/socket.h>

/* Both sides of a connection: the lower half of the job accepts. */
static void meet(MPI_Comm half, int accepts, const char *port)
{
    MPI_Comm inter;
    int size, there, sum = 0, rank = my_rank;
    if (accepts)
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter));
    else
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter));
    OK(MPI_Comm_size(half, &size));
    OK(MPI_Comm_remote_size(inter, &there));
    CHECK(size + there == n_ranks, "%d and %d", size, there);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter));
    int below = size * 0 + n_ranks / 2, low = below * (below - 1) / 2;
    CHECK(sum == (accepts ? n_ranks * (n_ranks - 1) / 2 - low : low), "the others' ranks are %d", sum);
    OK(MPI_Comm_disconnect(&inter));
}

/* Who connects where nobody accepts is told when time is over, and when the port is closed; what it left there is in nobody's
 * way. */
static void not_accepted(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "timeout", "1"));
    if (my_rank == 0)
        OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    /* Rank 0 is outside MPI meanwhile, and hears of the knock and of its end at once. */
    if (my_rank == 0)
        usleep(1500000);
    if (my_rank == 1) {
        double began = MPI_Wtime();
        FAILS(MPI_ERR_PORT, MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &inter));
        CHECK(MPI_Wtime() - began >= 1, "after %g s", MPI_Wtime() - began);
    }
    if (my_rank < 2) {
        int got = -1;
        if (my_rank == 0)
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        else
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        OK(MPI_Sendrecv(&my_rank, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE));
        CHECK(got == !my_rank, "rank %d", got);
        OK(MPI_Comm_disconnect(&inter));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0) {
        usleep(100000); /* the others have knocked, most likely */
        OK(MPI_Close_port(port));
    } else {
        FAILS(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    }
    OK(MPI_Info_set(info, "timeout", "soon"));
    if (my_rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        FAILS(MPI_ERR_COMM, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        FAILS(MPI_ERR_INFO_VALUE, MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &inter));
        OK(MPI_Close_port(port));
    }
    OK(MPI_Info_free(&info));
}

/* All wait, and one of them only until NEARMPI_CONNECT_MAX is over: that is no deadlock. */
static int unanswered(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (my_rank == 0)
        OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (my_rank == 1)
        FAILS(MPI_ERR_PORT, MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0)
        OK(MPI_Close_port(port));
    return finish();
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "", found[MPI_MAX_PORT_NAME], service[32];
    start(&argc, &argv);
    if (argc > 1 && strcmp(argv[1], "unanswered") == 0)
        return unanswered();
    int accepts = my_rank < n_ranks / 2;
    MPI_Comm half, inter, one;
    OK(MPI_Comm_split(MPI_COMM_WORLD, accepts, 0, &half));
    for (int turn = 0; turn < 10; turn++) {
        snprintf(service, sizeof service, "turn %d", turn);
        if (my_rank == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Lookup_name(service, MPI_INFO_NULL, found));
        CHECK(my_rank || strcmp(found, port) == 0, "%s instead of %s", found, port);
        meet(half, accepts, found);
        if (turn % 2)
            meet(half, accepts, found);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank == 0) {
            OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
            OK(MPI_Close_port(port));
        }
    }
    OK(MPI_Comm_free(&half));

    /* A socket, between the first two. */
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank < 2 ? 0 : MPI_UNDEFINED, 0, &one));
    if (my_rank < 2) {
        /* The descriptor goes from rank 0 to rank 1 by a path below /proc only where pids are told: by a named one here. */
        char path[64];
        int pid = getpid(), fd;
        OK(MPI_Bcast(&pid, 1, MPI_INT, 0, one));
        snprintf(path, sizeof path, "@nearmpi-join-%d", pid);
        struct { sa_family_t family; char name[64]; } address = {AF_UNIX, {0}};
        memcpy(address.name + 1, path, strlen(path));
        socklen_t len = sizeof address.family + 1 + strlen(path);
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        if (my_rank == 0)
            CHECK(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 1) == 0, "cannot listen");
        OK(MPI_Barrier(one));
        if (my_rank == 0)
            fd = accept(listener, NULL, NULL);
        else
            CHECK(connect(fd = listener, (struct sockaddr *)&address, len) == 0, "cannot connect");
        OK(MPI_Comm_join(fd, &inter));
        int size, got = -1;
        OK(MPI_Comm_remote_size(inter, &size));
        OK(MPI_Sendrecv(&my_rank, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, inter, MPI_STATUS_IGNORE));
        CHECK(size == 1 && got == !my_rank, "%d there, rank %d", size, got);
        OK(MPI_Comm_disconnect(&inter));
        OK(MPI_Comm_free(&one));
    }

    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_NAME, MPI_Lookup_name("nobody", MPI_INFO_NULL, found));
    FAILS(MPI_ERR_SERVICE, MPI_Unpublish_name("nobody", MPI_INFO_NULL, "port"));
    FAILS(MPI_ERR_PORT, MPI_Comm_connect("nowhere", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    FAILS(MPI_ERR_PORT, MPI_Comm_connect("nowhere", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    if (argc > 1) {
        /* What other MPIs don't look at. */
        FAILS(MPI_ERR_PORT, MPI_Comm_connect(port[0] ? port : "nearmpi:1:1:0:5:1", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        FAILS(MPI_ERR_PORT, MPI_Comm_accept("nowhere", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
        FAILS(MPI_ERR_PORT, MPI_Close_port("nowhere"));
        FAILS(MPI_ERR_ROOT, MPI_Comm_accept("nowhere", MPI_INFO_NULL, 1, MPI_COMM_SELF, &inter));
        CHECK(inter == MPI_COMM_NULL, "a handle");
        snprintf(service, sizeof service, "mine %d", my_rank);
        OK(MPI_Publish_name(service, MPI_INFO_NULL, "port"));
        FAILS(MPI_ERR_SERVICE, MPI_Publish_name(service, MPI_INFO_NULL, "port"));
        OK(MPI_Unpublish_name(service, MPI_INFO_NULL, "port"));
        FAILS(MPI_ERR_ARG, MPI_Comm_join(-1, &inter));
        for (int turn = 0; turn < 2; turn++)
            not_accepted();
    }
    return finish();
}

/* Either side of connections between a job and jobs that join it, for tests/joined.rs:
 *
 *   program serve TIMES       opens a port, publishes it, prints its name, and lets in so many
 *   program busy              as serve 1, but first three seconds outside MPI
 *   program looks             as busy, but before that it looks at what has come: who knocks early is heard, and not whether it stays
 *   program relay             as call, and then as serve 1, but tells nobody but its reader of the port
 *   program call [PORT]       connects to that port, or to the published one
 *   program die-in-service    as serve 1, but rank 0 dies when somebody has come
 *   program die-on-call       as call, but rank 0 dies when it is let in
 *   program withdraw          as call, but waits a second at most and expects not to be let in
 *   program hold              as call, but says so when it is let in, and does nothing more
 *   program expect-death      as serve 1, for a caller that dies
 *   program wait-for-death    as call, for a server that dies: with errors fatal
 *   program abort             rank 0 calls MPI_Abort with code 5
 *   program stuck             every rank waits for itself
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void check(int condition, const char *what)
{
    if (!condition) {
        printf("rank %d: %s\n", rank, what);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Every rank sends to all on the other side, short and long, and both sides sum up. */
static void talk(MPI_Comm inter)
{
    int there, sum = 0, lens[] = {0, 8, 5000, 70000, 1 << 21};
    MPI_Comm_remote_size(inter, &there);
    for (int i = 0; i < 5; i++) {
        int len = lens[i];
        char *mine = malloc(len + 1), *theirs = calloc(there, len + 1);
        memset(mine, 'a' + rank, len + 1);
        MPI_Request requests[2 * there];
        for (int peer = 0; peer < there; peer++) {
            MPI_Irecv(theirs + peer * (len + 1L), len + 1, MPI_CHAR, peer, i, inter, &requests[2 * peer]);
            MPI_Isend(mine, len + 1, MPI_CHAR, peer, i, inter, &requests[2 * peer + 1]);
        }
        MPI_Waitall(2 * there, requests, MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < there; peer++)
            for (int at = 0; at <= len; at++)
                check(theirs[peer * (len + 1L) + at] == 'a' + peer, "wrong bytes");
        free(mine);
        free(theirs);
    }
    int one = rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
    check(sum == there * (there + 1) / 2, "wrong sum");
    MPI_Comm all;
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    check(sum == there * (there + 1) / 2 + size * (size + 1) / 2, "wrong sum of all");
    MPI_Comm_free(&all);
}

int main(int argc, char **argv)
{
    MPI_Comm inter, parent;
    char port[MPI_MAX_PORT_NAME] = "";
    const char *role = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    check(parent == MPI_COMM_NULL, "has parents");
    check(size == atoi(getenv("PMI_SIZE")), "wrong size");
    if (strcmp(role, "abort") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Abort(MPI_COMM_WORLD, 5);
        pause();
    }
    if (strcmp(role, "stuck") == 0)
        MPI_Recv(port, 1, MPI_CHAR, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const char *callers[] = {"call", "die-on-call", "wait-for-death", "hold", "relay", "withdraw"};
    int calls = 0;
    for (int i = 0; i < 6; i++)
        calls |= strcmp(role, callers[i]) == 0;
    if (calls) {
        MPI_Info info;
        int class;
        MPI_Info_create(&info);
        if (argc > 2)
            strcpy(port, argv[2]);
        else
            MPI_Lookup_name("tests/joined", MPI_INFO_NULL, port);
        if (strcmp(role, "withdraw") == 0) {
            MPI_Info_set(info, "timeout", "1");
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            MPI_Error_class(MPI_Comm_connect(port, info, size - 1, MPI_COMM_WORLD, &inter), &class);
            check(class == MPI_ERR_PORT, "was let in");
            MPI_Finalize();
            return 0;
        }
        MPI_Comm_connect(port, info, size - 1, MPI_COMM_WORLD, &inter);
        MPI_Info_free(&info);
    }
    if (strcmp(role, "relay") == 0) {
        talk(inter);
        MPI_Comm_disconnect(&inter);
        calls = 0;
    }
    if (!calls && rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        if (strcmp(role, "relay") != 0)
            MPI_Publish_name("tests/joined", MPI_INFO_NULL, port);
        printf("%s\n", port);
        fflush(stdout);
    }
    for (double began = MPI_Wtime(); strcmp(role, "looks") == 0 && MPI_Wtime() - began < 0.7;) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    if (strcmp(role, "busy") == 0 || strcmp(role, "looks") == 0)
        sleep(3);
    for (int times = calls ? 1 : strcmp(role, "serve") == 0 ? atoi(argv[2]) : 1; times > 0; times--) {
        if (!calls)
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        if (strncmp(role, "die", 3) == 0 || strcmp(role, "hold") == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0 && role[0] == 'd')
                raise(SIGKILL);
            if (rank == 0)
                puts("holds");
            fflush(stdout);
            pause();
        }
        if (strstr(role, "death")) {
            char byte;
            int class;
            if (!calls)
                MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
            MPI_Error_class(MPI_Recv(&byte, 1, MPI_CHAR, 0, 0, inter, MPI_STATUS_IGNORE), &class);
            check(class == MPIX_ERR_PROC_FAILED, "another error");
            printf("rank %d outlives the caller\n", rank);
            break;
        }
        talk(inter);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0 && !calls) {
        if (strcmp(role, "relay") != 0)
            MPI_Unpublish_name("tests/joined", MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    MPI_Finalize();
    printf("%s %d of %d is done\n", role, rank, size);
    return 0;
}

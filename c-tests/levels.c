/* Claim: each thread level can be asked for and at least that is provided and remembered; Initialized, Finalized and
 * the version calls work before Init and after Finalize. Argument: the level, or `plain` for MPI_Init. */
#include "check.h"
#include <pthread.h>

static void *not_main(void *argument)
{
    int is_main = 1;
    MPI_Is_thread_main(&is_main);
    *(int *)argument = is_main;
    return NULL;
}

static void anytime(int initialized, int finalized)
{
    int flag = -1, version = 0, subversion = 0, length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    OK(MPI_Initialized(&flag));
    CHECK(!flag == !initialized, "Initialized says %d", flag);
    OK(MPI_Finalized(&flag));
    CHECK(!flag == !finalized, "Finalized says %d", flag);
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version >= 4, "version %d.%d", version, subversion);
    OK(MPI_Get_library_version(text, &length));
    CHECK(length > 0 && (size_t)length == strlen(text), "library version '%s', length %d", text, length);
}

int main(int argc, char **argv)
{
    const char *names[] = {"single", "funneled", "serialized", "multiple", "plain"};
    const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE, MPI_THREAD_SINGLE};
    int which = 4, provided = -1, asked = -1;
    for (int i = 0; i < 5; i++)
        if (argc > 1 && !strcmp(argv[1], names[i]))
            which = i;
    anytime(0, 0);
    if (which == 4) {
        OK(MPI_Init(NULL, NULL));
    } else {
        OK(MPI_Init_thread(&argc, &argv, levels[which], &provided));
        CHECK(provided >= levels[which] && provided <= MPI_THREAD_MULTIPLE, "asked %d, provided %d", levels[which], provided);
    }
    anytime(1, 0);
    OK(MPI_Query_thread(&asked));
    CHECK(which == 4 || asked == provided, "Query_thread says %d, Init_thread said %d", asked, provided);
    if (asked >= MPI_THREAD_FUNNELED) {
        int answer = -1;
        pthread_t thread;
        pthread_create(&thread, NULL, not_main, &answer);
        pthread_join(thread, NULL);
        CHECK(answer == 0, "another thread is told that it is the main one");
    }
    int rank, size, sum = 0;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2, "sum %d", sum);
    OK(MPI_Finalize());
    anytime(1, 1);
    return 0;
}

/* Short messages cost no system call and no allocation: blocking and nonblocking, to a receive that waits and to none,
 * through the ring to this rank itself, so that nobody has to be waited for. System calls are caught by
 * prctl(PR_SET_SYSCALL_USER_DISPATCH), allocations by standing in for malloc. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { MESSAGES = 48, ROUNDS = 50, LONGEST = 512 };

static volatile char blocked; /* 0: system calls pass, 1: they raise SIGSYS */
static volatile long calls, last_call, allocations;
static volatile int counting;

extern void *__libc_malloc(size_t), *__libc_realloc(void *, size_t), *__libc_calloc(size_t, size_t);
void *malloc(size_t size) { allocations += counting; return __libc_malloc(size); }
void *realloc(void *old, size_t size) { allocations += counting; return __libc_realloc(old, size); }
void *calloc(size_t n, size_t size) { allocations += counting; return __libc_calloc(n, size); }

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    blocked = 0;
    calls++;
    last_call = info->si_syscall;
}

/* A window of messages of `size` bytes, by calls that wait (`late` 0), by Isend before Irecv (1) and after it (2). */
static void window(char *out, char *in, int size, int late)
{
    static MPI_Request sends[MESSAGES], receives[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        out[0] = (char)(i + size);
        if (late == 2)
            OK(MPI_Irecv(in, size, MPI_CHAR, my_rank, i, MPI_COMM_WORLD, &receives[i]));
        if (late)
            OK(MPI_Isend(out, size, MPI_CHAR, my_rank, i, MPI_COMM_WORLD, &sends[i]));
        else
            OK(MPI_Send(out, size, MPI_CHAR, my_rank, i, MPI_COMM_WORLD));
        if (late == 1)
            OK(MPI_Irecv(in, size, MPI_CHAR, my_rank, i, MPI_COMM_WORLD, &receives[i]));
        if (!late) {
            MPI_Status status;
            OK(MPI_Recv(in, size, MPI_CHAR, my_rank, i, MPI_COMM_WORLD, &status));
            CHECK(status.MPI_TAG == i && in[0] == (char)(i + size), "message %d of %d bytes", i, size);
        }
    }
    if (late) {
        OK(MPI_Waitall(MESSAGES, sends, MPI_STATUSES_IGNORE));
        OK(MPI_Waitall(MESSAGES, receives, MPI_STATUSES_IGNORE));
    }
}

int main(int argc, char **argv)
{
    static char out[LONGEST], in[LONGEST];
    start(&argc, &argv);
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "%s", strerror(errno));
    int watched = prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &blocked) == 0;
    for (int size = 1; size <= LONGEST; size *= 8)
        for (int late = 0; late < 3; late++) {
            window(out, in, size, late); /* tables grow to their size */
            counting = 1;
            blocked = (char)watched;
            for (int round = 0; round < ROUNDS; round++)
                window(out, in, size, late);
            blocked = 0;
            counting = 0;
            CHECK(calls == 0, "%ld system calls for messages of %d bytes (%d), the last one %ld", calls, size, late, last_call);
            CHECK(allocations == 0, "%ld allocations for messages of %d bytes (%d)", allocations, size, late);
        }
    return finish();
}

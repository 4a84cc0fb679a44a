/* A message that is copied once, to a receive that finds its offer, costs one system call: the copy. With memory from MPI_Alloc_mem it
 * costs none. (Pages of a ring that are made once, or a sender that sleeps, may cost a few in all.) System calls are caught by prctl(PR_SET_SYSCALL_USER_DISPATCH), made from the handler, and caught again when it has
 * returned. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { MESSAGES = 20, LENGTH = 64 << 10 };

volatile char blocked; /* 0: system calls pass, 1: they raise SIGSYS */
greg_t interrupted;
static volatile long copies, others, last_other;

/* Goes on behind a system call that was caught, changing no register. */
void resume(void);
__asm__(".text\nresume: movb $1, blocked(%rip)\n jmp *interrupted(%rip)\n");

static void caught(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    greg_t *at = ((ucontext_t *)context)->uc_mcontext.gregs;
    blocked = 0;
    if (info->si_syscall == SYS_process_vm_readv)
        copies++;
    else if (info->si_syscall != SYS_sched_yield && info->si_syscall != SYS_futex) /* the ranks may share a CPU */
        others++, last_other = info->si_syscall;
    long result = syscall(info->si_syscall, at[REG_RDI], at[REG_RSI], at[REG_RDX], at[REG_R10], at[REG_R8], at[REG_R9]);
    at[REG_RAX] = result < 0 ? -errno : result;
    interrupted = at[REG_RIP];
    at[REG_RIP] = (greg_t)resume;
}

/* Rank 1 receives messages that rank 0 has offered, and counts: so many copies each. */
static void exchange(char *data, long expected, int watched)
{
    copies = others = 0;
    for (int i = -2; i < MESSAGES; i++) { /* the first ones find out whether memory can be read */
        MPI_Request request = MPI_REQUEST_NULL;
        if (my_rank == 0) {
            memset(data, i + 3, LENGTH);
            OK(MPI_Isend(data, LENGTH, MPI_CHAR, 1, i + 2, MPI_COMM_WORLD, &request));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (my_rank == 1) {
            int there = 0;
            while (!there)
                OK(MPI_Iprobe(0, i + 2, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
            blocked = (char)(watched && i >= 0);
            int error = MPI_Recv(data, LENGTH, MPI_CHAR, 0, i + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            blocked = 0;
            CHECK(error == MPI_SUCCESS && data[0] == i + 3 && data[LENGTH - 1] == i + 3, "message %d", i);
        }
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    if (watched && my_rank == 1)
        CHECK(copies == expected * MESSAGES && others < MESSAGES / 4,
              "%d messages: %ld copies by the kernel and %ld other system calls, the last one %ld", MESSAGES, copies, others, last_other);
}

int main(int argc, char **argv)
{
    static char own[LENGTH];
    char *mapped;
    start(&argc, &argv);
    struct sigaction action = {.sa_sigaction = caught, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "%s", strerror(errno));
    int watched = prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &blocked) == 0;
    exchange(own, 1, watched);
    OK(MPI_Alloc_mem(LENGTH, MPI_INFO_NULL, &mapped));
    exchange(mapped, 0, watched);
    OK(MPI_Free_mem(mapped));
    return finish();
}

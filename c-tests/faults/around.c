/* Runs a program in poor surroundings: `around WHAT[,WHAT...] PROGRAM ARGUMENTS`. Linux, as root where a namespace or
 * another user is asked for. A name with `/R` at its end holds for the rank R of the job only.
 *
 *   eperm, enosys   process_vm_readv and process_vm_writev fail so (seccomp)
 *   user            as the user nobody          userns, pidns, mntns, ipcns, netns   in a namespace of its own
 *   shm=SIZE        /dev/shm of that size       shmro    a read-only /dev/shm        nosys    an empty /sys
 *   nofile=N, as=N, fsize=N, memlock=N, core=N  limits
 *   closed=FD       a closed descriptor         nohome   no HOME, PATH, TMPDIR */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void need(int outcome, const char *what)
{
    if (outcome < 0) {
        fprintf(stderr, "around: %s: %s\n", what, strerror(errno));
        exit(99);
    }
}

static void refuse(int error)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

static void limit(int which, const char *value)
{
    struct rlimit both = {strtoul(value, NULL, 10), strtoul(value, NULL, 10)};
    need(setrlimit(which, &both), "setrlimit");
}

static void private_mounts(void)
{
    need(unshare(CLONE_NEWNS), "mount namespace");
    need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "private mounts");
}

static void apply(char *what)
{
    char *only = strrchr(what, '/'), *value = strchr(what, '=');
    if (only) {
        const char *rank = getenv("PMI_RANK");
        *only = 0;
        if (!rank || strcmp(rank, only + 1))
            return;
    }
    if (value)
        *value++ = 0;
    if (!strcmp(what, "eperm"))
        refuse(EPERM);
    else if (!strcmp(what, "enosys"))
        refuse(ENOSYS);
    else if (!strcmp(what, "user")) {
        need(setgid(65534), "setgid");
        need(setuid(65534), "setuid");
    } else if (!strcmp(what, "userns"))
        need(unshare(CLONE_NEWUSER), "user namespace");
    else if (!strcmp(what, "mntns"))
        private_mounts();
    else if (!strcmp(what, "ipcns"))
        need(unshare(CLONE_NEWIPC), "ipc namespace");
    else if (!strcmp(what, "netns"))
        need(unshare(CLONE_NEWNET), "network namespace");
    else if (!strcmp(what, "pidns")) {
        need(unshare(CLONE_NEWPID), "pid namespace");
        pid_t child = fork();
        need(child, "fork");
        if (child > 0) {
            int status;
            waitpid(child, &status, 0);
            exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        }
    } else if (!strcmp(what, "shm") || !strcmp(what, "shmro")) {
        char size[64];
        private_mounts();
        snprintf(size, sizeof size, "size=%s", value ? value : "64k");
        need(mount("tmpfs", "/dev/shm", "tmpfs", value ? 0 : MS_RDONLY, size), "/dev/shm");
    } else if (!strcmp(what, "nosys")) {
        private_mounts();
        need(mount("tmpfs", "/sys", "tmpfs", MS_RDONLY, NULL), "/sys");
    } else if (!strcmp(what, "nofile"))
        limit(RLIMIT_NOFILE, value);
    else if (!strcmp(what, "as"))
        limit(RLIMIT_AS, value);
    else if (!strcmp(what, "fsize"))
        limit(RLIMIT_FSIZE, value);
    else if (!strcmp(what, "memlock"))
        limit(RLIMIT_MEMLOCK, value);
    else if (!strcmp(what, "core"))
        limit(RLIMIT_CORE, value);
    else if (!strcmp(what, "closed"))
        close(atoi(value));
    else if (!strcmp(what, "nohome")) {
        unsetenv("HOME");
        unsetenv("TMPDIR");
        setenv("PATH", "", 1);
    } else {
        fprintf(stderr, "around: %s is not known\n", what);
        exit(99);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 99;
    for (char *what = strtok(argv[1], ","); what; what = strtok(NULL, ","))
        apply(what);
    execv(argv[2], argv + 2);
    need(-1, argv[2]);
}

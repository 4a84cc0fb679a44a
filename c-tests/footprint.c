/* Claim: what the library costs each of two ranks in memory, after MPI_Init and after a few messages: at most 1 MiB of Pss (pages
 * that several processes map count by shares; those of libc and the program do not count, their shares depend on what else runs),
 * and of the library's code at most 768 KiB is mapped: what programs commonly run lies together (scripts/order). */
#include "check.h"
#include <sys/mman.h>

static int is_ours(const char *mapping)
{
    return !strchr(mapping, '/') || strstr(mapping, "libmpi") || strstr(mapping, "/memfd:");
}

/* Sum of the lines of smaps with this label, in KiB, over mappings of ours whose first line contains the text. */
static long sum(const char *label, const char *text)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file, "no smaps");
    char line[512];
    long kib = 0;
    for (int counts = 0; fgets(line, sizeof line, file);)
        if (strchr("0123456789abcdef", line[0]))
            counts = is_ours(line) && strstr(line, text);
        else if (counts && !strncmp(line, label, strlen(label)))
            kib += strtol(line + strlen(label), NULL, 10);
    fclose(file);
    return kib;
}

static void look(const char *when)
{
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* both have touched what they touch */
    long all = sum("Pss:", ""), code = sum("Rss:", "r-xp");
    if (my_rank == 0)
        printf("footprint: %ld KiB %s, %ld of code mapped\n", all, when, code);
    CHECK(all <= 1024, "%ld KiB %s", all, when);
    CHECK(code <= 768, "%ld KiB of code mapped %s", code, when);
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody has gone while the other looks */
}

static char *pages(size_t length)
{
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED, "no memory for %zu bytes", length);
    return at;
}

/* What `memory` of osu-bench exchanges; the program's own buffers are gone afterwards. */
static void exchange(void)
{
    int most = 1 << 16;
    char *out = pages((size_t)most), *in = pages((size_t)most);
    OK(MPI_Alltoall(out, 8, MPI_CHAR, in, 8, MPI_CHAR, MPI_COMM_WORLD));
    OK(MPI_Alltoall(out, most / 4, MPI_CHAR, in, most / 4, MPI_CHAR, MPI_COMM_WORLD));
    OK(MPI_Sendrecv(out, most, MPI_CHAR, 1 - my_rank, 1, in, most, MPI_CHAR, 1 - my_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    munmap(out, (size_t)most);
    munmap(in, (size_t)most);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    look("after MPI_Init");
    exchange();
    look("after messages");
    return finish();
}

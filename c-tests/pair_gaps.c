/* Claim: reductions of pairs whose members leave gaps, as MPI_DOUBLE_INT's do, read and write these members alone: the bytes between
 * them stay, and the buffers end with the last element's last member (MPI-4.1 §5.1, §6.9.4). */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

enum { GAP = 0xaa, MOST = 5000 };

struct type {
    MPI_Datatype datatype;
    const char *name;
    size_t extent, value, index; /* bytes of the element and of the value, and where the index is */
};

static struct type types[4];

/* The first byte of `n` elements behind whose last member nothing can be read or written. */
static unsigned char *buffer(const struct type *type, size_t n)
{
    size_t len = (n - 1) * type->extent + type->index + sizeof(int), page = sysconf(_SC_PAGESIZE);
    size_t room = (len + page - 1) / page * page;
    unsigned char *at = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && !mprotect(at + room, page, PROT_NONE), "no memory");
    memset(at, GAP, room);
    return at + room - len;
}

static void leave(const struct type *type, unsigned char *at, size_t n)
{
    size_t len = (n - 1) * type->extent + type->index + sizeof(int), page = sysconf(_SC_PAGESIZE);
    size_t room = (len + page - 1) / page * page;
    munmap(at + len - room, room + page);
}

/* Writes the value and the index `rank` into each element, or looks for them and for the gaps. */
static void each(const struct type *type, unsigned char *at, size_t n, int rank, const char *call)
{
    unsigned char element[64];
    double number = rank;
    long whole = rank;
    short half = rank;
    long double wide = rank;
    memset(element, GAP, sizeof element);
    if (type->datatype == MPI_DOUBLE_INT) memcpy(element, &number, sizeof number);
    if (type->datatype == MPI_LONG_INT) memcpy(element, &whole, sizeof whole);
    if (type->datatype == MPI_SHORT_INT) memcpy(element, &half, sizeof half);
    if (type->datatype == MPI_LONG_DOUBLE_INT) memset(element, 0, sizeof wide), memcpy(element, &wide, 10);
    memcpy(element + type->index, &rank, sizeof rank);
    for (size_t i = 0; i < n; i++)
        for (size_t byte = 0; byte < (i + 1 < n ? type->extent : type->index + sizeof(int)); byte++) {
            unsigned char *place = at + i * type->extent + byte;
            if (!call) *place = byte < type->value || byte >= type->index ? element[byte] : GAP;
            else if (byte < 10 || byte >= type->value) /* a long double has 10 bytes */
                CHECK(*place == (byte < type->index + sizeof(int) ? element[byte] : GAP), "%s of %zu %s: byte %zu of element %zu is %02x",
                      call, n, type->name, byte, i, *place);
            if (!call && byte >= type->index + sizeof(int)) *place = GAP + 1 + my_rank; /* nobody else's gaps */
        }
}

static void all(const struct type *type, size_t n)
{
    const int last = n_ranks - 1;
    const char *calls[] = {"MPI_Allreduce", "MPI_Allreduce in place", "MPI_Reduce", "MPI_Scan", "MPI_Exscan",
                           "MPI_Reduce_scatter_block", "MPI_Iallreduce", "MPI_Allreduce_init"};
    for (int what = 0; what < 8; what++) {
        size_t sent = what == 5 ? n * n_ranks : n;
        unsigned char *out = buffer(type, sent), *in = buffer(type, n);
        MPI_Request request;
        each(type, out, sent, my_rank, NULL);
        switch (what) {
        case 0: OK(MPI_Allreduce(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD)); break;
        case 1:
            for (size_t i = 0; i < n; i++) /* the members alone */
                memcpy(in + i * type->extent, out + i * type->extent, type->value),
                    memcpy(in + i * type->extent + type->index, &my_rank, sizeof my_rank);
            OK(MPI_Allreduce(MPI_IN_PLACE, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD));
            break;
        case 2: OK(MPI_Reduce(out, in, n, type->datatype, MPI_MAXLOC, last, MPI_COMM_WORLD)); break;
        case 3: OK(MPI_Scan(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD)); break;
        case 4: OK(MPI_Exscan(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD)); break;
        case 5: OK(MPI_Reduce_scatter_block(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD)); break;
        case 6:
            OK(MPI_Iallreduce(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        default:
            OK(MPI_Allreduce_init(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&request));
        }
        int from = what == 3 ? my_rank : what == 4 ? my_rank - 1 : last;
        if (from >= 0 && (what != 2 || my_rank == last)) each(type, in, n, from, calls[what]);
        leave(type, out, sent);
        leave(type, in, n);
    }
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 3, 300, MOST};
    start(&argc, &argv);
    types[0] = (struct type){MPI_DOUBLE_INT, "MPI_DOUBLE_INT", 16, 8, 8};
    types[1] = (struct type){MPI_LONG_INT, "MPI_LONG_INT", 16, 8, 8};
    types[2] = (struct type){MPI_SHORT_INT, "MPI_SHORT_INT", 8, 2, 4};
    types[3] = (struct type){MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", 32, 16, 16};
    for (int round = 0; round < 2; round++) /* the second time the ranks have met */
        for (int t = 0; t < 4; t++)
            for (int c = 0; c < 4; c++)
                all(&types[t], counts[c]);
    return finish();
}

/* Claim: reductions of pairs whose members leave gaps, as MPI_DOUBLE_INT's do, read and write these members alone: the bytes between
 * them stay, and the buffers end with the last element's last member (MPI-4.1 §5.1, §6.9.4). */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

enum { GAP = 0xaa, LONG_DOUBLE = 10 /* bytes that count */ };

struct type {
    MPI_Datatype datatype;
    const char *name;
    size_t extent, value, index; /* bytes of the element and of the value, and where the index is */
};

/* Bytes from the first element to the last one's last member, and of the pages that they lie at the end of. */
static size_t length(const struct type *type, size_t n)
{
    return (n - 1) * type->extent + type->index + sizeof(int);
}

static size_t pages(size_t len)
{
    size_t page = sysconf(_SC_PAGESIZE);
    return (len + page - 1) / page * page;
}

/* The first byte of `n` elements, all of them `fill`, behind whose last member nothing can be read or written. */
static unsigned char *buffer(const struct type *type, size_t n, int fill)
{
    size_t len = length(type, n), room = pages(len), page = pages(1);
    unsigned char *at = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && !mprotect(at + room, page, PROT_NONE), "no memory");
    memset(at, fill, room);
    return at + room - len;
}

static void leave(const struct type *type, unsigned char *at, size_t n)
{
    size_t len = length(type, n), room = pages(len);
    munmap(at + len - room, room + pages(1));
}

/* Writes value and index `rank` to an element, and nothing between them. */
static void set(const struct type *type, unsigned char *element, int rank)
{
    double number = rank;
    long whole = rank;
    short half = rank;
    long double wide = rank;
    if (type->datatype == MPI_DOUBLE_INT) memcpy(element, &number, sizeof number);
    if (type->datatype == MPI_LONG_INT) memcpy(element, &whole, sizeof whole);
    if (type->datatype == MPI_SHORT_INT) memcpy(element, &half, sizeof half);
    if (type->datatype == MPI_LONG_DOUBLE_INT) memcpy(element, &wide, LONG_DOUBLE);
    memcpy(element + type->index, &rank, sizeof rank);
}

/* All elements are those that `rank` gave, and what lies between is GAP as before. */
static void look(const struct type *type, const unsigned char *at, size_t n, int rank, const char *call)
{
    unsigned char element[64];
    memset(element, GAP, sizeof element);
    set(type, element, rank);
    for (size_t byte = 0; byte < length(type, n); byte++) {
        size_t in = byte % type->extent;
        int is_padding = type->datatype == MPI_LONG_DOUBLE_INT && in >= LONG_DOUBLE && in < type->value; /* of the value itself */
        CHECK(is_padding || at[byte] == element[in], "%s of %zu %s: byte %zu of element %zu is %02x, not %02x", call, n, type->name, in,
              byte / type->extent, at[byte], element[in]);
    }
}

static void all(const struct type *type, size_t n)
{
    const int last = n_ranks - 1;
    const char *calls[] = {"MPI_Allreduce", "MPI_Allreduce in place", "MPI_Reduce", "MPI_Scan", "MPI_Exscan",
                           "MPI_Reduce_scatter_block", "MPI_Iallreduce", "MPI_Allreduce_init"};
    for (int what = 0; what < 8; what++) {
        size_t sent = what == 5 ? n * n_ranks : n;
        unsigned char *out = buffer(type, sent, my_rank + 1), *in = buffer(type, n, GAP); /* each rank has gaps of its own */
        MPI_Request request;
        for (size_t i = 0; i < sent; i++) set(type, out + i * type->extent, my_rank);
        switch (what) {
        case 0: OK(MPI_Allreduce(out, in, n, type->datatype, MPI_MAXLOC, MPI_COMM_WORLD)); break;
        case 1:
            for (size_t i = 0; i < n; i++) set(type, in + i * type->extent, my_rank);
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
        if (from >= 0 && (what != 2 || my_rank == last)) look(type, in, n, from, calls[what]);
        leave(type, out, sent);
        leave(type, in, n);
    }
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {1, 3, 300, 5000};
    start(&argc, &argv);
    const struct type types[] = {
        {MPI_DOUBLE_INT, "MPI_DOUBLE_INT", 16, 8, 8},
        {MPI_LONG_INT, "MPI_LONG_INT", 16, 8, 8},
        {MPI_SHORT_INT, "MPI_SHORT_INT", 8, 2, 4},
        {MPI_LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", 32, 16, 16},
    };
    for (int round = 0; round < 2; round++) /* the second time the ranks have met */
        for (int t = 0; t < 4; t++)
            for (int c = 0; c < 4; c++)
                all(&types[t], counts[c]);
    return finish();
}

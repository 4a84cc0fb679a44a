/* libnearmpi-heap.so: a heap that other ranks can reach. Put before a program with LD_PRELOAD it serves what the program asks malloc
 * for, from NEARMPI_HEAP_MIN bytes on and after MPI_Init, out of memory that all ranks of the job map; everything else is libc's.
 * Messages between such buffers are copied once and without the kernel (src/channel/direct.rs).
 *
 * The memory is dealt out in pages, in blocks that each begin on one. What is known of a block stands beside the heap, not in it:
 *
 *     map[first], map[last] of a block = its pages * 2 + whether it is in use; map of other pages = 0
 *     a free block is also in the list of its size class (log2 of its pages), linked by next[first] and prev[first]
 *
 * A child made by fork gets a private copy: see heap_in_child. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

/* glibc's own, under the names that it keeps for replacements like this one. */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void __libc_free(void *);

enum { PAGE = 4096, CLASSES = 32 };
/* Free memory that is kept for the next block rather than given back to the kernel, in bytes. */
static const size_t KEPT = 64 << 20;
/* Bytes from which a block is emptied by the kernel rather than by memset. */
static const size_t EMPTIED = 256 << 10;

static struct {
    char *base;
    size_t pages, least; /* least: bytes of a block */
    uint32_t *map, *next, *prev;
    uint32_t lists[CLASSES]; /* page number + 1; 0: none */
    size_t kept;             /* bytes of free blocks that have not been given back, about */
    int file;
    off_t at; /* where `base` lies in the file */
    pthread_mutex_t lock;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int is_ours(const void *block)
{
    char *base = __atomic_load_n(&heap.base, __ATOMIC_ACQUIRE);
    return base && (const char *)block >= base && (size_t)((const char *)block - base) < heap.pages * PAGE;
}

static int class_of(size_t pages) { return 63 - __builtin_clzll(pages); }

static void mark(uint32_t first, uint32_t pages, uint32_t used)
{
    heap.map[first] = heap.map[first + pages - 1] = pages * 2 + used;
}

static void put_in(uint32_t first, uint32_t pages)
{
    uint32_t *list = &heap.lists[class_of(pages)];
    mark(first, pages, 0);
    heap.next[first] = *list;
    heap.prev[first] = 0;
    if (*list)
        heap.prev[*list - 1] = first + 1;
    *list = first + 1;
}

static void take_out(uint32_t first)
{
    uint32_t next = heap.next[first], prev = heap.prev[first];
    if (prev)
        heap.next[prev - 1] = next;
    else
        heap.lists[class_of(heap.map[first] / 2)] = next;
    if (next)
        heap.prev[next - 1] = prev;
}

/* The first free block with so many pages; the number of pages there are: none. */
static size_t find(size_t pages)
{
    for (int class = class_of(pages); class < CLASSES; class++)
        for (uint32_t at = heap.lists[class]; at; at = heap.next[at - 1])
            if (heap.map[at - 1] / 2 >= pages)
                return at - 1;
    return heap.pages;
}

/* A block for `len` bytes, on a page; NULL where there is none. */
static void *take(size_t len)
{
    if (!__atomic_load_n(&heap.base, __ATOMIC_ACQUIRE) || len < heap.least || len > heap.pages * PAGE)
        return NULL;
    size_t pages = (len + PAGE - 1) / PAGE;
    pthread_mutex_lock(&heap.lock);
    size_t first = find(pages);
    if (first < heap.pages) {
        uint32_t all = heap.map[first] / 2;
        take_out(first);
        if (all > pages)
            put_in(first + pages, all - pages);
        mark(first, pages, 1);
        heap.kept -= heap.kept < pages * PAGE ? heap.kept : pages * PAGE;
    }
    pthread_mutex_unlock(&heap.lock);
    return first < heap.pages ? heap.base + first * PAGE : NULL;
}

/* Number of the page where `block` begins. Ends the process, as libc does, if none in use begins there. */
static size_t page_of(void *block)
{
    static const char said[] = "libnearmpi-heap: a block was freed or resized that is not in use\n";
    size_t offset = (char *)block - heap.base;
    if (offset % PAGE == 0 && heap.map[offset / PAGE] & 1)
        return offset / PAGE;
    if (write(STDERR_FILENO, said, sizeof said - 1) < 0) {}
    abort();
}

static void give_back(void *block)
{
    pthread_mutex_lock(&heap.lock);
    size_t first = page_of(block);
    uint32_t pages = heap.map[first] / 2;
    heap.kept += (size_t)pages * PAGE;
    if (heap.kept > KEPT) {
        madvise(block, (size_t)pages * PAGE, MADV_REMOVE);
        heap.kept -= (size_t)pages * PAGE;
    }
    heap.map[first] = heap.map[first + pages - 1] = 0;
    if (first + pages < heap.pages && !(heap.map[first + pages] & 1)) {
        uint32_t behind = heap.map[first + pages] / 2;
        take_out(first + pages);
        heap.map[first + pages] = 0;
        pages += behind;
    }
    if (first > 0 && !(heap.map[first - 1] & 1)) {
        uint32_t before = heap.map[first - 1] / 2;
        heap.map[first - 1] = 0;
        first -= before, pages += before;
        heap.map[first] = before * 2;
        take_out(first);
    }
    put_in(first, pages);
    pthread_mutex_unlock(&heap.lock);
}

static size_t room_of(void *block) { return (size_t)(heap.map[page_of(block)] / 2) * PAGE; }

static void heap_before_fork(void) { pthread_mutex_lock(&heap.lock); }
static void heap_in_parent(void) { pthread_mutex_unlock(&heap.lock); }

/* What the child writes must not reach the parent. (Of what the parent writes the child sees what it has not written to itself.) */
static void heap_in_child(void)
{
    pthread_mutex_unlock(&heap.lock);
    int flags = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
    mmap(heap.base, heap.pages * PAGE, PROT_READ | PROT_WRITE, flags, heap.file, heap.at);
}

static uint32_t *table(size_t entries)
{
    void *at = mmap(NULL, entries * sizeof(uint32_t), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* libmpi calls it in MPI_Init: from now on blocks of at least `least` bytes lie within the `len` bytes at `base`, which are those of
 * `file` from `at` on and stay mapped until the process ends. Returns 0, or -1 when nothing has changed. */
__attribute__((visibility("default"))) int nearmpi_heap_begin(void *base, size_t len, size_t least, int file, off_t at)
{
    size_t pages = len / PAGE;
    if (heap.base || !pages || pages >= UINT32_MAX / 2 || !least)
        return -1;
    heap.map = table(pages), heap.next = table(pages), heap.prev = table(pages);
    if (!heap.map || !heap.next || !heap.prev || pthread_atfork(heap_before_fork, heap_in_parent, heap_in_child))
        return -1;
    heap.pages = pages, heap.least = least, heap.file = file, heap.at = at;
    put_in(0, pages);
    __atomic_store_n(&heap.base, (char *)base, __ATOMIC_RELEASE);
    return 0;
}

void *malloc(size_t len)
{
    void *block = take(len);
    return block ? block : __libc_malloc(len);
}

void free(void *block)
{
    if (is_ours(block))
        give_back(block);
    else
        __libc_free(block);
}

void *calloc(size_t count, size_t each)
{
    size_t len;
    void *block = __builtin_mul_overflow(count, each, &len) ? NULL : take(len);
    if (!block)
        return __libc_calloc(count, each);
    if (len < EMPTIED || madvise(block, room_of(block), MADV_REMOVE))
        memset(block, 0, len);
    return block;
}

void *realloc(void *block, size_t len)
{
    if (block && !is_ours(block)) {
        return __libc_realloc(block, len);
    } else if (!block) {
        return malloc(len);
    } else if (!len) {
        free(block);
        return NULL;
    }
    size_t room = room_of(block);
    if (len <= room && len > room / 2)
        return block;
    void *other = malloc(len);
    if (other) {
        memcpy(other, block, len < room ? len : room);
        free(block);
    }
    return other;
}

void *memalign(size_t alignment, size_t len)
{
    void *block = alignment <= PAGE ? take(len) : NULL;
    return block ? block : __libc_memalign(alignment, len);
}

void *aligned_alloc(size_t alignment, size_t len) { return memalign(alignment, len); }
void *valloc(size_t len) { return memalign(PAGE, len); }
void *pvalloc(size_t len) { return memalign(PAGE, (len + PAGE - 1) / PAGE * PAGE); }

int posix_memalign(void **block, size_t alignment, size_t len)
{
    if (alignment % sizeof(void *) || alignment & (alignment - 1) || !alignment)
        return EINVAL;
    void *made = memalign(alignment, len);
    if (!made)
        return ENOMEM;
    *block = made;
    return 0;
}

size_t malloc_usable_size(void *block)
{
    if (is_ours(block))
        return room_of(block);
    size_t (*libc)(void *) = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return libc && block ? libc(block) : 0;
}

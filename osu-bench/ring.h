/* The ranks as a ring, each with the one below and the one above as neighbours: what the neighbourhood collectives run on. */
#ifndef RING_H
#define RING_H
#include "common.h"

/* Made once, in the warm-up. */
static inline MPI_Comm ring(void)
{
    static MPI_Comm made = MPI_COMM_NULL;
    if (made == MPI_COMM_NULL) {
        int around = 1;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &around, 0, &made);
    }
    return made;
}

static inline int neighbor(int i) { return (rank + (i ? 1 : ranks - 1)) % ranks; }

/* put and verify where each neighbour gets a block of its own, and where both get the same one. In a ring of two the
 * neighbour on both sides is the same, and the two blocks for it are equal: MPIs differ in which one comes first. */
static inline void put_for_neighbors(const Run *run, unsigned seed)
{
    for (int i = 0; i < 2; i++)
        fill((char *)run->send + run->bytes * (size_t)i, run->bytes, exchanged(seed, rank, neighbor(i)));
}

static inline void verify_for_neighbors(const Run *run, unsigned seed)
{
    for (int i = 0; i < 2; i++)
        check((char *)run->receive + run->bytes * (size_t)i, run->bytes, exchanged(seed, neighbor(i), rank));
}

static inline void verify_neighbors(const Run *run, unsigned seed)
{
    for (int i = 0; i < 2; i++)
        check((char *)run->receive + run->bytes * (size_t)i, run->bytes, sent(seed, neighbor(i)));
}
#endif

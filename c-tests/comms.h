/* The communicators on which each collective is tried: the world, its ranks reversed, its odd and even halves, and
 * self. Includes check.h. */
#ifndef COMMS_H
#define COMMS_H
#include "check.h"

enum { COMMS = 4 };

static inline void make_comms(MPI_Comm *comms)
{
    comms[0] = MPI_COMM_WORLD;
    comms[1] = MPI_COMM_SELF;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -my_rank, &comms[2]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, my_rank, &comms[3]));
}

static inline void free_comms(MPI_Comm *comms)
{
    OK(MPI_Comm_free(&comms[2]));
    OK(MPI_Comm_free(&comms[3]));
}

/* Element counts that cross every threshold a library may have. */
static const int counts[] = {0, 1, 2, 7, 64, 1000, 4099, 70001};
enum { COUNTS = sizeof counts / sizeof *counts, MOST = 70001 };

/* Element `i` of the contribution of `rank`. */
static inline int element(int rank, int i) { return rank * 1000003 + i * 7 + 1; }
#endif

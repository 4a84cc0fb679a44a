/* For programs that include ROMIO's header beside mpi.h: all of it is there. */
#include "mpi.h"

/* Windows of nonblocking sends answered by one short message: the frame of bw, bibw and mbw_mr. */
#ifndef WINDOW_H
#define WINDOW_H
#include "common.h"

enum { PAGE = 4096 };

/* Buffers for a window: one for all messages, or with --fresh or -c one for each. */
typedef struct {
    char *out, *in;
    int own; /* each message has its own buffer, on pages of its own */
    MPI_Request *out_requests, *in_requests;
} Window;

static inline Window window(void)
{
    int own = options.fresh || options.validate;
    size_t room = own ? (options.max + PAGE) * (size_t)options.window : options.max;
    return (Window){buffer(room), buffer(room), own,
                    malloc(sizeof(MPI_Request) * (size_t)options.window), malloc(sizeof(MPI_Request) * (size_t)options.window)};
}

/* Where message `i` of the window lies. */
static inline size_t place(const Window *w, size_t size, int i) { return w->own ? (size + PAGE - 1) / PAGE * PAGE * (size_t)i : 0; }

static inline void post_sends(const Window *w, size_t size, int peer, unsigned seed)
{
    for (int i = 0; i < options.window; i++) {
        char *at = w->out + place(w, size, i);
        if (options.validate)
            fill(at, size, seed * 64 + (unsigned)i);
        else if (options.fresh)
            memset(at, (int)seed + i, size);
        MPI_Isend(at, (int)size, MPI_CHAR, peer, 100, MPI_COMM_WORLD, &w->out_requests[i]);
    }
}

static inline void post_receives(const Window *w, size_t size, int peer)
{
    for (int i = 0; i < options.window; i++)
        MPI_Irecv(w->in + place(w, size, i), (int)size, MPI_CHAR, peer, 100, MPI_COMM_WORLD, &w->in_requests[i]);
}

static inline void wait_sends(const Window *w) { MPI_Waitall(options.window, w->out_requests, MPI_STATUSES_IGNORE); }

static inline void wait_receives(const Window *w, size_t size, unsigned seed)
{
    MPI_Waitall(options.window, w->in_requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < options.window && (options.fresh || options.validate); i++) {
        const char *at = w->in + place(w, size, i);
        if (options.validate)
            check(at, size, seed * 64 + (unsigned)i);
        else
            consume(at, size);
    }
}

static inline void answer(int peer)
{
    char byte = 0;
    MPI_Send(&byte, 1, MPI_CHAR, peer, 101, MPI_COMM_WORLD);
}

static inline void await_answer(int peer)
{
    char byte;
    MPI_Recv(&byte, 1, MPI_CHAR, peer, 101, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

#define WINDOW_VALUES \
    .min = 1, .max = 4 << 20, .iterations = 100, .iterations_large = 20, .warmup = 10, .warmup_large = 2, .window = 64
#define WINDOW_DEFAULTS {WINDOW_VALUES}

static inline void need_two(const char *program)
{
    if (ranks == 2)
        return;
    if (rank == 0)
        fprintf(stderr, "%s: needs exactly two ranks\n", program);
    MPI_Finalize();
    exit(1);
}
#endif

/* What every C test shares: start and finish, a CHECK that names rank and line, and byte patterns that tell
 * one message from another. Each test opens with the claim it holds; a broken claim ends the job with code 1. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int my_rank = -1, n_ranks = 0;

/* Says which claim broke and ends the whole job. */
#define CHECK(condition, ...)                                                          \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: rank %d: %s: ", __FILE__, __LINE__, my_rank, #condition); \
            fprintf(stderr, __VA_ARGS__);                                              \
            fputc('\n', stderr);                                                       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                              \
            _exit(1);                                                                  \
        }                                                                              \
    } while (0)

/* An MPI call that must succeed. */
#define OK(call)                                                     \
    do {                                                             \
        int code_ = (call);                                          \
        CHECK(code_ == MPI_SUCCESS, "%s returned %d", #call, code_); \
    } while (0)

/* An MPI call that must fail with exactly this error class and have a text for it. */
#define FAILS(class_, call)                                                                          \
    do {                                                                                             \
        int code_ = (call), got_ = -1, length_ = 0;                                                  \
        char text_[MPI_MAX_ERROR_STRING] = "";                                                       \
        CHECK(code_ != MPI_SUCCESS, "%s succeeded, expected %s", #call, #class_);                    \
        MPI_Error_class(code_, &got_);                                                               \
        MPI_Error_string(code_, text_, &length_);                                                    \
        CHECK(got_ == (class_), "%s: class %d, expected %s: %s", #call, got_, #class_, text_);       \
        CHECK(length_ > 0 && length_ == (int)strlen(text_), "%s: no error text", #call);             \
    } while (0)

static inline void start(int *argc, char ***argv)
{
    OK(MPI_Init(argc, argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
}

static inline int finish(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}

/* The byte at `i` of the message `seed`: different for neighbours, pages and messages. */
static inline unsigned char byte_at(unsigned seed, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u + 12345u;
    return (unsigned char)(x >> 24 ^ x >> 11);
}

static inline void fill(void *buffer, size_t length, unsigned seed)
{
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(seed, i);
}

/* The first place where the buffer is not the message `seed`, or -1. */
static inline long long first_difference(const void *buffer, size_t length, unsigned seed)
{
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != byte_at(seed, i))
            return (long long)i;
    return -1;
}

#define CHECK_BYTES(buffer, length, seed)                                                       \
    do {                                                                                        \
        long long at_ = first_difference(buffer, length, seed);                                 \
        CHECK(at_ < 0, "byte %lld of %zu is wrong (seed %u)", at_, (size_t)(length), (unsigned)(seed)); \
    } while (0)

/* Every byte from `from` to `to` still has the value `guard`. */
#define CHECK_GUARD(buffer, from, to, guard)                                                    \
    do {                                                                                        \
        for (size_t i_ = (from); i_ < (size_t)(to); i_++)                                       \
            CHECK(((const unsigned char *)(buffer))[i_] == (guard), "byte %zu was written", i_); \
    } while (0)

#define CHECK_STATUS(status, source, tag, type, expected)                                       \
    do {                                                                                        \
        int count_ = -77;                                                                       \
        CHECK((status).MPI_SOURCE == (source), "source %d", (status).MPI_SOURCE);               \
        CHECK((status).MPI_TAG == (tag), "tag %d", (status).MPI_TAG);                           \
        OK(MPI_Get_count(&(status), type, &count_));                                            \
        CHECK(count_ == (int)(expected), "count %d, expected %d", count_, (int)(expected));     \
    } while (0)

/* A small generator, the same on every machine. */
static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static inline void *need(size_t length)
{
    void *memory = malloc(length ? length : 1);
    CHECK(memory != NULL, "no memory for %zu bytes", length);
    return memory;
}
#endif

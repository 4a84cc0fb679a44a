/* Reduction kernels on the representations that Rust has no type for: x87 extended precision and
   binary128, their complex numbers, and the pair of a long double and an int. Like the kernels of
   kernel.rs: right[i] = left[i] op right[i], at any alignment. The arithmetic of binary128 comes
   from libgcc.

   Elements are read and written where they lie: an x87 number goes to memory in two stores, and a
   copy of all 16 bytes that reads it right after would have to wait for both. */
#include <stddef.h>

typedef long double f80;
typedef __float128 f128;
typedef struct { f80 re, im; } c80;
typedef struct { f128 re, im; } c128;
typedef struct { f80 value; int index; } f80_loc;

/* Two rows of elements at any alignment. */
#define KERNEL(NAME, TYPE, STEP)                                                    \
    typedef union {                                                                 \
        TYPE is;                                                                    \
        struct { char of[sizeof(TYPE)]; } bytes;                                    \
    } __attribute__((packed, may_alias)) NAME##_t;                                  \
    void nearmpi_##NAME(const char *left, char *right, size_t count);               \
    void nearmpi_##NAME(const char *left, char *right, size_t count) {              \
        const NAME##_t *from = (const NAME##_t *)left;                              \
        NAME##_t *to = (NAME##_t *)right;                                           \
        for (size_t i = 0; i < count; i++) {                                        \
            TYPE a = from[i].is, b = to[i].is;                                      \
            STEP;                                                                   \
        }                                                                           \
    }

/* An element made of two; and the first one, if so, as it is, without a branch that nobody could foretell. */
#define MADE(NAME, TYPE, RESULT) KERNEL(NAME, TYPE, TYPE r; RESULT; to[i].is = r)
#define CHOSEN(NAME, TYPE, IF) KERNEL(NAME, TYPE, to[i].bytes = ((IF) ? from : to)[i].bytes)

#define REAL(T)                                                             \
    CHOSEN(T##_max, T, a > b)                                               \
    CHOSEN(T##_min, T, a < b)                                               \
    MADE(T##_sum, T, r = a + b)                                             \
    MADE(T##_prod, T, r = a * b)
REAL(f80)
REAL(f128)

#define COMPLEX(T)                                                          \
    MADE(T##_sum, T, r.re = a.re + b.re; r.im = a.im + b.im)                \
    MADE(T##_prod, T, r.re = a.re * b.re - a.im * b.im;                     \
           r.im = a.re * b.im + a.im * b.re)
COMPLEX(c80)
COMPLEX(c128)

/* Value and index of the first one, if so; what lies behind them belongs to neither. */
#define LOCATED(NAME, IF)                                                   \
    KERNEL(NAME, f80_loc,                                                   \
           struct { char of[offsetof(f80_loc, index) + sizeof(int)]; } r;   \
           __builtin_memcpy(&r, &((IF) ? from : to)[i], sizeof r);          \
           __builtin_memcpy(&to[i], &r, sizeof r))
LOCATED(f80_maxloc, a.value > b.value || (a.value == b.value && a.index < b.index))
LOCATED(f80_minloc, a.value < b.value || (a.value == b.value && a.index < b.index))

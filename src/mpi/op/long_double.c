/* Reduction kernels on the representations that Rust has no type for: x87 extended precision and
   binary128, their complex numbers, and the pair of a long double and an int. Like the kernels of
   kernel.rs: right[i] = left[i] op right[i], at any alignment. The arithmetic of binary128 comes
   from libgcc. */
#include <stddef.h>
#include <string.h>

typedef long double f80;
typedef __float128 f128;
typedef struct { f80 re, im; } c80;
typedef struct { f128 re, im; } c128;
typedef struct { f80 value; int index; } f80_loc;

#define KERNEL(NAME, TYPE, RESULT)                                          \
    void nearmpi_##NAME(const char *left, char *right, size_t count);       \
    void nearmpi_##NAME(const char *left, char *right, size_t count) {      \
        for (size_t i = 0; i < count; i++) {                                \
            TYPE a, b, r;                                                   \
            memcpy(&a, left + i * sizeof a, sizeof a);                      \
            memcpy(&b, right + i * sizeof b, sizeof b);                     \
            RESULT;                                                         \
            memcpy(right + i * sizeof r, &r, sizeof r);                     \
        }                                                                   \
    }

#define REAL(T)                                                             \
    KERNEL(T##_max, T, r = a > b ? a : b)                                   \
    KERNEL(T##_min, T, r = a < b ? a : b)                                   \
    KERNEL(T##_sum, T, r = a + b)                                           \
    KERNEL(T##_prod, T, r = a * b)
REAL(f80)
REAL(f128)

#define COMPLEX(T)                                                          \
    KERNEL(T##_sum, T, r.re = a.re + b.re; r.im = a.im + b.im)              \
    KERNEL(T##_prod, T, r.re = a.re * b.re - a.im * b.im;                   \
           r.im = a.re * b.im + a.im * b.re)
COMPLEX(c80)
COMPLEX(c128)

KERNEL(f80_maxloc, f80_loc, r = a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b)
KERNEL(f80_minloc, f80_loc, r = a.value < b.value || (a.value == b.value && a.index < b.index) ? a : b)

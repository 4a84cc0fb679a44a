/* Claim: every predefined operation gives the C result for every predefined C type it is defined for, by Allreduce
 * and Reduce_local, and is refused with MPI_ERR_OP for the others. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 37 };

/* One arithmetic type: every op it allows, computed by plain C on the same values. `bits` and `logic` say which. */
#define ARITHMETIC(T, TYPE, bits)                                                                       \
    do {                                                                                                \
        static T mine[N], all[64][N], got[N], want[N];                                                  \
        for (int r = 0; r < n_ranks; r++)                                                               \
            for (int i = 0; i < N; i++)                                                                 \
                all[r][i] = (T)((r * 5 + i * 3) % 4 + (i % 5 ? 1 : 0));                                 \
        memcpy(mine, all[my_rank], sizeof mine);                                                        \
        TRY(T, TYPE, MPI_SUM, a + b);                                                                   \
        TRY(T, TYPE, MPI_PROD, a *b);                                                                   \
        TRY(T, TYPE, MPI_MAX, a > b ? a : b);                                                           \
        TRY(T, TYPE, MPI_MIN, a < b ? a : b);                                                           \
        bits;                                                                                           \
    } while (0)
#define TRY(T, TYPE, OP, expression)                                                                    \
    do {                                                                                                \
        for (int i = 0; i < N; i++) {                                                                   \
            want[i] = all[0][i];                                                                        \
            for (int r = 1; r < n_ranks; r++) {                                                         \
                T a = want[i], b = all[r][i];                                                           \
                want[i] = (T)(expression);                                                              \
            }                                                                                           \
        }                                                                                               \
        memset(got, 0x5A, sizeof got);                                                                  \
        OK(MPI_Allreduce(mine, got, N, TYPE, OP, MPI_COMM_WORLD));                                      \
        for (int i = 0; i < N; i++)                                                                     \
            CHECK(got[i] == want[i], #TYPE " " #OP " at %d", i);                                        \
        memcpy(got, all[0], sizeof got);                                                                \
        OK(MPI_Reduce_local(all[n_ranks - 1], got, N, TYPE, OP));                                       \
        for (int i = 0; i < N; i++) {                                                                   \
            T a = all[n_ranks - 1][i], b = all[0][i];                                                   \
            CHECK(got[i] == (T)(expression), #TYPE " " #OP " local at %d", i);                          \
        }                                                                                               \
    } while (0)
#define LOGIC(T, TYPE)                \
    TRY(T, TYPE, MPI_LAND, a && b);   \
    TRY(T, TYPE, MPI_LOR, a || b);    \
    TRY(T, TYPE, MPI_LXOR, !a != !b)
#define BITS(T, TYPE)                 \
    TRY(T, TYPE, MPI_BAND, a & b);    \
    TRY(T, TYPE, MPI_BOR, a | b);     \
    TRY(T, TYPE, MPI_BXOR, a ^ b)
#define INTEGER(T, TYPE) ARITHMETIC(T, TYPE, LOGIC(T, TYPE); BITS(T, TYPE))
#define FLOATING(T, TYPE) ARITHMETIC(T, TYPE, (void)0)

#define PAIR(T, TYPE)                                                                                   \
    do {                                                                                                \
        struct { T value; int index; } mine[N], high[N], low[N];                                        \
        for (int i = 0; i < N; i++) {                                                                   \
            memset(&mine[i], 0, sizeof mine[i]);                                                        \
            mine[i].value = (T)((my_rank * 3 + i) % 4);                                                 \
            mine[i].index = 100 + my_rank;                                                              \
        }                                                                                               \
        OK(MPI_Allreduce(mine, high, N, TYPE, MPI_MAXLOC, MPI_COMM_WORLD));                             \
        OK(MPI_Allreduce(mine, low, N, TYPE, MPI_MINLOC, MPI_COMM_WORLD));                              \
        for (int i = 0; i < N; i++) {                                                                   \
            int top = 0, bottom = 0; /* the lowest index wins a tie */                                  \
            for (int r = 1; r < n_ranks; r++) {                                                         \
                if ((r * 3 + i) % 4 > (top * 3 + i) % 4)                                                \
                    top = r;                                                                            \
                if ((r * 3 + i) % 4 < (bottom * 3 + i) % 4)                                             \
                    bottom = r;                                                                         \
            }                                                                                           \
            CHECK(high[i].value == (T)((top * 3 + i) % 4) && high[i].index == 100 + top, #TYPE " maxloc at %d", i);    \
            CHECK(low[i].value == (T)((bottom * 3 + i) % 4) && low[i].index == 100 + bottom, #TYPE " minloc at %d", i); \
        }                                                                                               \
    } while (0)

static void integers(void)
{
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
    INTEGER(MPI_Aint, MPI_AINT);
    INTEGER(MPI_Offset, MPI_OFFSET);
    INTEGER(MPI_Count, MPI_COUNT);
}

static void others(void)
{
    FLOATING(float, MPI_FLOAT);
    FLOATING(double, MPI_DOUBLE);
    FLOATING(long double, MPI_LONG_DOUBLE);
    static bool all[64][N], mine[N], got[N], want[N];
    for (int r = 0; r < n_ranks; r++)
        for (int i = 0; i < N; i++)
            all[r][i] = (r + i) % 3 == 0;
    memcpy(mine, all[my_rank], sizeof mine);
    LOGIC(bool, MPI_C_BOOL);
#define COMPLEX(T, TYPE)                                                    \
    do {                                                                    \
        static T all[64][N], mine[N], got[N], want[N];                      \
        for (int r = 0; r < n_ranks; r++)                                   \
            for (int i = 0; i < N; i++)                                     \
                all[r][i] = (T)((r + i) % 3 - 1 + (i % 2 + r % 2) * I);     \
        memcpy(mine, all[my_rank], sizeof mine);                            \
        TRY(T, TYPE, MPI_SUM, a + b);                                       \
        TRY(T, TYPE, MPI_PROD, a *b);                                       \
    } while (0)
    COMPLEX(float complex, MPI_C_FLOAT_COMPLEX);
    COMPLEX(double complex, MPI_C_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
    static unsigned char byte_all[64][N], byte_mine[N], byte_got[N], byte_want[N];
    for (int r = 0; r < n_ranks; r++)
        fill(byte_all[r], N, r);
    memcpy(byte_mine, byte_all[my_rank], N);
#define all byte_all
#define mine byte_mine
#define got byte_got
#define want byte_want
    BITS(unsigned char, MPI_BYTE);
#undef all
#undef mine
#undef got
#undef want
}

static void refusals(void)
{
    double d = 0, e = 0;
    int i = 0, j = 0;
    FAILS(MPI_ERR_OP, MPI_Reduce_local(&d, &e, 1, MPI_DOUBLE, MPI_BAND));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(&i, &j, 1, MPI_INT, MPI_MAXLOC));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(&i, &j, 1, MPI_BYTE, MPI_SUM));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(&i, &j, 1, MPI_INT, MPI_OP_NULL));
    FAILS(MPI_ERR_OP, MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_BXOR, MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    integers();
    others();
    PAIR(float, MPI_FLOAT_INT);
    PAIR(double, MPI_DOUBLE_INT);
    PAIR(long, MPI_LONG_INT);
    PAIR(int, MPI_2INT);
    PAIR(short, MPI_SHORT_INT);
    PAIR(long double, MPI_LONG_DOUBLE_INT);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    refusals();
    return finish();
}

/* Claim: Get_count counts whole elements of the type asked for (MPI_UNDEFINED when it does not divide), Get_elements
 * counts basic elements of partial receives, and Status_set_elements / set_cancelled write what they read; with the argument
 * `strict` it sets basic elements of a datatype with several, as the standard has it. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Status status;
    MPI_Datatype pair, mixed;
    int values[20] = {0}, count, flag;
    MPI_Count large;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){0, 4}, (MPI_Datatype[]){MPI_INT, MPI_SHORT}, &mixed));
    OK(MPI_Type_commit(&mixed));
    for (int n = 0; n <= 9; n++) {
        if (my_rank == 0) {
            OK(MPI_Send(values, n, MPI_INT, 1, n, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(values, 5, pair, 0, n, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, pair, &count));
            CHECK(count == (n % 2 ? MPI_UNDEFINED : n / 2), "%d ints are %d pairs", n, count);
            OK(MPI_Get_elements(&status, pair, &count));
            CHECK(count == n, "%d ints are %d elements", n, count);
            OK(MPI_Get_elements_x(&status, pair, &large));
            CHECK(large == n, "%d ints are %lld elements", n, (long long)large);
            OK(MPI_Get_count(&status, MPI_INT, &count));
            CHECK(count == n, "%d ints are %d ints", n, count);
        }
    }
    /* int, short, short, int, short ... : elements of a partial struct */
    static const int bytes[] = {0, 4, 6, 8, 12, 14, 16}, elements[] = {0, 1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 7; i++) {
        if (my_rank == 0) {
            OK(MPI_Send(values, bytes[i], MPI_BYTE, 1, i, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(values, bytes[i], MPI_BYTE, 0, i, MPI_COMM_WORLD, &status));
            OK(MPI_Get_elements(&status, mixed, &count));
            CHECK(count == elements[i], "%d bytes are %d elements, expected %d", bytes[i], count, elements[i]);
            OK(MPI_Get_count(&status, mixed, &count));
            CHECK(count == (bytes[i] % 8 ? MPI_UNDEFINED : bytes[i] / 8), "%d bytes are %d structs", bytes[i], count);
        }
    }
    OK(MPI_Status_set_elements(&status, MPI_INT, 11));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 11, "set 11, got %d", count);
    for (int n = 0; n <= 6 && argc > 1; n++) {
        OK(MPI_Status_set_elements(&status, mixed, n));
        OK(MPI_Get_elements(&status, mixed, &count));
        CHECK(count == n, "set %d elements, got %d", n, count);
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK(count == bytes[n], "%d elements have %d bytes, got %d", n, bytes[n], count);
    }
    OK(MPI_Status_set_elements_x(&status, MPI_BYTE, (MPI_Count)5 << 30));
    OK(MPI_Get_elements_x(&status, MPI_BYTE, &large));
    CHECK(large == (MPI_Count)5 << 30, "set 5 Gi, got %lld", (long long)large);
    for (int cancelled = 1; cancelled >= 0; cancelled--) {
        OK(MPI_Status_set_cancelled(&status, cancelled));
        OK(MPI_Test_cancelled(&status, &flag));
        CHECK(flag == cancelled, "cancelled %d, got %d", cancelled, flag);
        OK(MPI_Get_elements_x(&status, MPI_BYTE, &large));
        CHECK(large == (MPI_Count)5 << 30, "set_cancelled changed the count to %lld", (long long)large);
    }
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&mixed));
    return finish();
}

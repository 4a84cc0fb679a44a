/* Claim: a message of 3 GiB arrives whole, as one element of a derived type and as MPI_Send_c with a large count. */
#include "check.h"

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const size_t length = 3ul << 30, mib = 1 << 20;
    unsigned char *buffer = need(length);
    MPI_Datatype block;
    MPI_Status status;
    MPI_Count got;
    OK(MPI_Type_contiguous((int)mib, MPI_BYTE, &block));
    OK(MPI_Type_commit(&block));
    for (int form = 0; form < 2; form++) {
        if (my_rank == 0) {
            fill(buffer, length, 77 + form);
            if (form == 0)
                OK(MPI_Send(buffer, (int)(length / mib), block, 1, form, MPI_COMM_WORLD));
            else
                OK(MPI_Send_c(buffer, (MPI_Count)length, MPI_BYTE, 1, form, MPI_COMM_WORLD));
        } else {
            if (form == 0)
                OK(MPI_Recv(buffer, (int)(length / mib), block, 0, form, MPI_COMM_WORLD, &status));
            else
                OK(MPI_Recv_c(buffer, (MPI_Count)length, MPI_BYTE, 0, form, MPI_COMM_WORLD, &status));
            OK(MPI_Get_elements_x(&status, MPI_BYTE, &got));
            CHECK(got == (MPI_Count)length, "got %lld bytes", (long long)got);
            int small = 0;
            OK(MPI_Get_count(&status, MPI_BYTE, &small));
            CHECK(small == MPI_UNDEFINED, "an int cannot hold the count, got %d", small);
            OK(MPI_Get_count_c(&status, MPI_BYTE, &got));
            CHECK(got == (MPI_Count)length, "Get_count_c gives %lld", (long long)got);
            CHECK_BYTES(buffer, length, 77 + form);
        }
    }
    OK(MPI_Type_free(&block));
    return finish();
}

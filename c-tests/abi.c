/* Claim: the library says which ABI it has: none of the standard's versions, 8-byte counts, and Fortran's types and
 * logicals as gfortran has them, which nobody can tell it anew; ROMIO's names are there. */
#include "check.h"
#include <mpio.h>

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPIO_Request none = MPIO_REQUEST_NULL;
    OK(MPIO_Wait(&none, MPI_STATUS_IGNORE));
    int major = 0, minor = 0, yes = 7, no = 7, set = 7, flag = 0, size = 0;
    OK(MPI_Abi_get_version(&major, &minor));
    CHECK(major == -1 && minor == -1, "%d.%d", major, minor);
    OK(MPI_Abi_get_fortran_booleans(sizeof(int), &yes, &no, &set));
    CHECK(yes == 1 && no == 0 && set == 1, "%d %d %d", yes, no, set);
    FAILS(MPI_ERR_ABI, MPI_Abi_get_fortran_booleans(2, &yes, &no, &set));
    FAILS(MPI_ERR_ABI, MPI_Abi_set_fortran_booleans(sizeof(int), &yes, &no));
    MPI_Info info;
    char value[16] = "";
    OK(MPI_Abi_get_info(&info));
    OK(MPI_Info_get(info, "mpi_count_size", 15, value, &flag));
    CHECK(flag && !strcmp(value, "8"), "a count has %s bytes", value);
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_get_fortran_info(&info));
    OK(MPI_Info_get(info, "mpi_double_precision_size", 15, value, &flag));
    OK(MPI_Type_size(MPI_DOUBLE_PRECISION, &size));
    CHECK(flag && atoi(value) == size, "DOUBLE PRECISION has %d bytes, told %s", size, value);
    OK(MPI_Info_get(info, "mpi_real16_supported", 15, value, &flag));
    CHECK(flag && !strcmp(value, "true"), "REAL*16: %s", value);
    FAILS(MPI_ERR_ABI, MPI_Abi_set_fortran_info(info));
    OK(MPI_Info_free(&info));
    return finish();
}

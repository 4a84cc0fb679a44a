! Each rank says who it is.
program hello
    use mpi
    implicit none
    integer :: rank, size, error
    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, size, error)
    print '(a,i0,a,i0)', 'rank ', rank, ' of ', size
    call MPI_Finalize(error)
end program

! What MPICH's Fortran library asks of the C library beyond plain calls: special addresses, weights, call-backs of every
! kind in Fortran's form, logicals, character strings, statuses, optional errors. Prints `rank R of N` when all is well.
module callbacks
    use mpi_f08
    implicit none
    integer :: copied = 0, deleted = 0, handled = 0, queried = 0, freed = 0, cancelled = 0
contains
    subroutine add(invec, inoutvec, len, datatype)
        use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
        type(c_ptr), value :: invec, inoutvec
        integer :: len
        type(MPI_Datatype) :: datatype
        integer, pointer :: a(:), b(:)
        if (datatype /= MPI_INTEGER) error stop 'the operation got another datatype'
        call c_f_pointer(invec, a, [len])
        call c_f_pointer(inoutvec, b, [len])
        b = a + b
    end subroutine
    subroutine copy(comm, key, extra, value_in, value_out, flag, ierror)
        type(MPI_Comm) :: comm
        integer :: key, ierror
        integer(MPI_ADDRESS_KIND) :: extra, value_in, value_out
        logical :: flag
        copied = copied + 1
        value_out = value_in + extra
        flag = .true.
        ierror = MPI_SUCCESS
    end subroutine
    subroutine remove(comm, key, value, extra, ierror)
        type(MPI_Comm) :: comm
        integer :: key, ierror
        integer(MPI_ADDRESS_KIND) :: value, extra
        deleted = deleted + 1
        ierror = MPI_SUCCESS
    end subroutine
    subroutine handle(comm, code)
        type(MPI_Comm) :: comm
        integer :: code
        handled = handled + 1
    end subroutine
    subroutine query(extra, status, ierror)
        integer(MPI_ADDRESS_KIND) :: extra
        type(MPI_Status) :: status
        integer :: ierror
        queried = queried + 1
        status%MPI_SOURCE = int(extra)
        status%MPI_TAG = 7
        call MPI_Status_set_elements(status, MPI_INTEGER, 3)
        call MPI_Status_set_cancelled(status, .false.)
        ierror = MPI_SUCCESS
    end subroutine
    subroutine release(extra, ierror)
        integer(MPI_ADDRESS_KIND) :: extra
        integer :: ierror
        freed = freed + 1
        ierror = MPI_SUCCESS
    end subroutine
    subroutine cancel(extra, complete, ierror)
        integer(MPI_ADDRESS_KIND) :: extra
        logical :: complete
        integer :: ierror
        if (complete) error stop 'an open request was cancelled as a complete one'
        cancelled = cancelled + 1
        ierror = MPI_SUCCESS
    end subroutine
end module

program claims
    use mpi_f08
    use callbacks
    implicit none
    integer :: rank, size, i, key, code, length, count, sums(4), ones(4) = 1
    integer, asynchronous :: token, got
    integer(MPI_ADDRESS_KIND), save :: value, extra = 77
    logical :: flag
    character(len=MPI_MAX_ERROR_STRING) :: text
    character(len=20) :: word
    type(MPI_Op) :: op
    type(MPI_Comm) :: dup
    type(MPI_Status) :: status
    type(MPI_Request) :: request
    type(MPI_Errhandler) :: handler
    type(MPI_Datatype) :: column
    type(MPI_Info) :: info
    type(MPI_Comm) :: ring
    integer :: ins, outs, from(1), to(1)
    integer :: matrix(3, 4) = reshape([(i, i = 1, 12)], [3, 4]), row(4)

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, size)

    call MPI_Op_create(add, .true., op)
    sums = ones
    call MPI_Allreduce(MPI_IN_PLACE, sums, 4, MPI_INTEGER, op, MPI_COMM_WORLD)
    call expect(all(sums == size), 'an operation of Fortran')
    call MPI_Op_free(op)

    call MPI_Comm_create_keyval(copy, remove, key, 1000_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 5_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(MPI_COMM_WORLD, dup)
    call MPI_Comm_get_attr(dup, key, value, flag)
    call expect(flag .and. value == 1005 .and. copied == 1, 'attributes are copied')
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
    call expect(flag .and. value >= 32767, 'predefined attributes')

    call MPI_Comm_create_errhandler(handle, handler)
    call MPI_Comm_set_errhandler(dup, handler)
    call MPI_Send(token, 1, MPI_INTEGER, size + 5, 0, dup, code)
    call expect(code /= MPI_SUCCESS .and. handled == 1, 'an error handler of Fortran')
    call MPI_Error_string(code, text, length)
    call expect(length > 0 .and. text(length:length) /= ' ', 'the text of an error')
    call MPI_Errhandler_free(handler)
    call MPI_Comm_free(dup)
    call expect(deleted == 1, 'attributes are deleted')
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
    call MPI_Comm_free_keyval(key)

    call MPI_Grequest_start(query, release, cancel, extra, request)
    call MPI_Cancel(request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call expect(status%MPI_SOURCE == 77 .and. status%MPI_TAG == 7 .and. count == 3, 'the status of a generalized request')
    call expect(queried == 1 .and. freed == 1 .and. cancelled == 1, 'call-backs of a generalized request')

    token = rank
    call MPI_Isend(token, 1, MPI_INTEGER, mod(rank + 1, size), 3, MPI_COMM_WORLD, request)
    call MPI_Recv(got, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call expect(got == mod(rank + size - 1, size) .and. status%MPI_SOURCE == got, 'a ring')

    call MPI_Type_vector(4, 1, 3, MPI_INTEGER, column)
    call MPI_Type_commit(column)
    call MPI_Sendrecv(matrix(2, 1), 1, column, rank, 4, row, 4, MPI_INTEGER, rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call expect(all(row == matrix(2, :)), 'a row of a matrix')
    call MPI_Type_free(column)

    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [mod(rank + size - 1, size)], MPI_UNWEIGHTED, &
        1, [mod(rank + 1, size)], MPI_UNWEIGHTED, MPI_INFO_NULL, .false., ring)
    call MPI_Dist_graph_neighbors_count(ring, ins, outs, flag)
    call expect(ins == 1 .and. outs == 1 .and. .not. flag, 'a graph without weights')
    call MPI_Dist_graph_neighbors(ring, 1, from, MPI_UNWEIGHTED, 1, to, MPI_UNWEIGHTED)
    call expect(from(1) == mod(rank + size - 1, size) .and. to(1) == mod(rank + 1, size), 'neighbours in a graph')
    call MPI_Comm_free(ring)

    call MPI_Info_create(info)
    call MPI_Info_set(info, 'key with blanks behind   ', '  value ')
    call MPI_Info_get(info, 'key with blanks behind', 20, word, flag)
    call expect(flag .and. word == 'value', 'strings lose their blanks')
    call MPI_Info_free(info)

    print '(a,i0,a,i0)', 'rank ', rank, ' of ', size
    call MPI_Finalize()
contains
    subroutine expect(holds, claim)
        logical, intent(in) :: holds
        character(len=*), intent(in) :: claim
        if (holds) return
        print '(a,i0,2a)', 'rank ', rank, ': not so: ', claim
        call MPI_Abort(MPI_COMM_WORLD, 1)
    end subroutine
end program

// What MPICH's C++ library asks of the C library: operations, attributes, error handlers and exceptions of C++.
// Prints `rank R of N` when all is well.
#include <cstdio>
#include <cstdlib>
#include <mpi.h>

static void expect(bool holds, const char *claim)
{
    if (!holds) {
        std::printf("not so: %s\n", claim);
        MPI::COMM_WORLD.Abort(1);
    }
}
static void add(const void *in, void *inout, int length, const MPI::Datatype &type)
{
    expect(type == MPI::INT, "the operation's datatype");
    for (int i = 0; i < length; i++)
        static_cast<int *>(inout)[i] += static_cast<const int *>(in)[i];
}
static int copied, deleted, handled;
static int copy(const MPI::Comm &, int, void *, void *in, void *out, bool &flag)
{
    copied++;
    *static_cast<void **>(out) = in;
    flag = true;
    return MPI::SUCCESS;
}
static int remove(MPI::Comm &, int, void *, void *) { return deleted++, MPI::SUCCESS; }
static void handle(MPI::Comm &, int *code, ...)
{
    handled++;
    expect(*code != MPI::SUCCESS, "the handler's code");
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
    MPI::Op op;
    op.Init(add, true);
    int mine = rank + 1, sum = 0;
    MPI::COMM_WORLD.Allreduce(&mine, &sum, 1, MPI::INT, op);
    expect(sum == size * (size + 1) / 2, "an operation of C++");
    op.Free();

    int key = MPI::Comm::Create_keyval(copy, remove, nullptr), value = 9;
    MPI::Intracomm dup = MPI::COMM_WORLD.Dup();
    dup.Set_attr(key, &value);
    MPI::Intracomm again = dup.Dup();
    void *found = nullptr;
    expect(again.Get_attr(key, &found) && found == &value && copied == 1, "attributes are copied");

    MPI::Errhandler handler = MPI::Comm::Create_errhandler(handle);
    again.Set_errhandler(handler);
    try {
        again.Send(&value, 1, MPI::INT, size + 5, 0);
    } catch (MPI::Exception &) {
    }
    expect(handled == 1, "an error handler of C++");
    dup.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    bool thrown = false;
    try {
        dup.Send(&value, 1, MPI::INT, size + 5, 0);
    } catch (MPI::Exception &error) {
        thrown = error.Get_error_class() == MPI::ERR_RANK;
    }
    expect(thrown, "an exception with its class");
    again.Free();
    dup.Free();
    expect(deleted == 2, "attributes are deleted");

    MPI::Status status;
    MPI::Request request = MPI::COMM_WORLD.Isend(&rank, 1, MPI::INT, (rank + 1) % size, 3);
    int got = -1;
    MPI::COMM_WORLD.Recv(&got, 1, MPI::INT, MPI::ANY_SOURCE, 3, status);
    request.Wait();
    expect(got == (rank + size - 1) % size && status.Get_source() == got && status.Get_count(MPI::INT) == 1, "a ring");
    std::printf("rank %d of %d\n", rank, size);
    MPI::Finalize();
}

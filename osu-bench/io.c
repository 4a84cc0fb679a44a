/* Writing a file and reading it back, MB/s of all ranks against the length of a block: each rank has 4 MiB in blocks of this
 * length, between those of the others (a view with gaps), by MPI_File_write_at_all and MPI_File_read_at_all. With --alone by
 * MPI_File_write_at and MPI_File_read_at; with --own each rank's blocks lie in a row. The file lies in $TMPDIR, else /tmp, and
 * in the page cache: nothing is written out. Own code. */
#include "common.h"
#include <unistd.h>

enum { SHARE = 4 << 20 };

static const char *alone, *own;

/* A name that all ranks know. */
static void name(char *path, size_t room)
{
    const char *folder = getenv("TMPDIR");
    long pid = getpid();
    MPI_Bcast(&pid, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(path, room, "%s/osu-io-%ld", folder ? folder : "/tmp", pid);
}

/* Ends the program if a call failed: files return errors unless told otherwise. */
static void must(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* This rank's blocks of `bytes`. */
static MPI_Datatype blocks(size_t bytes)
{
    MPI_Datatype block, type;
    int across = own ? 1 : ranks;
    MPI_Type_contiguous((int)bytes, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, (MPI_Aint)(bytes * (size_t)across), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&block);
    return type;
}

int main(int argc, char **argv)
{
    static const Extra extra[] = {{"alone", NULL, "by calls that are not collective", &alone},
                                  {"own", NULL, "each rank's blocks in a row", &own},
                                  {0}};
    static const Benchmark benchmark = {
        "MPI I/O Test", "Size       Write(MB/s)         Read(MB/s)", NULL, "mixc",
        {.min = 8, .max = 1 << 20, .iterations = 10, .iterations_large = 10, .warmup = 2, .warmup_large = 2, .extra = extra}};
    begin(&argc, &argv, &benchmark, MPI_THREAD_SINGLE);
    char path[4096], *out = buffer(SHARE), *in = buffer(SHARE);
    name(path, sizeof path);
    for (size_t size = options.min; size <= options.max; size = next_size(size)) {
        MPI_Datatype type = blocks(size);
        MPI_Offset first = (MPI_Offset)rank * (MPI_Offset)(own ? SHARE : size);
        MPI_File file;
        int skip = warmup(size), n = iterations(size);
        double took[2] = {0, 0}, values[2];
        must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
        must(MPI_File_set_view(file, first, MPI_BYTE, type, "native", MPI_INFO_NULL));
        for (int i = 0; i < skip + n; i++) {
            if (options.validate)
                fill(out, SHARE, (unsigned)(i * ranks + rank));
            for (int way = 0; way < 2; way++) {
                MPI_Barrier(MPI_COMM_WORLD);
                double from = MPI_Wtime();
                if (way == 0)
                    must((alone ? MPI_File_write_at : MPI_File_write_at_all)(file, 0, out, SHARE, MPI_BYTE, MPI_STATUS_IGNORE));
                else
                    must((alone ? MPI_File_read_at : MPI_File_read_at_all)(file, 0, in, SHARE, MPI_BYTE, MPI_STATUS_IGNORE));
                MPI_Barrier(MPI_COMM_WORLD);
                if (i >= skip)
                    took[way] += MPI_Wtime() - from;
            }
            if (options.validate)
                check(in, SHARE, (unsigned)(i * ranks + rank));
        }
        for (int way = 0; way < 2; way++)
            values[way] = (double)SHARE * ranks * n / took[way] / 1e6;
        row(size, values, 2);
        must(MPI_File_close(&file));
        MPI_Type_free(&type);
    }
    return end();
}

/* What the tests of files share: a folder of their own, short forms of common calls, and IS. Includes check.h. */
#ifndef IO_H
#define IO_H
#include "check.h"
#include <sys/stat.h>

enum { MADE = MPI_MODE_CREATE | MPI_MODE_RDWR, PASSING = MADE | MPI_MODE_DELETE_ON_CLOSE };
static char folder[300];

#define IS(value, expected)                                                                      \
    do {                                                                                         \
        long long value_ = (value), expected_ = (expected);                                      \
        CHECK(value_ == expected_, "%s is %lld, expected %lld", #value, value_, expected_);      \
    } while (0)

/* The path of a file in the folder of this run. */
static inline const char *name(const char *file)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

/* The name of a file for this rank alone. */
static inline const char *own(const char *file)
{
    static char text[60];
    snprintf(text, sizeof text, "%s %d", file, my_rank);
    return text;
}

static inline void enter(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/nearmpi-io-XXXXXX", tmp ? tmp : "/tmp");
    CHECK(my_rank || mkdtemp(folder), "cannot make %s", folder);
    OK(MPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, MPI_COMM_WORLD));
}

/* Every file was removed: the folder is empty. */
static inline void leave(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(my_rank || !rmdir(folder), "files are left in %s", folder);
}

static inline MPI_File opened(MPI_Comm comm, const char *file, int amode)
{
    MPI_File f = MPI_FILE_NULL;
    OK(MPI_File_open(comm, name(file), amode, MPI_INFO_NULL, &f));
    CHECK(f != MPI_FILE_NULL, "%s was not opened", file);
    return f;
}

/* Rank 0 writes a file without MPI. */
static inline void prepare(const char *file, size_t length, unsigned seed)
{
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the last file of this name is gone */
    if (my_rank == 0) {
        unsigned char *bytes = need(length);
        FILE *out = fopen(name(file), "w");
        fill(bytes, length, seed);
        CHECK(out && fwrite(bytes, 1, length, out) == length && !fclose(out), "cannot write %s", file);
        free(bytes);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static inline void discard(const char *file)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0)
        OK(MPI_File_delete(name(file), MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(access(name(file), F_OK), "%s is still there", file);
}

/* What each rank wrote before is in the file for each rank after. */
static inline void settle(MPI_File f)
{
    OK(MPI_File_sync(f));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_sync(f));
}

static inline void view(MPI_File f, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype)
{
    OK(MPI_File_set_view(f, disp, etype, filetype, "native", MPI_INFO_NULL));
}

static inline MPI_Datatype committed(MPI_Datatype type)
{
    OK(MPI_Type_commit(&type));
    return type;
}

/* A type of `n` blocks of old ones with an extent; all but its places are in old ones. */
static inline MPI_Datatype blocks(int n, const int *lengths, const MPI_Aint *places, MPI_Datatype old, MPI_Aint lb,
                                  MPI_Aint extent)
{
    MPI_Datatype open, type;
    OK(MPI_Type_create_hindexed(n, lengths, places, old, &open));
    OK(MPI_Type_create_resized(open, lb, extent, &type));
    OK(MPI_Type_free(&open));
    return committed(type);
}

/* What the file system has in the file once everybody has written; the caller frees it. */
static inline unsigned char *contents(MPI_File f, const char *file, size_t length)
{
    settle(f);
    unsigned char *bytes = need(length);
    FILE *in = fopen(name(file), "r");
    CHECK(in, "no file %s", file);
    IS(fread(bytes, 1, length, in), length);
    CHECK(fgetc(in) == EOF, "the file is longer than %zu bytes", length);
    fclose(in);
    return bytes;
}

static inline MPI_Offset size_of(MPI_File f)
{
    MPI_Offset size = -1;
    OK(MPI_File_get_size(f, &size));
    return size;
}

static inline MPI_Offset position(MPI_File f)
{
    MPI_Offset at = -1;
    OK(MPI_File_get_position(f, &at));
    return at;
}

static inline int count_of(const MPI_Status *status, MPI_Datatype type)
{
    int n = -77;
    OK(MPI_Get_count(status, type, &n));
    return n;
}
#endif

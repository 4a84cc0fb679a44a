/* Claim: what is wrong with a call on files has the error class of MPI-4.1 §14.7, as in MPICH where the standard leaves it
 * open, and goes to the error handler of the file or of MPI_FILE_NULL (§14.7: MPI_ERRORS_RETURN at first); good calls go
 * on working. "strict": also those that MPICH 5.0.2 lets through, crashes or hangs on, or has another class for. */
#include "io.h"

static int strict, b[8];
static MPI_Datatype raw; /* not committed */

static int try_open(MPI_Comm comm, const char *path, int amode)
{
    MPI_File f = MPI_FILE_NULL;
    int code = MPI_File_open(comm, path, amode, MPI_INFO_NULL, &f);
    if (f != MPI_FILE_NULL) OK(MPI_File_close(&f));
    return code;
}

/* Only rank 0 of MPICH 5.0.2 has the class where all open a file. */
#define NONE_OPENS(class_, file, amode)                                                          \
    do {                                                                                         \
        if (strict || my_rank == 0) FAILS(class_, try_open(MPI_COMM_WORLD, name(file), amode));  \
        else CHECK(try_open(MPI_COMM_WORLD, name(file), amode), "%s was opened", file);          \
    } while (0)

static void opens(void)
{
    const int bad[] = {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_EXCL,
                       MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDWR | MPI_MODE_WRONLY, MPI_MODE_RDWR | MPI_MODE_RDONLY,
                       MADE | MPI_MODE_SEQUENTIAL, -1};
    char path[6000];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) FAILS(MPI_ERR_AMODE, try_open(MPI_COMM_WORLD, name("amode"), bad[i]));
    CHECK(access(name("amode"), F_OK), "a file was made");
    NONE_OPENS(MPI_ERR_NO_SUCH_FILE, "nothing", MPI_MODE_RDWR);
    NONE_OPENS(MPI_ERR_NO_SUCH_FILE, "nothing", MPI_MODE_RDONLY);
    NONE_OPENS(MPI_ERR_NO_SUCH_FILE, "no folder/x", MADE);
    prepare("there", 100, 1);
    NONE_OPENS(MPI_ERR_FILE_EXISTS, "there", MADE | MPI_MODE_EXCL);
    NONE_OPENS(MPI_ERR_BAD_FILE, "", MPI_MODE_RDWR); /* a folder */
    memset(path, 'a', sizeof path);
    path[0] = '/', path[sizeof path - 1] = 0;
    FAILS(MPI_ERR_BAD_FILE, try_open(MPI_COMM_SELF, path, MADE));
    FAILS(MPI_ERR_NO_SUCH_FILE, try_open(MPI_COMM_SELF, "", MADE));
    FAILS(MPI_ERR_ARG, try_open(MPI_COMM_SELF, NULL, MADE));
    FAILS(MPI_ERR_COMM, try_open(MPI_COMM_NULL, name("there"), MPI_MODE_RDWR));
    FAILS(MPI_ERR_ARG, MPI_File_open(MPI_COMM_SELF, name("there"), MPI_MODE_RDWR, MPI_INFO_NULL, NULL));
    if (n_ranks > 1) {
        MPI_Comm half, inter;
        OK(MPI_Comm_split(MPI_COMM_WORLD, my_rank % 2, my_rank, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - my_rank % 2, 7, &inter));
        FAILS(MPI_ERR_COMM, try_open(inter, name("there"), MPI_MODE_RDWR));
        FAILS(MPI_ERR_NOT_SAME, try_open(MPI_COMM_WORLD, name("there"), my_rank ? MPI_MODE_RDWR : MPI_MODE_RDONLY));
        OK(MPI_Comm_free(&inter));
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name("nothing"), MPI_INFO_NULL));
    FAILS(MPI_ERR_BAD_FILE, MPI_File_delete(name("there/x"), MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_delete(NULL, MPI_INFO_NULL));
    OK(try_open(MPI_COMM_WORLD, name("there"), MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE));
}

/* A file that was to be deleted and is gone: it is closed all the same. */
static void gone(void)
{
    MPI_File f = opened(MPI_COMM_WORLD, "gone", PASSING);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (my_rank == 0) OK(MPI_File_delete(name("gone"), MPI_INFO_NULL));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_close(&f));
    CHECK(f == MPI_FILE_NULL, "it is still open");
    FAILS(MPI_ERR_FILE, MPI_File_close(&f));
}

static void one_way(void)
{
    MPI_Status s;
    MPI_Request r;
    prepare("way", 100, 1);
    MPI_File f = opened(MPI_COMM_WORLD, "way", MPI_MODE_WRONLY);
    FAILS(MPI_ERR_ACCESS, MPI_File_read(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_c(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_at(f, 0, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_all(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_at_all(f, 0, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_shared(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ACCESS, MPI_File_iread(f, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_ACCESS, MPI_File_iread_at(f, 0, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_ACCESS, MPI_File_iread_all(f, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_ACCESS, MPI_File_read_all_begin(f, b, 1, MPI_INT));
    if (strict) {
        FAILS(MPI_ERR_ACCESS, MPI_File_read_ordered(f, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_ACCESS, MPI_File_read_ordered_begin(f, b, 1, MPI_INT));
        FAILS(MPI_ERR_ACCESS, MPI_File_iread_shared(f, b, 1, MPI_INT, &r));
    }
    OK(MPI_File_close(&f));
    f = opened(MPI_COMM_WORLD, "way", MPI_MODE_RDONLY);
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_c(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_at(f, 0, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_all(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_write_at_all(f, 0, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_iwrite(f, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_iwrite_at(f, 0, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_iwrite_all(f, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_READ_ONLY, MPI_File_set_size(f, 5));
    if (strict) {
        FAILS(MPI_ERR_READ_ONLY, MPI_File_write_shared(f, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_READ_ONLY, MPI_File_write_ordered(f, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_READ_ONLY, MPI_File_iwrite_shared(f, b, 1, MPI_INT, &r));
        FAILS(MPI_ERR_READ_ONLY, MPI_File_write_all_begin(f, b, 1, MPI_INT));
        FAILS(MPI_ERR_READ_ONLY, MPI_File_write_ordered_begin(f, b, 1, MPI_INT));
        FAILS(MPI_ERR_READ_ONLY, MPI_File_preallocate(f, 500));
    }
    IS(size_of(f), 100);
    IS(position(f), 0);
    OK(MPI_File_read(f, b, 8, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_BYTES(b, 32, 1);
    OK(MPI_File_close(&f));
    discard("way");
}

static void arguments(void)
{
    MPI_Status s;
    MPI_Request r;
    MPI_Offset at;
    MPI_Aint extent;
    MPI_File f = opened(MPI_COMM_SELF, own("args"), PASSING);
    OK(MPI_File_write(f, "0123456789", 10, MPI_CHAR, &s));
    FAILS(MPI_ERR_COUNT, MPI_File_read(f, b, -1, MPI_INT, &s));
    FAILS(MPI_ERR_COUNT, MPI_File_write_c(f, b, -2, MPI_INT, &s));
    FAILS(MPI_ERR_COUNT, MPI_File_read_shared(f, b, -1, MPI_INT, &s));
    FAILS(MPI_ERR_COUNT, MPI_File_write_ordered(f, b, -1, MPI_INT, &s));
    FAILS(MPI_ERR_COUNT, MPI_File_iread(f, b, -1, MPI_INT, &r));
    FAILS(MPI_ERR_ARG, MPI_File_write_at(f, -1, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ARG, MPI_File_read_at_all(f, -1, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ARG, MPI_File_iread_at(f, -1, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_ARG, MPI_File_iwrite(f, b, 1, MPI_INT, NULL));
    FAILS(MPI_ERR_TYPE, MPI_File_read(f, b, 1, MPI_DATATYPE_NULL, &s));
    FAILS(MPI_ERR_TYPE, MPI_File_write_at(f, 0, b, 1, raw, &s));
    FAILS(MPI_ERR_TYPE, MPI_File_write_all(f, b, 1, MPI_DATATYPE_NULL, &s));
    FAILS(MPI_ERR_TYPE, MPI_File_iwrite(f, b, 1, raw, &r));
    FAILS(MPI_ERR_BUFFER, MPI_File_read(f, NULL, 1, MPI_INT, &s));
    FAILS(MPI_ERR_ARG, MPI_File_seek(f, -1, MPI_SEEK_SET));
    FAILS(MPI_ERR_ARG, MPI_File_seek(f, -11, MPI_SEEK_CUR));
    FAILS(MPI_ERR_ARG, MPI_File_seek(f, -11, MPI_SEEK_END));
    FAILS(MPI_ERR_ARG, MPI_File_seek(f, 0, 17));
    FAILS(MPI_ERR_ARG, MPI_File_seek_shared(f, -1, MPI_SEEK_SET));
    FAILS(MPI_ERR_ARG, MPI_File_seek_shared(f, -1, MPI_SEEK_CUR));
    FAILS(MPI_ERR_ARG, MPI_File_seek_shared(f, 0, 17));
    FAILS(MPI_ERR_ARG, MPI_File_set_size(f, -1));
    FAILS(MPI_ERR_ARG, MPI_File_preallocate(f, -1));
    FAILS(MPI_ERR_ARG, MPI_File_get_byte_offset(f, -1, &at));
    FAILS(MPI_ERR_TYPE, MPI_File_get_type_extent(f, MPI_DATATYPE_NULL, &extent));
    FAILS(MPI_ERR_ARG, MPI_File_get_size(f, NULL));
    FAILS(MPI_ERR_ARG, MPI_File_get_position(f, NULL));
    FAILS(MPI_ERR_ARG, MPI_File_get_amode(f, NULL));
    FAILS(MPI_ERR_ARG, MPI_File_get_group(f, NULL));
    FAILS(MPI_ERR_ARG, MPI_File_get_info(f, NULL));
    IS(position(f), 10);
    IS(size_of(f), 10);
    OK(MPI_File_close(&f));
    if (n_ranks == 1) return;
    f = opened(MPI_COMM_WORLD, "unlike", PASSING);
    int class = -1, code = MPI_File_set_size(f, 100 + my_rank);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_ARG || class == MPI_ERR_NOT_SAME, "unlike sizes: class %d", class); /* MPICH has the first */
    OK(MPI_File_close(&f));
}

static void views(void)
{
    const MPI_Aint falling[] = {8, 0}, below[] = {-8, 0}, crossing[] = {0, 2}, *bad[] = {falling, below, crossing};
    MPI_Status s;
    MPI_Request r;
    MPI_File f = opened(MPI_COMM_WORLD, "view", PASSING);
    FAILS(MPI_ERR_ARG, MPI_File_set_view(f, -1, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_TYPE, MPI_File_set_view(f, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_TYPE, MPI_File_set_view(f, 0, MPI_INT, MPI_DATATYPE_NULL, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_TYPE, MPI_File_set_view(f, 0, raw, raw, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_TYPE, MPI_File_set_view(f, 0, MPI_INT, raw, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_set_view(f, 0, MPI_INT, MPI_SHORT, "native", MPI_INFO_NULL)); /* not made of etypes */
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "nativ", MPI_INFO_NULL));
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP, MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "", MPI_INFO_NULL));
    FAILS(MPI_ERR_ARG, MPI_File_set_view(f, 0, MPI_INT, MPI_INT, NULL, MPI_INFO_NULL));
    for (int i = 0; i < 3; i++) { /* places must rise, and not cross where the file can be written */
        MPI_Datatype type = blocks(2, (int[]){1, 1}, bad[i], MPI_INT, 0, 40);
        FAILS(MPI_ERR_IO, MPI_File_set_view(f, 0, MPI_INT, type, "native", MPI_INFO_NULL));
        OK(MPI_Type_free(&type));
    }
    view(f, 0, MPI_INT, MPI_INT);
    FAILS(MPI_ERR_IO, MPI_File_read(f, b, 1, MPI_SHORT, &s)); /* half an etype */
    FAILS(MPI_ERR_IO, MPI_File_write(f, b, 3, MPI_CHAR, &s));
    FAILS(MPI_ERR_IO, MPI_File_write_all(f, b, 3, MPI_CHAR, &s));
    FAILS(MPI_ERR_IO, MPI_File_write_shared(f, b, 3, MPI_CHAR, &s));
    FAILS(MPI_ERR_IO, MPI_File_iwrite(f, b, 3, MPI_CHAR, &r));
    OK(MPI_File_write_at(f, 0, b, 2, MPI_SHORT, &s));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    IS(size_of(f), 4);
    OK(MPI_File_close(&f));
}

static void sequences(void)
{
    MPI_Status s;
    MPI_Request r;
    MPI_Offset at;
    prepare("stream", 100, 1);
    MPI_File f = opened(MPI_COMM_WORLD, "stream", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read_at(f, 0, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read_all(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read_at_all(f, 0, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_iread(f, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_iread_at(f, 0, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_iread_all(f, b, 1, MPI_INT, &r));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read_all_begin(f, b, 1, MPI_INT));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(f, 0, MPI_SEEK_SET));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_get_position(f, &at));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_get_position_shared(f, &at));
    FAILS(MPI_ERR_ARG, MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(MPI_File_read_ordered(f, b, my_rank == 0, MPI_INT, &s)); /* nothing has moved the pointer */
    if (my_rank == 0) CHECK_BYTES(b, 4, 1);
    OK(MPI_File_close(&f));
    f = opened(MPI_COMM_WORLD, "stream", MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE);
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_write(f, b, 1, MPI_INT, &s));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_set_size(f, 50));
    if (strict) FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_preallocate(f, 500));
    OK(MPI_File_close(&f));
}

static void handles(void)
{
    MPI_File f = MPI_FILE_NULL;
    MPI_Status s;
    MPI_Request r;
    MPI_Offset at;
    MPI_Aint extent;
    MPI_Info info;
    MPI_Group group;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING];
    int flag;
    for (int i = 0; i <= strict; i++) {
        if (i) { /* a file that is closed is as bad as none */
            MPI_File closed = opened(MPI_COMM_SELF, own("closed"), PASSING);
            f = closed;
            OK(MPI_File_close(&closed));
        }
        FAILS(MPI_ERR_FILE, MPI_File_read(f, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_FILE, MPI_File_write_at(f, 0, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_FILE, MPI_File_read_all(f, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_FILE, MPI_File_write_shared(f, b, 1, MPI_INT, &s));
        FAILS(MPI_ERR_FILE, MPI_File_write_all_end(f, b, &s));
        FAILS(MPI_ERR_FILE, MPI_File_iread(f, b, 1, MPI_INT, &r));
        FAILS(MPI_ERR_FILE, MPI_File_seek(f, 0, MPI_SEEK_SET));
        FAILS(MPI_ERR_FILE, MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
        FAILS(MPI_ERR_FILE, MPI_File_get_position(f, &at));
        FAILS(MPI_ERR_FILE, MPI_File_get_byte_offset(f, 0, &at));
        FAILS(MPI_ERR_FILE, MPI_File_get_type_extent(f, MPI_INT, &extent));
        FAILS(MPI_ERR_FILE, MPI_File_get_view(f, &at, &etype, &filetype, datarep));
        FAILS(MPI_ERR_FILE, MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        FAILS(MPI_ERR_FILE, MPI_File_get_size(f, &at));
        FAILS(MPI_ERR_FILE, MPI_File_set_size(f, 1));
        FAILS(MPI_ERR_FILE, MPI_File_preallocate(f, 1));
        FAILS(MPI_ERR_FILE, MPI_File_sync(f));
        FAILS(MPI_ERR_FILE, MPI_File_get_info(f, &info));
        FAILS(MPI_ERR_FILE, MPI_File_set_info(f, MPI_INFO_NULL));
        FAILS(MPI_ERR_FILE, MPI_File_get_group(f, &group));
        FAILS(MPI_ERR_FILE, MPI_File_get_amode(f, &flag));
        FAILS(MPI_ERR_FILE, MPI_File_set_atomicity(f, 1));
        FAILS(MPI_ERR_FILE, MPI_File_get_atomicity(f, &flag));
        FAILS(MPI_ERR_FILE, MPI_File_close(&f));
    }
    f = opened(MPI_COMM_SELF, own("fortran"), PASSING);
    MPI_File g = opened(MPI_COMM_SELF, own("fortran too"), PASSING);
    CHECK(MPI_File_f2c(MPI_File_c2f(f)) == f && MPI_File_f2c(MPI_File_c2f(g)) == g, "not the same file in Fortran");
    CHECK(MPI_File_c2f(f) != MPI_File_c2f(g) && MPI_File_c2f(f) != MPI_File_c2f(MPI_FILE_NULL), "one integer for two");
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL, "null in Fortran");
    OK(MPI_File_close(&f));
    OK(MPI_File_close(&g));
}

static int calls, last_class;
static MPI_File last_file;

static void note(MPI_File *file, int *code, ...)
{
    calls++;
    last_file = *file;
    MPI_Error_class(*code, &last_class);
}

#define NOTED(class_, file, call)                                                                     \
    do {                                                                                              \
        int before_ = calls, code_ = (call), got_ = class_;                                           \
        CHECK(calls == before_ + 1, "%s: the handler was called %d times", #call, calls - before_);   \
        CHECK(last_file == (file) && last_class == (class_), "%s: class %d", #call, last_class);      \
        if (strict) MPI_Error_class(code_, &got_);                                                    \
        CHECK(got_ == (class_), "%s returns class %d", #call, got_);                                  \
    } while (0)

static void handlers(void)
{
    MPI_Errhandler mine, got = MPI_ERRHANDLER_NULL;
    MPI_Status s;
    MPI_File f, g;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the first handler of MPI_FILE_NULL");
    f = opened(MPI_COMM_SELF, own("handler"), PASSING);
    OK(MPI_File_get_errhandler(f, &got));
    CHECK(got == MPI_ERRORS_RETURN, "the first handler of a file");
    OK(MPI_File_create_errhandler(note, &mine));
    OK(MPI_File_set_errhandler(f, mine));
    OK(MPI_File_get_errhandler(f, &got));
    CHECK(got == mine, "another handler");
    OK(MPI_Errhandler_free(&got));
    NOTED(MPI_ERR_COUNT, f, MPI_File_read(f, b, -1, MPI_INT, &s));
    NOTED(MPI_ERR_ARG, f, MPI_File_seek(f, -1, MPI_SEEK_SET));
    OK(MPI_File_call_errhandler(f, MPI_ERR_NO_SPACE));
    CHECK(calls == 3 && last_class == MPI_ERR_NO_SPACE && last_file == f, "called %d times", calls);

    FAILS(MPI_ERR_NO_SUCH_FILE, try_open(MPI_COMM_SELF, name("nothing"), MPI_MODE_RDONLY)); /* not its handler */
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    NOTED(MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL, try_open(MPI_COMM_SELF, name("nothing"), MPI_MODE_RDONLY));
    NOTED(MPI_ERR_NO_SUCH_FILE, MPI_FILE_NULL, MPI_File_delete(name("nothing"), MPI_INFO_NULL));
    NOTED(MPI_ERR_FILE, MPI_FILE_NULL, MPI_File_sync(MPI_FILE_NULL));
    g = opened(MPI_COMM_SELF, own("heir"), PASSING); /* has the handler of MPI_FILE_NULL */
    NOTED(MPI_ERR_TYPE, g, MPI_File_write(g, b, 1, MPI_DATATYPE_NULL, &s));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine)); /* the files still have it */
    NOTED(MPI_ERR_COUNT, g, MPI_File_read(g, b, -1, MPI_INT, &s));
    OK(MPI_File_set_errhandler(g, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_COUNT, MPI_File_read(g, b, -1, MPI_INT, &s));
    OK(MPI_File_close(&f));
    OK(MPI_File_close(&g));
}

static int extent_of(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
    int size;
    (void)extra;
    OK(MPI_Type_size(type, &size));
    *extent = size;
    return MPI_SUCCESS;
}

static void datareps(void)
{
    MPI_Datarep_conversion_function *none = MPI_CONVERSION_FN_NULL;
    char longest[MPI_MAX_DATAREP_STRING + 10];
    memset(longest, 'd', sizeof longest);
    longest[sizeof longest - 1] = 0;
    OK(MPI_Register_datarep("mine", none, none, extent_of, NULL));
    FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("mine", none, none, extent_of, NULL));
    if (strict)
        FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", none, none, extent_of, NULL));
    OK(MPI_Register_datarep_c("mine too", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, extent_of, NULL));
    FAILS(MPI_ERR_ARG, MPI_Register_datarep(longest, none, none, extent_of, NULL));
    FAILS(MPI_ERR_ARG, MPI_Register_datarep("none", none, none, NULL, NULL));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Type_contiguous(2, MPI_INT, &raw));
    enter();
    opens();
    if (strict) gone();
    one_way();
    arguments();
    views();
    sequences();
    handles();
    handlers();
    datareps();
    OK(MPI_Type_free(&raw));
    leave();
    return finish();
}

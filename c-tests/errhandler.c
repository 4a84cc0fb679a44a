/* Claim: the error handler of the communicator that a call names is the one that is called, with that communicator
 * and the code that the call returns; handlers are inherited by dup, replaced, read back and freed while in use;
 * where nobody has attached one, MPI_COMM_WORLD's counts; user error classes, codes and strings work. */
#include "check.h"

static int called, last_code, strict;
static MPI_Comm last_comm;

static void handler(MPI_Comm *comm, int *code, ...)
{
    called++;
    last_comm = *comm;
    last_code = *code;
}
static void other_handler(MPI_Comm *comm, int *code, ...) { called += 100; }

/* A wrong send on `comm` must call the handler once. */
static void provoke(MPI_Comm comm)
{
    called = 0;
    int class = 0, code = MPI_Send(&called, 1, MPI_INT, 999, 1, comm);
    int returned = last_code == code || (!strict && code == MPI_SUCCESS);
    CHECK(called == 1 && last_comm == comm && returned, "called %d comm %x code %d/%d", called, (unsigned)last_comm, last_code, code);
    OK(MPI_Error_class(last_code, &class));
    CHECK(class == MPI_ERR_RANK, "class %d", class);
}

/* Of several requests one fails: the handler gets its code, the call returns MPI_ERR_IN_STATUS. */
static void in_array(MPI_Comm comm)
{
    int out[2] = {1, 2}, in, class;
    MPI_Request both[2];
    MPI_Status of[2];
    OK(MPI_Irecv(&in, 1, MPI_INT, my_rank, 1, comm, &both[0]));
    OK(MPI_Isend(out, 2, MPI_INT, my_rank, 1, comm, &both[1]));
    called = 0;
    int code = MPI_Waitall(2, both, of);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_IN_STATUS, "MPI_Waitall returned class %d", class);
    OK(MPI_Error_class(last_code, &class));
    CHECK(called == 1 && class == MPI_ERR_TRUNCATE, "called %d, class %d", called, class);
    /* A message that was matched belongs to its communicator, too. */
    MPI_Message message;
    OK(MPI_Isend(out, 2, MPI_INT, my_rank, 1, comm, &both[1]));
    OK(MPI_Mprobe(my_rank, 1, comm, &message, &of[0]));
    called = 0;
    OK(MPI_Error_class(MPI_Mrecv(&in, 1, MPI_INT, &message, &of[0]), &class));
    CHECK(called == 1 && last_comm == comm && class == MPI_ERR_TRUNCATE, "called %d, class %d", called, class);
    OK(MPI_Wait(&both[1], &of[1]));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    strict = argc > 1; /* then the call must return the code that its handler saw */
    MPI_Errhandler mine, got, second;
    MPI_Comm twin, early;
    MPI_Win window;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &early));
    OK(MPI_Win_create(MPI_BOTTOM, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL, "the handler at the start is %x", (unsigned)got);
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_create_errhandler(other_handler, &second));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == mine, "got back %x, set %x", (unsigned)got, (unsigned)mine);
    OK(MPI_Errhandler_free(&got));
    provoke(MPI_COMM_WORLD);
    /* Where nobody has attached one it is MPI_COMM_WORLD's of the moment. */
    OK(MPI_Comm_get_errhandler(early, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL, "the handler of a communicator without one is %x", (unsigned)got);
    called = 0;
    MPI_Send(&called, 1, MPI_INT, 999, 1, early);
    CHECK(called == 1, "a communicator without a handler: called %d", called);
    called = 0, last_comm = MPI_COMM_NULL;
    MPI_Put(&called, 1, MPI_INT, 999, 0, 1, MPI_INT, window);
    CHECK(called == 1 && last_comm == MPI_COMM_WORLD, "a window without one: called %d comm %x", called, (unsigned)last_comm);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    provoke(twin); /* inherited */
    if (strict)
        in_array(twin);
    OK(MPI_Comm_set_errhandler(twin, second));
    OK(MPI_Errhandler_free(&second));
    CHECK(second == MPI_ERRHANDLER_NULL, "handle not null after free");
    called = 0;
    MPI_Send(&called, 1, MPI_INT, 999, 1, twin);
    CHECK(called == 100, "the freed handler is still in use: %d", called);
    provoke(MPI_COMM_WORLD);
    called = 0;
    OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER));
    CHECK(called == 1 && last_code == MPI_ERR_OTHER, "called %d code %d", called, last_code);
    OK(MPI_Errhandler_free(&mine));
    provoke(MPI_COMM_WORLD);
    /* Errors without a communicator of their own go to MPI_COMM_SELF's handler, or, where that has none, to MPI_COMM_WORLD's. */
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&mine));
    called = 0;
    MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL});
    CHECK(called == 1, "called %d", called);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_ERR_RANK, MPI_Send(&called, 1, MPI_INT, 999, 1, early));
    FAILS(MPI_ERR_RANK, MPI_Put(&called, 1, MPI_INT, 999, 0, 1, MPI_INT, window));
    OK(MPI_Win_free(&window));
    OK(MPI_Comm_free(&early));
    FAILS(MPI_ERR_TYPE, MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL}));
    /* User classes and codes. */
    int class, code, answer, length;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "the soup is cold"));
    OK(MPI_Error_class(code, &answer));
    CHECK(answer == class && class > MPI_ERR_LASTCODE, "class %d of code %d", answer, code);
    OK(MPI_Error_string(code, text, &length));
    CHECK(!strcmp(text, "the soup is cold"), "text '%s'", text);
    int *last, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last >= class, "LASTUSEDCODE");
    /* Every predefined class has a text. */
    for (int i = MPI_SUCCESS; i <= MPI_ERR_RMA_SHARED; i++) {
        OK(MPI_Error_string(i, text, &length));
        CHECK(length > 0 && (size_t)length == strlen(text), "class %d has no text", i);
        OK(MPI_Error_class(i, &answer));
        CHECK(answer == i, "class of class %d is %d", i, answer);
    }
    OK(MPI_Comm_free(&twin));
    return finish();
}

/* Claim: threads of a rank may use one file at the same time (MPI-4.1 §11.6, §14.6): each record that they write with the
 * shared file pointer is there once, what they write at offsets is where it belongs, and messages pass meanwhile. */
#include "io.h"
#include <pthread.h>

enum { THREADS = 4, RECORDS = 40, RECORD = 300 };
static MPI_File at_offsets, shared;

/* A record: who wrote it, and bytes. */
static int writer(int thread, int i) { return (my_rank * THREADS + thread) * RECORDS + i; }
static void make(unsigned char *record, int id)
{
    memcpy(record, &id, 4);
    fill(record + 4, RECORD - 4, (unsigned)id);
}

static void *work(void *argument)
{
    int thread = (int)(size_t)argument, got;
    unsigned char record[RECORD], back[RECORD];
    MPI_Datatype every_other;
    OK(MPI_Type_vector(RECORD / 2, 1, 2, MPI_BYTE, &every_other));
    OK(MPI_Type_commit(&every_other));
    for (int i = 0; i < RECORDS; i++) {
        MPI_Request request;
        MPI_Status status;
        int id = writer(thread, i);
        make(record, id);
        OK(MPI_File_write_shared(shared, record, RECORD, MPI_BYTE, MPI_STATUS_IGNORE));
        OK(MPI_File_iwrite_at(at_offsets, (MPI_Offset)id * RECORD, record, RECORD, MPI_BYTE, &request));
        OK(MPI_Sendrecv(&id, 1, MPI_INT, my_rank, thread, &got, 1, MPI_INT, my_rank, thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        IS(got, id);
        OK(MPI_Wait(&request, &status));
        IS(count_of(&status, MPI_BYTE), RECORD);
        memset(back, 0, sizeof back);
        OK(MPI_File_read_at(at_offsets, (MPI_Offset)id * RECORD, back, 1, every_other, MPI_STATUS_IGNORE));
        for (int k = 0; k < RECORD / 2; k++) CHECK(back[2 * k] == record[k], "record %d, byte %d", id, k);
    }
    OK(MPI_Type_free(&every_other));
    return NULL;
}

int main(int argc, char **argv)
{
    int level, all;
    pthread_t threads[THREADS];
    unsigned char record[RECORD];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &my_rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &n_ranks));
    IS(level, MPI_THREAD_MULTIPLE);
    enter();
    at_offsets = opened(MPI_COMM_WORLD, "offsets", PASSING);
    shared = opened(MPI_COMM_WORLD, "shared", PASSING);
    for (size_t t = 0; t < THREADS; t++) CHECK(!pthread_create(&threads[t], NULL, work, (void *)t), "no thread");
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    all = n_ranks * THREADS * RECORDS;
    unsigned char *bytes = contents(shared, "shared", (size_t)all * RECORD), *seen = calloc((size_t)all, 1);
    for (int i = 0; i < all; i++) {
        int id;
        memcpy(&id, bytes + (size_t)i * RECORD, 4);
        CHECK(id >= 0 && id < all && !seen[id]++, "record %d is of %d", i, id);
        make(record, id);
        CHECK(!memcmp(record, bytes + (size_t)i * RECORD, RECORD), "record %d of %d is torn", i, id);
    }
    free(bytes);
    free(seen);
    bytes = contents(at_offsets, "offsets", (size_t)all * RECORD);
    for (int i = 0; i < all; i++) {
        make(record, i);
        CHECK(!memcmp(record, bytes + (size_t)i * RECORD, RECORD), "record %d", i);
    }
    free(bytes);
    OK(MPI_File_close(&shared));
    OK(MPI_File_close(&at_offsets));
    leave();
    return finish();
}

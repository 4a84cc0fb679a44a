/* Claim: MPICH's extensions that nearmpi does not have (streams, thread communicators, notified windows, enqueued
 * operations, progress threads) say so: MPI_ERR_UNSUPPORTED_OPERATION with the name of the function, also after a call of
 * another has failed; and the job goes on. */
#include "check.h"

#define REFUSED(function, arguments)                                                                 \
    do {                                                                                             \
        int code_ = function arguments, got_ = -1, length_;                                          \
        char text_[MPI_MAX_ERROR_STRING];                                                            \
        MPI_Error_class(code_, &got_);                                                               \
        MPI_Error_string(code_, text_, &length_);                                                    \
        CHECK(got_ == MPI_ERR_UNSUPPORTED_OPERATION, "%s: class %d: %s", #function, got_, text_);    \
        CHECK(strstr(text_, #function " is not supported"), "%s is not named: %s", #function, text_); \
    } while (0)

/* MPICH 5.0.2 exports these and declares them nowhere. */
int MPIX_Get_notify(void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, int notification_idx, MPI_Win win);
int MPIX_Get_notify_c(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, int notification_idx, MPI_Win win);
int MPIX_Put_notify(const void *origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, int notification_idx, MPI_Win win);
int MPIX_Put_notify_c(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, int notification_idx, MPI_Win win);
int MPIX_Win_create_notify(MPI_Win win, int notification_num);
int MPIX_Win_free_notify(MPI_Win win);
int MPIX_Win_get_notify(MPI_Win win, int notification_idx, MPI_Count *notification);
int MPIX_Win_get_notify_request(MPI_Win win, int notification_idx, MPI_Count expected_value, MPI_Request *request);
int MPIX_Win_set_notify(MPI_Win win, int notification_idx, MPI_Count notification);

int main(int argc, char **argv)
{
    MPI_Win win;
    int sum;
    start(&argc, &argv);
    OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    REFUSED(MPIX_Allreduce_enqueue, (NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    REFUSED(MPIX_Allreduce_enqueue_c, (NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    REFUSED(MPIX_Comm_get_stream, (MPI_COMM_WORLD, 0, NULL));
    REFUSED(MPIX_Irecv_enqueue, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
    REFUSED(MPIX_Irecv_enqueue_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
    REFUSED(MPIX_Isend_enqueue, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
    REFUSED(MPIX_Isend_enqueue_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
    REFUSED(MPIX_Recv_enqueue, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
    REFUSED(MPIX_Recv_enqueue_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL));
    REFUSED(MPIX_Send_enqueue, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
    REFUSED(MPIX_Send_enqueue_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
    REFUSED(MPIX_Stream_comm_create, (MPI_COMM_WORLD, 0, NULL));
    REFUSED(MPIX_Stream_comm_create_multiplex, (MPI_COMM_WORLD, 0, NULL, NULL));
    REFUSED(MPIX_Stream_create, (0, NULL));
    REFUSED(MPIX_Stream_free, (NULL));
    REFUSED(MPIX_Stream_irecv, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0, NULL));
    REFUSED(MPIX_Stream_irecv_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0, NULL));
    REFUSED(MPIX_Stream_isend, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0, NULL));
    REFUSED(MPIX_Stream_isend_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0, NULL));
    REFUSED(MPIX_Stream_recv, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0, NULL));
    REFUSED(MPIX_Stream_recv_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0, NULL));
    REFUSED(MPIX_Stream_send, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0));
    REFUSED(MPIX_Stream_send_c, (NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, 0, 0));
    REFUSED(MPIX_Threadcomm_finish, (MPI_COMM_WORLD));
    REFUSED(MPIX_Threadcomm_free, (NULL));
    REFUSED(MPIX_Threadcomm_init, (MPI_COMM_WORLD, 0, NULL));
    REFUSED(MPIX_Threadcomm_start, (MPI_COMM_WORLD));
    REFUSED(MPIX_Wait_enqueue, (NULL, NULL));
    REFUSED(MPIX_Waitall_enqueue, (0, NULL, NULL));
    REFUSED(MPIX_Get_notify, (NULL, 0, MPI_INT, 0, 0, 0, MPI_INT, 0, win));
    REFUSED(MPIX_Get_notify_c, (NULL, 0, MPI_INT, 0, 0, 0, MPI_INT, 0, win));
    REFUSED(MPIX_Put_notify, (NULL, 0, MPI_INT, 0, 0, 0, MPI_INT, 0, win));
    REFUSED(MPIX_Put_notify_c, (NULL, 0, MPI_INT, 0, 0, 0, MPI_INT, 0, win));
    REFUSED(MPIX_Win_create_notify, (win, 0));
    REFUSED(MPIX_Win_free_notify, (win));
    REFUSED(MPIX_Win_get_notify, (win, 0, NULL));
    REFUSED(MPIX_Win_get_notify_request, (win, 0, 0, NULL));
    REFUSED(MPIX_Win_set_notify, (win, 0, 0));
    OK(MPI_Allreduce(&n_ranks, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == n_ranks * n_ranks, "sum %d", sum);
    OK(MPI_Win_free(&win));
    return finish();
}

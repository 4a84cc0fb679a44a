/* Claim: info objects keep keys and values of any length up to the limits, in order, before MPI is initialized, while it
 * lives and after it is finalized; what is wrong with a key, a value or a handle is told by its class. */
#include "check.h"

static void works(void)
{
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1];
    int flag = -1, length = -1, n = -1;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "first", "1"));
    OK(MPI_Info_set(info, "second", "two words"));
    OK(MPI_Info_set(info, "first", "one"));
    OK(MPI_Info_get_nkeys(info, &n));
    CHECK(n == 2, "%d keys", n);
    OK(MPI_Info_get_nthkey(info, 1, key));
    CHECK(strcmp(key, "second") == 0, "key 1 is %s", key);

    OK(MPI_Info_get_valuelen(info, "second", &length, &flag));
    CHECK(flag == 1 && length == 9, "length %d", length);
    OK(MPI_Info_get(info, "third", 10, value, &flag));
    CHECK(flag == 0, "a key that was never set");
    length = 0;
    OK(MPI_Info_get_string(info, "second", &length, NULL, &flag));
    CHECK(flag == 1 && length == 10, "needs %d bytes", length);
    length = 4;
    OK(MPI_Info_get_string(info, "second", &length, value, &flag));
    CHECK(flag == 1 && length == 10 && strcmp(value, "two") == 0, "got %s", value);

    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "first"));
    OK(MPI_Info_get_nkeys(info, &n));
    CHECK(n == 1, "%d keys after a deletion", n);
    OK(MPI_Info_get(copy, "first", MPI_MAX_INFO_VAL, value, &flag));
    CHECK(flag == 1 && strcmp(value, "one") == 0, "the copy lost a key");
    OK(MPI_Info_free(&copy));
    CHECK(copy == MPI_INFO_NULL, "a freed handle is not null");

    memset(key, 'k', sizeof key);
    memset(value, 'v', sizeof value);
    key[MPI_MAX_INFO_KEY - 1] = value[MPI_MAX_INFO_VAL - 1] = 0;
    OK(MPI_Info_set(info, key, value));
    OK(MPI_Info_get_valuelen(info, key, &length, &flag));
    CHECK(flag == 1 && length == MPI_MAX_INFO_VAL - 1, "longest value has %d", length);
    OK(MPI_Info_free(&info));
}

static void refuses(void)
{
    MPI_Info info, gone;
    char key[2 * MPI_MAX_INFO_KEY], value[2 * MPI_MAX_INFO_VAL];
    int n, flag;
    memset(key, 'k', sizeof key);
    memset(value, 'v', sizeof value);
    key[sizeof key - 1] = value[sizeof value - 1] = 0;
    OK(MPI_Info_create(&info));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, key, "value"));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, "", "value"));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_set(info, NULL, "value"));
    FAILS(MPI_ERR_INFO_VALUE, MPI_Info_set(info, "key", value));
    FAILS(MPI_ERR_ARG, MPI_Info_set(info, "key", NULL));
    FAILS(MPI_ERR_INFO_KEY, MPI_Info_get(info, key, 5, value, &flag));
    FAILS(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "nothing"));
    FAILS(MPI_ERR_ARG, MPI_Info_get_nthkey(info, 0, key));
    FAILS(MPI_ERR_ARG, MPI_Info_get_nkeys(MPI_INFO_NULL, &n));
    gone = MPI_INFO_NULL;
    FAILS(MPI_ERR_ARG, MPI_Info_free(&gone));
    /* Where there is room for the longest key nothing is written behind it. */
    memset(key, 'k', MPI_MAX_INFO_KEY);
    key[MPI_MAX_INFO_KEY] = 0;
    OK(MPI_Info_set(info, key, "value"));
    key[MPI_MAX_INFO_KEY] = 7;
    OK(MPI_Info_get_nthkey(info, 0, key));
    CHECK(key[MPI_MAX_INFO_KEY] == 7 && strlen(key) == MPI_MAX_INFO_KEY - 1, "%zu bytes of a key", strlen(key));
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    works();
    MPI_Info before, later;
    int keys = -1, same = -2;
    OK(MPI_Info_create_env(argc, argv, &before));
    start(&argc, &argv);
    OK(MPI_Info_create_env(argc, argv, &later));
    OK(MPI_Info_get_nkeys(before, &keys));
    OK(MPI_Info_get_nkeys(later, &same));
    CHECK(keys == same, "%d keys before MPI_Init, %d after", keys, same);
    OK(MPI_Info_free(&before));
    OK(MPI_Info_free(&later));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    works();
    refuses();
    int n = -1;
    OK(MPI_Info_get_nkeys(MPI_INFO_ENV, &n));
    CHECK(n >= 0, "%d keys of the environment", n);
    MPI_Info info;
    MPI_Comm dup;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Info_set(info, "nobody knows it", "true"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &dup));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_get_info(dup, &info));
    char value[6] = "";
    int flag = 0;
    OK(MPI_Info_get(info, "mpi_assert_no_any_tag", 5, value, &flag));
    CHECK(flag == 1 && strcmp(value, "true") == 0, "hint %s", value);
    OK(MPI_Info_get(info, "nobody knows it", 5, value, &flag));
    CHECK(!flag, "a hint that is not understood is ignored");
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Finalize());
    works();
    return 0;
}

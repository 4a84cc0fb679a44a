/* Claim: grids, graphs and distributed graphs name the right neighbours, survive duplication, and refuse what does not
 * fit; MPI_Dims_create balances. Runs on 1 rank or more. */
#include "check.h"

static void dims(int nodes, int n, const int *given, const int *expected)
{
    int got[4];
    memcpy(got, given, n * sizeof *got);
    OK(MPI_Dims_create(nodes, n, got));
    for (int i = 0; i < n; i++)
        CHECK(got[i] == expected[i], "dimension %d of %d nodes is %d, expected %d", i, nodes, got[i], expected[i]);
}

static void dimensions(void)
{
    dims(6, 2, (int[]){0, 0}, (int[]){3, 2});
    dims(7, 2, (int[]){0, 0}, (int[]){7, 1});
    dims(6, 3, (int[]){0, 3, 0}, (int[]){2, 3, 1});
    dims(64, 3, (int[]){0, 0, 0}, (int[]){4, 4, 4});
    dims(12, 2, (int[]){0, 0}, (int[]){4, 3});
    int bad[2] = {4, 0}, negative[2] = {-1, 0};
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(7, 2, bad));
    FAILS(MPI_ERR_DIMS, MPI_Dims_create(7, 2, negative));
}

static void grid(void)
{
    int shape[2] = {0, 0}, periods[2] = {0, 1}, got[2], rings[2], coords[2], n, rank, kind;
    OK(MPI_Dims_create(n_ranks, 2, shape));
    MPI_Comm cart, copy, row;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, shape, periods, 0, &cart));
    OK(MPI_Comm_dup(cart, &copy));
    OK(MPI_Topo_test(copy, &kind));
    CHECK(kind == MPI_CART, "a duplicate has topology %d", kind);
    OK(MPI_Cartdim_get(copy, &n));
    OK(MPI_Cart_get(copy, 2, got, rings, coords));
    CHECK(n == 2 && got[0] == shape[0] && got[1] == shape[1] && rings[0] == 0 && rings[1] == 1, "grid");
    CHECK(coords[0] == my_rank / shape[1] && coords[1] == my_rank % shape[1], "I am at %d,%d", coords[0], coords[1]);
    for (int i = 0; i < n_ranks; i++) {
        OK(MPI_Cart_coords(cart, i, 2, got));
        got[1] -= 3 * shape[1];
        OK(MPI_Cart_rank(cart, got, &rank));
        CHECK(rank == i, "%d came back as %d", i, rank);
    }
    int up, down, left, right;
    OK(MPI_Cart_shift(cart, 0, 1, &up, &down));
    OK(MPI_Cart_shift(cart, 1, 1, &left, &right));
    CHECK(up == (coords[0] == 0 ? MPI_PROC_NULL : my_rank - shape[1]), "up %d", up);
    CHECK(down == (coords[0] == shape[0] - 1 ? MPI_PROC_NULL : my_rank + shape[1]), "down %d", down);
    int base = coords[0] * shape[1];
    CHECK(left == base + (coords[1] + shape[1] - 1) % shape[1], "left %d", left);
    CHECK(right == base + (coords[1] + 1) % shape[1], "right %d", right);
    int token = my_rank, came = -1;
    OK(MPI_Sendrecv(&token, 1, MPI_INT, right, 5, &came, 1, MPI_INT, left, 5, cart, MPI_STATUS_IGNORE));
    CHECK(came == left, "token of %d came from %d", came, left);

    OK(MPI_Cart_sub(cart, (int[]){0, 1}, &row));
    OK(MPI_Comm_size(row, &n));
    OK(MPI_Comm_rank(row, &rank));
    CHECK(n == shape[1] && rank == coords[1], "row of %d, I am %d", n, rank);
    OK(MPI_Comm_free(&row));
    OK(MPI_Cart_sub(cart, (int[]){0, 0}, &row));
    /* MPICH 5.0.2 gives the grid without dimensions to one process only. */
    if (row != MPI_COMM_NULL) {
        OK(MPI_Cartdim_get(row, &n));
        CHECK(n == 0, "%d dimensions kept", n);
        OK(MPI_Comm_free(&row));
    }

    int outside[2] = {shape[0], 0}, large[1] = {n_ranks + 1}, nodes, edges;
    FAILS(MPI_ERR_ARG, MPI_Cart_rank(cart, outside, &rank));
    FAILS(MPI_ERR_RANK, MPI_Cart_coords(cart, n_ranks, 2, got));
    FAILS(MPI_ERR_ARG, MPI_Cart_shift(cart, 2, 1, &up, &down));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(cart, &nodes, &edges));
    FAILS(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(MPI_COMM_WORLD, &n));
    MPI_Comm none;
    none = MPI_COMM_WORLD;
    FAILS(MPI_ERR_ARG, MPI_Cart_create(MPI_COMM_WORLD, 1, large, periods, 0, &none));
    CHECK(none == MPI_COMM_NULL, "a communicator that was not made");
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&cart));

    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){1}, periods, 0, &cart));
    CHECK((cart == MPI_COMM_NULL) == (my_rank > 0), "who is in a grid of one");
    if (cart != MPI_COMM_NULL)
        OK(MPI_Comm_free(&cart));
}

static void ring_graph(void)
{
    int *index = need(n_ranks * sizeof *index), *edges = need(n_ranks * sizeof *edges), nodes, n, next = -1;
    for (int i = 0; i < n_ranks; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % n_ranks;
    }
    MPI_Comm graph;
    OK(MPI_Graph_create(MPI_COMM_WORLD, n_ranks, index, edges, 0, &graph));
    OK(MPI_Graphdims_get(graph, &nodes, &n));
    CHECK(nodes == n_ranks && n == n_ranks, "%d nodes, %d edges", nodes, n);
    OK(MPI_Graph_neighbors_count(graph, my_rank, &n));
    OK(MPI_Graph_neighbors(graph, my_rank, 1, &next));
    CHECK(n == 1 && next == (my_rank + 1) % n_ranks, "%d neighbours, the first %d", n, next);
    memset(index, 0, n_ranks * sizeof *index);
    memset(edges, -1, n_ranks * sizeof *edges);
    OK(MPI_Graph_get(graph, n_ranks, n_ranks, index, edges));
    CHECK(index[n_ranks - 1] == n_ranks && edges[n_ranks - 1] == 0, "the graph came back changed");
    OK(MPI_Comm_free(&graph));
    free(index);
    free(edges);
}

static void distributed(void)
{
    /* Rank 0 declares the whole ring, with the source as weight. */
    int *sources = need(n_ranks * sizeof *sources), *degrees = need(n_ranks * sizeof *degrees);
    int *ends = need(n_ranks * sizeof *ends), in, out, weighted, from = -1, to = -1, of_from = -1, of_to = -1, kind;
    for (int i = 0; i < n_ranks; i++) {
        sources[i] = i;
        degrees[i] = 1;
        ends[i] = (i + 1) % n_ranks;
    }
    int n = my_rank == 0 ? n_ranks : 0, left = (my_rank + n_ranks - 1) % n_ranks, right = (my_rank + 1) % n_ranks;
    MPI_Comm graph;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, ends, n ? sources : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0,
                             &graph));
    OK(MPI_Topo_test(graph, &kind));
    CHECK(kind == MPI_DIST_GRAPH, "topology %d", kind);
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK(in == 1 && out == 1 && weighted, "%d in, %d out, weighted %d", in, out, weighted);
    OK(MPI_Dist_graph_neighbors(graph, 1, &from, &of_from, 1, &to, &of_to));
    CHECK(from == left && of_from == left && to == right && of_to == my_rank, "%d(%d) %d(%d)", from, of_from, to, of_to);
    OK(MPI_Comm_free(&graph));

    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                      &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK(in == 1 && out == 1 && !weighted, "%d in, %d out, weighted %d", in, out, weighted);
    OK(MPI_Dist_graph_neighbors(graph, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED));
    CHECK(from == left && to == right, "from %d to %d", from, to);
    OK(MPI_Comm_free(&graph));
    free(sources);
    free(degrees);
    free(ends);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    dimensions();
    grid();
    ring_graph();
    distributed();
    return finish();
}

#include "run/matmul.h"

#include "run/dtype.h"
#include "run/gemm.h"
#include "run/integer_matmul.h"
#include "run/matrices.h"
#include "run/ops.h"
#include "run/split.h"

#include <stdatomic.h>
#include <string.h>

enum { A, B, C };

/* Batches of so many matrices and more are cut between matrices, smaller ones within each. */
enum { LARGE_BATCH = 8 };
/* What is worth several threads: about 40 us of one. An element of B is read from a far cache in the time of 6 steps of
 * a sum, and takes part in a step for each row. */
enum { READ_STEPS = 6 };
static const double fanned_steps = 4194304.0;

/* ---- rules ---- */

/* The operand as it is multiplied. dims: room for two dimensions. */
static ortwin_operand turned(const ortwin_operand *o, int transposed, int64_t dims[2]) {
    if (!transposed || o->rank != 2)
        return *o;
    dims[0] = o->dims[1], dims[1] = o->dims[0];
    return (ortwin_operand){o->dtype, 2, dims};
}

static ortwin_status check_type(const ortwin_operand *o, const ortwin_operand *a, const char *what, int absent,
                                ortwin_error *error) {
    if (!o->dtype)
        return absent ? ORTWIN_OK : ow_fail(error, ORTWIN_UNSUPPORTED, "the %s is missing", what);
    return o->dtype != a->dtype ? ow_fail(error, ORTWIN_UNSUPPORTED, "the %s is %s, not %s as A", what,
                                          ow_dtype_name(o->dtype), ow_dtype_name(a->dtype))
                                : ORTWIN_OK;
}

static int is_whole(float factor) { return factor < 0x1p63f && factor > -0x1p63f && factor == (float)(int64_t)factor; }

/* Sums modulo 2^n have no fractions. */
static ortwin_status check_factor(float factor, const char *what, int32_t dtype, ortwin_error *error) {
    return ow_is_float(dtype) || is_whole(factor)
               ? ORTWIN_OK
               : ow_fail(error, ORTWIN_UNSUPPORTED, "%s is %g, but of %s a whole number below 2^63 is implemented",
                         what, (double)factor, ow_dtype_name(dtype));
}

/* C broadcasts to the product of rank 2, not the product to C; before version 7 only where the node says so. */
static ortwin_status check_c(const ow_whole *node, const ortwin_operand *c, const int64_t product[2],
                             ortwin_error *error) {
    int spreads = node->since_version >= 7 || node->broadcast;
    if (!c->dtype || c->rank < 0)
        return ORTWIN_OK;
    if (c->rank > 2)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "C has rank %d, the product 2", (int)c->rank);
    if (c->rank < 2 && !spreads)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "C has rank %d, not the product's 2, and broadcast is not set",
                       (int)c->rank);
    for (int32_t k = 0; k < c->rank; k++) {
        int64_t have = c->dims[c->rank - 1 - k], want = product[1 - k];
        if (ow_clash(have, want) && !(spreads && have == 1))
            return ow_fail(error, ORTWIN_BAD_SHAPE, "C has %lld %s, the product %lld", (long long)have,
                           k ? "rows" : "columns", (long long)want);
    }
    return ORTWIN_OK;
}

static ortwin_status check_gemm(const ow_whole *node, const ortwin_operand *in, const int64_t *product,
                                ortwin_error *error) {
    ortwin_status status = check_type(&in[C], &in[A], "matrix C", node->since_version >= 11, error);
    if (!status)
        status = check_factor(node->alpha, "alpha", in[A].dtype, error);
    if (!status)
        status = check_factor(node->beta, "beta", in[A].dtype, error);
    return status ? status : check_c(node, &in[C], product, error);
}

ortwin_status ow_matmul_check(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS], int32_t *dtype,
                              int32_t *rank, int64_t *dims, ortwin_error *error) {
    int64_t own_a[2], own_b[2], product[2] = {-1, -1};
    int is_gemm = node->kernel == OW_KERNEL_gemm;
    *dtype = inputs[A].dtype;
    ortwin_status status = check_type(&inputs[B], &inputs[A], "matrix B", 0, error);
    if (status)
        return status;
    for (int k = 0; k < 2 && is_gemm; k++)
        if (inputs[k].rank >= 0 && inputs[k].rank != 2)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "%s has rank %d, but Gemm multiplies matrices, of rank 2",
                           k ? "B" : "A", (int)inputs[k].rank);
    ow_product_shapes shapes;
    memset(&shapes, 0, sizeof shapes);
    shapes.a = turned(&inputs[A], node->transposes_a, own_a);
    shapes.b = turned(&inputs[B], node->transposes_b, own_b);
    if (!is_gemm)
        return ow_product_shape(&shapes, dims, rank, error);
    status = ow_product_shape(&shapes, product, rank, error);
    if (status)
        return status;
    /* A Gemm's product is a matrix, whether or not its operands' ranks are known. */
    *rank = 2;
    product[0] = shapes.a.rank == 2 ? shapes.a.dims[0] : -1;
    product[1] = shapes.b.rank == 2 ? shapes.b.dims[1] : -1;
    if (dims)
        memcpy(dims, product, sizeof product);
    return check_gemm(node, inputs, product, error);
}

int32_t ow_matmul_rank(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    return node->kernel == OW_KERNEL_gemm ? 2 : ow_product_rank(inputs[A].rank, inputs[B].rank);
}

ow_inner ow_matmul_inner(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    int64_t own_a[2], own_b[2];
    ortwin_operand a = turned(&inputs[A], node->transposes_a, own_a), b = turned(&inputs[B], node->transposes_b, own_b);
    return ow_product_inner(&a, &b);
}

/* ---- running ---- */

const ow_pack *ow_matmul_pack(const ow_kernels *kernels, const ow_whole *node,
                              const ortwin_tensor *const constants[OW_WHOLE_INPUTS], uint32_t *replaced,
                              ow_tally *tally) {
    if (!constants[B] || !constants[B]->bytes || !ow_is_float(constants[B]->dtype))
        return NULL;
    const ow_matrices b = ow_matrices_of(constants[B], 0);
    if ((node->transposes_b ? b.rows : b.columns) == 1)
        return NULL; /* nothing to pack: see float_gemm.c */
    *replaced = 1u << B;
    return ow_float_pack_take(kernels->float_products, constants[B], node->transposes_b, tally);
}

/* Products of the matrices of a batch. */
typedef struct batch {
    const ow_kernels *kernels;
    ow_gemm one; /* the first; a, b and y are the tensors' */
    ow_matrices a, b;
    const int64_t *dims;
    size_t rank, count, share; /* matrices of the product; of them, those of a task */
    ow_fan alone;              /* of a task's thread */
    const ow_pack *pack;
    atomic_int failed;
} batch;

static int run_matrix(const batch *j, size_t index, const ow_fan *fan) {
    size_t in_a = ow_matrix_at(&j->a, j->dims, j->rank, index), in_b = ow_matrix_at(&j->b, j->dims, j->rank, index);
    size_t size = ow_item_size(j->one.dtype);
    ow_gemm g = j->one;
    g.a += in_a * g.rows * g.k * size;
    g.y += index * g.rows * g.columns * size;
    if (!j->pack)
        g.b += in_b * g.k * g.columns * size;
    if (!ow_is_float(g.dtype))
        return ow_modular_gemm(j->kernels, &g, fan);
    const ow_float_products *kernels = j->kernels->float_products;
    return ow_float_gemm(kernels, &g, j->pack ? ow_float_panels(kernels, j->pack, g.k, g.columns, in_b) : NULL, fan);
}

static void run_share(void *user, size_t index) {
    batch *j = user;
    size_t end = (index + 1) * j->share < j->count ? (index + 1) * j->share : j->count;
    for (size_t m = index * j->share; m < end; m++)
        if (!run_matrix(j, m, &j->alone))
            atomic_store_explicit(&j->failed, 1, memory_order_relaxed);
}

static int run_batch(batch *j, const ow_fan *fan) {
    double steps = (double)j->one.k * (double)j->one.columns * (double)(j->one.rows + READ_STEPS);
    ow_fan workers = ow_fan_for(fan, steps * (double)j->count >= fanned_steps);
    j->share = (j->count - 1) / OW_MAX_PIECES + 1;
    j->alone = *fan;
    j->alone.run = NULL;
    if (workers.run && j->count >= LARGE_BATCH &&
        workers.run(workers.context, (j->count - 1) / j->share + 1, run_share, j))
        return !atomic_load(&j->failed);
    workers = ow_fan_for(fan, steps >= fanned_steps);
    for (size_t m = 0; m < j->count; m++)
        if (!run_matrix(j, m, &workers))
            return 0;
    return 1;
}

ortwin_status ow_matmul_run(const ow_kernels *kernels, const ow_whole *node,
                            const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], const ow_pack *pack, const ow_fan *fan,
                            const ortwin_tensor *y, ortwin_error *error) {
    if (!y->bytes)
        return ORTWIN_OK;
    batch j = {.kernels = kernels, .a = ow_matrices_of(inputs[A], 1), .b = ow_matrices_of(inputs[B], 0), .pack = pack};
    const ortwin_tensor *c = node->kernel == OW_KERNEL_gemm && node->beta != 0.0f ? inputs[C] : NULL; /* C10e */
    j.dims = y->dims;
    j.rank = j.a.rank > j.b.rank ? j.a.rank : j.b.rank;
    j.count = 1;
    for (size_t k = 0; k < j.rank; k++)
        j.count *= (size_t)y->dims[k];
    j.one = (ow_gemm){.dtype = y->dtype,
                      .rows = node->transposes_a ? j.a.columns : j.a.rows,
                      .columns = node->transposes_b ? j.b.rows : j.b.columns,
                      .k = node->transposes_a ? j.a.rows : j.a.columns,
                      .a = inputs[A]->data,
                      .b = inputs[B]->data,
                      .a_transposed = node->transposes_a,
                      .b_transposed = node->transposes_b,
                      .alpha = node->kernel == OW_KERNEL_gemm ? node->alpha : 1.0f,
                      .beta = node->beta,
                      .c = c ? c->data : NULL,
                      .y = y->data};
    if (c) { /* from the right: columns, rows */
        size_t columns = c->rank > 0 ? (size_t)c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? (size_t)c->dims[0] : 1;
        j.one.c_column = columns > 1;
        j.one.c_row = rows > 1 ? columns : 0;
    }
    if (ow_matrix_count(&j.b) == 1) { /* the rows of all matrices of A lie one after the other, as those of y */
        j.one.rows *= j.count;
        j.count = 1;
        j.a.rank = j.b.rank = j.rank = 0;
    }
    return run_batch(&j, fan) ? ORTWIN_OK : ow_fail(error, ORTWIN_OUT_OF_MEMORY, "out of memory");
}

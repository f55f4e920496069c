#include "run/quantised.h"

#include "run/dtype.h"
#include "run/integer_matmul.h"
#include "run/integer_pack.h"
#include "run/ops.h"
#include "run/quantise.h"

#include <stdlib.h>
#include <string.h>

#define BIT(dtype) (1u << (dtype))
#define FLOATS (BIT(OW_F32) | BIT(OW_F16) | BIT(OW_BF16))
#define BYTES (BIT(OW_U8) | BIT(OW_I8))
#define RESULTS (BYTES | BIT(OW_U16) | BIT(OW_I16) | BIT(OW_U4) | BIT(OW_I4))

/* Where the operands of a product stand among the inputs, -1 for those that the op has not. */
typedef struct positions {
    int a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias;
} positions;

static const positions *positions_of(ow_kernel_id kernel) {
    static const positions integer = {0, -1, 2, 1, -1, 3, -1, -1, -1}, qlinear = {0, 1, 2, 3, 4, 5, 6, 7, -1},
                           to_float = {0, 2, 4, 1, 3, 5, -1, -1, 6}, dynamic = {0, -1, -1, 1, 2, 3, -1, -1, 4};
    switch ((int)kernel) {
    case OW_KERNEL_matmul_integer: return &integer;
    case OW_KERNEL_qlinear_matmul: return &qlinear;
    case OW_KERNEL_matmul_integer_to_float: return &to_float;
    case OW_KERNEL_dynamic_quantize_matmul: return &dynamic;
    default: return NULL;
    }
}

/* An operand's type must be one of these; absent: whether there may be none. */
static ortwin_status check_type(const ortwin_operand *o, uint32_t allowed, int absent, const char *what,
                                ortwin_error *error) {
    if (!o->dtype)
        return absent ? ORTWIN_OK : ow_fail(error, ORTWIN_UNSUPPORTED, "the %s is missing", what);
    if (o->dtype < 0 || o->dtype >= OW_DTYPES || !(allowed & BIT(o->dtype)))
        return ow_fail(error, ORTWIN_UNSUPPORTED, "the %s is %s, which is not implemented", what,
                       ow_dtype_name(o->dtype));
    return ORTWIN_OK;
}

static ortwin_status check_same(const ortwin_operand *o, const ortwin_operand *as, const char *what,
                                ortwin_error *error) {
    return o->dtype && o->dtype != as->dtype ? ow_fail(error, ORTWIN_UNSUPPORTED, "the %s is %s, not %s", what,
                                                       ow_dtype_name(o->dtype), ow_dtype_name(as->dtype))
                                             : ORTWIN_OK;
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

static ortwin_status check_linear(const ow_whole *node, const ortwin_operand *in, int32_t *dtype, ow_granularity *found,
                                  ortwin_error *error) {
    int quantise = node->kernel == OW_KERNEL_quantize_linear;
    ortwin_status status = check_type(&in[1], node->since_version >= 19 ? FLOATS : BIT(OW_F32), 0, "scale", error);
    if (!status && quantise) {
        uint32_t results = node->since_version < 21 ? BYTES : RESULTS;
        status = check_type(&in[2], results, 1, "zero point", error);
        *dtype = in[2].dtype ? in[2].dtype : node->output_dtype ? (int32_t)node->output_dtype : OW_U8;
        if (!status && node->output_dtype && node->output_dtype != *dtype)
            return ow_fail(error, ORTWIN_UNSUPPORTED, "output_dtype is %s, the zero point %s",
                           ow_dtype_name((int32_t)node->output_dtype), ow_dtype_name(*dtype));
        if (!status)
            status = check_type(&(ortwin_operand){*dtype, -1, NULL}, results, 0, "output_dtype", error);
        if (!status && (node->since_version == 19 || node->since_version == 21))
            status = check_same(&in[1], &in[0], "scale", error);
        ortwin_operand precision = {(int32_t)node->precision, -1, NULL};
        if (!status)
            status = check_type(&precision, FLOATS, 1, "precision", error);
    } else if (!status) {
        status = check_same(&in[2], &in[0], "zero point", error);
        *dtype = node->output_dtype ? (int32_t)node->output_dtype : in[1].dtype;
        if (!status)
            status = check_type(&(ortwin_operand){*dtype, -1, NULL}, FLOATS, 0, "output_dtype", error);
    }
    if (!status && node->block_size < 0)
        status = ow_fail(error, ORTWIN_UNSUPPORTED, "block_size must not be negative");
    if (status)
        return status;
    return ow_granularity_of(&in[0], &in[1], &in[2], node->axis, node->block_size, node->since_version < 13, found,
                             error);
}

/* ---- products ---- */

static ortwin_status check_product_types(const ow_whole *node, const positions *p, const ortwin_operand *in,
                                         int32_t *dtype, ortwin_error *error) {
    static const ortwin_operand none = {0, -1, NULL};
    const ortwin_operand *a_scale = p->a_scale < 0 ? &none : &in[p->a_scale];
    int dynamic = node->kernel == OW_KERNEL_dynamic_quantize_matmul, qlinear = p->y_zero >= 0;
    uint32_t scales = dynamic                     ? BIT(OW_F32)
                      : !qlinear                  ? BIT(OW_F32) | BIT(OW_F16)
                      : node->since_version >= 21 ? FLOATS
                                                  : BIT(OW_F32);
    ortwin_status status = check_type(&in[p->b], BYTES, 0, "matrix B", error);
    if (!status && p->a_zero >= 0) {
        status = check_type(&in[p->a_zero], BYTES, !qlinear, "zero point of A", error);
        if (!status)
            status = check_same(&in[p->a_zero], &in[p->a], "zero point of A", error);
    }
    if (!status)
        status = check_type(&in[p->b_zero], BYTES, !qlinear, "zero point of B", error);
    if (!status)
        status = check_same(&in[p->b_zero], &in[p->b], "zero point of B", error);
    if (!status && p->a_scale >= 0)
        status = check_type(a_scale, scales, 0, "scale of A", error);
    if (!status && p->b_scale >= 0)
        status = check_type(&in[p->b_scale], scales, 0, "scale of B", error);
    if (!status && p->a_scale >= 0)
        status = check_same(&in[p->b_scale], a_scale, "scale of B", error);
    *dtype = node->kernel == OW_KERNEL_matmul_integer ? OW_I32 : dynamic ? OW_F32 : a_scale->dtype;
    if (!status && qlinear) {
        status = check_type(&in[p->y_zero], BYTES, 0, "zero point of the result", error);
        if (!status)
            status = check_type(&in[p->y_scale], scales, 0, "scale of the result", error);
        if (!status)
            status = check_same(&in[p->y_scale], a_scale, "scale of the result", error);
        *dtype = in[p->y_zero].dtype;
    }
    if (!status && p->bias >= 0)
        status = check_same(&in[p->bias], &in[p->b_scale], "bias", error);
    return status;
}

static ortwin_status check_product(const ow_whole *node, const ortwin_operand *in, int32_t *dtype, int32_t *rank,
                                   int64_t *dims, ortwin_error *error) {
    const positions *p = positions_of(node->kernel);
    ortwin_status status = check_product_types(node, p, in, dtype, error);
    if (status)
        return status;
    ow_product_shapes shapes;
    memset(&shapes, 0, sizeof shapes);
    shapes.a = in[p->a];
    shapes.b = in[p->b];
    shapes.b_zero = in[p->b_zero];
    if (p->a_zero >= 0)
        shapes.a_zero = in[p->a_zero];
    if (p->a_scale >= 0)
        shapes.a_scale = in[p->a_scale];
    if (p->b_scale >= 0)
        shapes.b_scale = in[p->b_scale];
    if (p->y_zero >= 0)
        shapes.y_zero = in[p->y_zero], shapes.y_scale = in[p->y_scale];
    if (p->bias >= 0)
        shapes.bias = in[p->bias];
    shapes.a_is_whole = node->kernel == OW_KERNEL_matmul_integer_to_float;
    return ow_product_shape(&shapes, dims, rank, error);
}

static int is_dynamic(ow_kernel_id kernel) {
    return kernel == OW_KERNEL_dynamic_quantize_linear || kernel == OW_KERNEL_dynamic_quantize_scale ||
           kernel == OW_KERNEL_dynamic_quantize_zero;
}

int32_t ow_quantised_rank(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    const positions *p = positions_of(node->kernel);
    if (p)
        return ow_product_rank(inputs[p->a].rank, inputs[p->b].rank);
    if (node->kernel == OW_KERNEL_dynamic_quantize_scale || node->kernel == OW_KERNEL_dynamic_quantize_zero)
        return 0;
    return inputs[0].rank;
}

ortwin_status ow_quantised_check(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS], int32_t *dtype,
                                 int32_t *rank, int64_t *dims, ortwin_error *error) {
    if (positions_of(node->kernel))
        return check_product(node, inputs, dtype, rank, dims, error);
    *rank = ow_quantised_rank(node, inputs);
    for (int32_t k = 0; k < *rank && dims; k++)
        dims[k] = inputs[0].dims[k];
    if (is_dynamic(node->kernel)) {
        *dtype = node->kernel == OW_KERNEL_dynamic_quantize_scale ? OW_F32 : OW_U8;
        return ORTWIN_OK;
    }
    return check_linear(node, inputs, dtype, NULL, error);
}

ow_inner ow_quantised_inner(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    const positions *p = positions_of(node->kernel);
    return p ? ow_product_inner(&inputs[p->a], &inputs[p->b]) : OW_NO_INNER;
}

const ow_pack *ow_quantised_pack(const ow_kernels *kernels, const ow_whole *node,
                                 const ortwin_tensor *const constants[OW_WHOLE_INPUTS], uint32_t *replaced,
                                 ow_tally *tally) {
    const positions *p = positions_of(node->kernel);
    if (!p || !constants[p->b] || !constants[p->b]->bytes)
        return NULL;
    *replaced = 1u << p->b;
    return ow_integer_pack_take(kernels->products, constants[p->b], tally);
}

/* ---- running ---- */

static ortwin_operand known(const ortwin_tensor *t) {
    return t ? (ortwin_operand){t->dtype, (int32_t)t->rank, t->dims} : (ortwin_operand){0, -1, NULL};
}

static ortwin_status run_linear(const ow_kernels *kernels, const ow_whole *node, const ortwin_tensor *const *in,
                                const ortwin_tensor *y, ortwin_error *error) {
    ortwin_operand x = known(in[0]), scale = known(in[1]), zero = known(in[2]);
    ow_granularity g;
    ortwin_status status =
        ow_granularity_of(&x, &scale, &zero, node->axis, node->block_size, node->since_version < 13, &g, error);
    if (status)
        return status;
    if (node->kernel == OW_KERNEL_dequantize_linear) {
        ow_dequantise(kernels->quantisers, &g, in[0], in[1], in[2], y);
        return ORTWIN_OK;
    }
    int32_t precision = node->since_version < 23 ? OW_F32 : node->precision ? (int32_t)node->precision : in[1]->dtype;
    ow_quantise(kernels->quantisers, &g, in[0], in[1], in[2], precision, y);
    return ORTWIN_OK;
}

static void run_dynamic_linear(const ow_kernels *kernels, ow_kernel_id kernel, const ortwin_tensor *x,
                               const ortwin_tensor *y) {
    float scale;
    uint8_t zero;
    size_t count = x->bytes / sizeof(float);
    ow_dynamic_scale(kernels->quantisers, x->data, count, &scale, &zero);
    if (kernel == OW_KERNEL_dynamic_quantize_scale)
        memcpy(y->data, &scale, sizeof scale);
    else if (kernel == OW_KERNEL_dynamic_quantize_zero)
        memcpy(y->data, &zero, sizeof zero);
    else
        ow_quantise_bytes(kernels->quantisers, x->data, count, scale, zero, y->data);
}

/* A as DynamicQuantizeLinear gives it, in memory that lives as long as the call. */
static ortwin_status run_dynamic(const ow_kernels *kernels, ow_product_operands *operands, const ow_pack *pack,
                                 const ow_fan *fan, const ortwin_tensor *y, ortwin_error *error) {
    const ortwin_tensor *a = operands->a;
    size_t count = a->bytes / sizeof(float);
    float scale;
    uint8_t zero;
    void *bytes = malloc(count ? count : 1);
    if (!bytes)
        return ow_fail(error, ORTWIN_OUT_OF_MEMORY, "out of memory");
    ow_dynamic_scale(kernels->quantisers, a->data, count, &scale, &zero);
    ow_quantise_bytes(kernels->quantisers, a->data, count, scale, zero, bytes);
    ortwin_tensor quantised = {bytes, a->dims, a->rank, count, OW_U8};
    ortwin_tensor scales = {&scale, NULL, 0, sizeof scale, OW_F32}, zeros = {&zero, NULL, 0, sizeof zero, OW_U8};
    operands->a = &quantised;
    operands->a_scale = &scales;
    operands->a_zero = &zeros;
    ortwin_status status = ow_product_run(kernels->products, OW_PRODUCT_FLOATS, operands, pack, fan, y, error);
    free(bytes);
    return status;
}

static const ortwin_tensor *at(const ortwin_tensor *const *in, int position) {
    return position < 0 ? NULL : in[position];
}

ortwin_status ow_quantised_run(const ow_kernels *kernels, const ow_whole *node,
                               const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], const ow_pack *pack,
                               const ow_fan *fan, const ortwin_tensor *y, ortwin_error *error) {
    const positions *p = positions_of(node->kernel);
    if (is_dynamic(node->kernel)) {
        run_dynamic_linear(kernels, node->kernel, inputs[0], y);
        return ORTWIN_OK;
    }
    if (!p)
        return run_linear(kernels, node, inputs, y, error);
    ow_product_operands operands = {.a = inputs[p->a],
                                    .a_zero = at(inputs, p->a_zero),
                                    .a_scale = at(inputs, p->a_scale),
                                    .b = inputs[p->b],
                                    .b_zero = at(inputs, p->b_zero),
                                    .b_scale = at(inputs, p->b_scale),
                                    .y_zero = at(inputs, p->y_zero),
                                    .y_scale = at(inputs, p->y_scale),
                                    .bias = at(inputs, p->bias)};
    if (node->kernel == OW_KERNEL_dynamic_quantize_matmul)
        return run_dynamic(kernels, &operands, pack, fan, y, error);
    ow_product_kind kind = node->kernel == OW_KERNEL_matmul_integer   ? OW_PRODUCT_SUMS
                           : node->kernel == OW_KERNEL_qlinear_matmul ? OW_PRODUCT_QUANTISED
                                                                      : OW_PRODUCT_FLOATS;
    return ow_product_run(kernels->products, kind, &operands, pack, fan, y, error);
}

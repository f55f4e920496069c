#include "run/ops.h"

#include "run/nbits.h"
#include "run/shape.h"
#include "run/split.h"
#include "simd/half.h"

#include <float.h>
#include <math.h> /* NAN, isnan: macros only */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BIT(dtype) (1u << (dtype))
#define F32 BIT(OW_F32)
#define F16 BIT(OW_F16)
#define BF16 BIT(OW_BF16)
#define I32_I64 (BIT(OW_I32) | BIT(OW_I64))
#define INTEGERS \
    (BIT(OW_I8) | BIT(OW_I16) | BIT(OW_I32) | BIT(OW_I64) | BIT(OW_U8) | BIT(OW_U16) | BIT(OW_U32) | BIT(OW_U64))
#define ANY                                                                                                     \
    (F32 | F16 | BF16 | INTEGERS | BIT(OW_BOOL) | BIT(OW_F64) | BIT(OW_C64) | BIT(OW_C128) | BIT(OW_F8E4M3FN) | \
     BIT(OW_F8E4M3FNUZ) | BIT(OW_F8E5M2) | BIT(OW_F8E5M2FNUZ) | BIT(OW_F8E8M0))

#define BYTES (BIT(OW_U8) | BIT(OW_I8))
#define STORED (BYTES | BIT(OW_I32))
#define STORED_21 (STORED | BIT(OW_U16) | BIT(OW_I16) | BIT(OW_U4) | BIT(OW_I4))
#define I32 BIT(OW_I32)
#define MODULAR (BIT(OW_I32) | BIT(OW_I64) | BIT(OW_U32) | BIT(OW_U64))

/* ONNX 1: a hint for in-place execution that carries no meaning. */
#define LEGACY {"consumed_inputs", ORTWIN_ATTR_INTS, OW_TO_NOTHING, 0, NULL, NULL}
#define ALPHA(preset) {"alpha", ORTWIN_ATTR_FLOAT, OW_TO_ALPHA, preset, NULL, NULL}
#define BETA(preset) {"beta", ORTWIN_ATTR_FLOAT, OW_TO_BETA, preset, NULL, NULL}
#define GAMMA(preset) {"gamma", ORTWIN_ATTR_FLOAT, OW_TO_BETA, preset, NULL, NULL}
#define AXIS {"axis", ORTWIN_ATTR_INT, OW_TO_AXIS, -1, NULL, NULL}
#define SPREAD {"broadcast", ORTWIN_ATTR_INT, OW_TO_BROADCAST, 0, NULL, NULL}
#define LINE_AXIS {"axis", ORTWIN_ATTR_INT, OW_TO_AXIS, 1, NULL, NULL}
#define SATURATE {"saturate", ORTWIN_ATTR_INT, OW_TO_NOTHING, 1, NULL, NULL} /* of float8 */
#define BLOCK_SIZE {"block_size", ORTWIN_ATTR_INT, OW_TO_BLOCK_SIZE, 0, NULL, NULL}
#define OUTPUT_DTYPE {"output_dtype", ORTWIN_ATTR_INT, OW_TO_OUTPUT_DTYPE, 0, NULL, NULL}
#define PRECISION {"precision", ORTWIN_ATTR_INT, OW_TO_PRECISION, 0, NULL, NULL}
#define NBITS_SIZES                                                                                               \
    {"K", ORTWIN_ATTR_INT, OW_TO_INNER, -1, NULL, NULL}, {"N", ORTWIN_ATTR_INT, OW_TO_COLUMNS, -1, NULL, NULL}, { \
        "block_size", ORTWIN_ATTR_INT, OW_TO_BLOCK_SIZE, -1, NULL, NULL                                           \
    }
#define BITS {"bits", ORTWIN_ATTR_INT, OW_TO_BITS, 4, NULL, NULL}
#define ACCURACY {"accuracy_level", ORTWIN_ATTR_INT, OW_TO_ACCURACY, 0, NULL, NULL}
#define PREPACKED {"weight_prepacked", ORTWIN_ATTR_INT, OW_TO_PREPACKED, 0, NULL, NULL}
#define APPROXIMATE {"approximate", ORTWIN_ATTR_STRING, OW_TO_NOTHING, 0, "none", "tanh"}
#define TRANSPOSES                                               \
    {"transA", ORTWIN_ATTR_INT, OW_TO_TRANS_A, 0, NULL, NULL}, { \
        "transB", ORTWIN_ATTR_INT, OW_TO_TRANS_B, 0, NULL, NULL  \
    }
#define BOUNDS                                                       \
    {"min", ORTWIN_ATTR_FLOAT, OW_TO_ALPHA, -FLT_MAX, NULL, NULL}, { \
        "max", ORTWIN_ATTR_FLOAT, OW_TO_BETA, FLT_MAX, NULL, NULL    \
    }
#define END {NULL, 0, OW_TO_NOTHING, 0, NULL, NULL}
#define ATTRS(list, ...) static const ow_attr_rule attrs_##list[] = {__VA_ARGS__, END}

static const ow_attr_rule attrs_none[] = {END};
ATTRS(legacy, LEGACY);
ATTRS(leaky_relu, ALPHA(0x1.47ae14p-7f)); /* RN(0.01) */
ATTRS(leaky_relu_legacy, LEGACY, ALPHA(0x1.47ae14p-7f));
ATTRS(thresholded_relu, ALPHA(1.0f));
ATTRS(hard_sigmoid, ALPHA(0x1.99999ap-3f), BETA(0.5f)); /* RN(0.2) */
ATTRS(hard_sigmoid_legacy, LEGACY, ALPHA(0x1.99999ap-3f), BETA(0.5f));
ATTRS(clip, BOUNDS);
ATTRS(clip_legacy, LEGACY, BOUNDS);
ATTRS(elu, ALPHA(1.0f));
ATTRS(elu_legacy, LEGACY, ALPHA(1.0f));
ATTRS(selu, ALPHA(0x1.ac5afap+0f), GAMMA(0x1.0cfabep+0f)); /* RN(1.67326319217681884765625), RN(1.05070102214813232) */
ATTRS(selu_legacy, LEGACY, ALPHA(0x1.ac56d6p+0f), GAMMA(0x1.0cfaacp+0f)); /* RN(1.6732), RN(1.0507) */
ATTRS(swish, ALPHA(1.0f));
ATTRS(quick_gelu, ALPHA(0x1.b3b646p+0f)); /* RN(1.702) */
ATTRS(limited, AXIS, SPREAD);
ATTRS(limited_legacy, LEGACY, AXIS, SPREAD);
ATTRS(gelu, APPROXIMATE);
ATTRS(line, LINE_AXIS);
ATTRS(quantize_19, LINE_AXIS, SATURATE);
ATTRS(quantize_21, LINE_AXIS, SATURATE, BLOCK_SIZE, OUTPUT_DTYPE);
ATTRS(quantize_23, LINE_AXIS, SATURATE, BLOCK_SIZE, OUTPUT_DTYPE, PRECISION);
ATTRS(dequantize_21, LINE_AXIS, BLOCK_SIZE);
ATTRS(dequantize_23, LINE_AXIS, BLOCK_SIZE, OUTPUT_DTYPE);
ATTRS(nbits, NBITS_SIZES, BITS, ACCURACY, PREPACKED);

ATTRS(gemm, ALPHA(1.0f), BETA(1.0f), TRANSPOSES);
ATTRS(gemm_legacy, ALPHA(1.0f), BETA(1.0f), TRANSPOSES, SPREAD);

static const ow_op table[] = {
#define OP(domain, name, since, inputs, dtypes, cost, shape, attrs, kernel) \
    {domain, #name, since, inputs, dtypes, OW_COST_##cost, OW_SHAPE_##shape, attrs_##attrs, OW_KERNEL_##kernel},
#include "ops.def"
#undef OP
};
enum { TABLE_ROWS = sizeof table / sizeof table[0] };

/* The length of the UTF-8 character at c (RFC 3629), 0 where there is none. */
static size_t utf8_length(const unsigned char *c) {
    size_t length = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    for (size_t k = 1; k < length; k++)
        if ((c[k] & 0xc0) != 0x80) /* also at the terminating NUL, so nothing behind it is read */
            return 0;
    int overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    int outside = (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f); /* surrogates; above U+10FFFF */
    return overlong || outside ? 0 : length;
}

void ow_make_utf8(char *text) {
    while (*text) {
        size_t length = utf8_length((const unsigned char *)text);
        if (!length)
            *text = '?';
        text += length ? length : 1;
    }
}

ortwin_status ow_fail(ortwin_error *error, ortwin_status status, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
        ow_make_utf8(error->text);
    }
    return status;
}

static const char *const cost_names[] = {[OW_COST_MEMORY] = "memory",
                                         [OW_COST_LIGHT] = "light",
                                         [OW_COST_TRANSCENDENTAL] = "transcendental",
                                         [OW_COST_COMPOSITE] = "composite",
                                         [OW_COST_PRODUCT] = "product"};

size_t ortwin_piece_length(const char *cost_class, size_t length, size_t row_width) {
    for (ow_cost cost = OW_COST_MEMORY; cost <= OW_COST_COMPOSITE; cost++)
        if (cost_class && strcmp(cost_class, cost_names[cost]) == 0)
            return ow_piece_length(length, cost, row_width);
    return 0;
}

int ortwin_op(size_t index, ortwin_op_row *row) {
    if (index >= TABLE_ROWS || !row)
        return 0;
    const ow_op *op = &table[index];
    *row = (ortwin_op_row){op->domain, op->name, cost_names[op->cost], op->since_version, op->dtypes};
    return 1;
}

const char *ow_kernel_name(ow_kernel_id kernel) {
    static const char *const names[] = {
#define K(name) [OW_KERNEL_##name] = #name,
        OW_UNARY_KERNELS(K) OW_BINARY_KERNELS(K) OW_WHOLE_KERNELS(K)
#undef K
            [OW_KERNEL_copy] = "copy"};
    return names[kernel];
}

static const ow_op *find(const char *domain, const char *name, int32_t since, int *known) {
    *known = 0;
    for (size_t k = 0; k < TABLE_ROWS; k++)
        if (strcmp(table[k].name, name) == 0 && strcmp(table[k].domain, domain) == 0) {
            *known = 1;
            if (table[k].since_version == since)
                return &table[k];
        }
    return NULL;
}

static void put_attr(ow_resolved *node, const ow_attr_rule *rule, float f, int64_t i) {
    switch (rule->to) {
    case OW_TO_ALPHA: node->params.alpha = node->whole.alpha = f; break;
    case OW_TO_BETA: node->params.beta = node->whole.beta = f; break;
    case OW_TO_AXIS: node->axis = node->whole.axis = i; break;
    case OW_TO_BLOCK_SIZE: node->whole.block_size = i; break;
    case OW_TO_OUTPUT_DTYPE: node->whole.output_dtype = i; break;
    case OW_TO_PRECISION: node->whole.precision = i; break;
    case OW_TO_INNER: node->whole.inner = i; break;
    case OW_TO_COLUMNS: node->whole.columns = i; break;
    case OW_TO_BITS: node->whole.bits = i; break;
    case OW_TO_ACCURACY: node->whole.accuracy = i; break;
    case OW_TO_PREPACKED: node->whole.prepacked = i; break;
    case OW_TO_TRANS_A: node->whole.transposes_a = i != 0; break;
    case OW_TO_TRANS_B: node->whole.transposes_b = i != 0; break;
    case OW_TO_BROADCAST: node->broadcast = node->whole.broadcast = i != 0; break;
    case OW_TO_NOTHING: break;
    }
}

size_t ow_min_inputs(const ow_op *op) {
    switch ((int)op->kernel) {
    case OW_KERNEL_qlinear_matmul: return 8;
    case OW_KERNEL_matmul_integer_to_float: return 4;
    case OW_KERNEL_dynamic_quantize_matmul:
    case OW_KERNEL_matmul_nbits_level_0: return 3;
    case OW_KERNEL_gemm: return op->since_version < 11 ? 3 : 2;
    case OW_KERNEL_dynamic_quantize_linear: return 1;
    default: return op->shape == OW_SHAPE_SAME || op->shape == OW_SHAPE_OPTIONAL_BIAS ? 1 : 2;
    }
}
size_t ow_outputs(const ow_op *op) { return op->kernel == OW_KERNEL_dynamic_quantize_linear ? 3 : 1; }

ow_resolved ow_part(const ow_resolved *node, size_t k) {
    static const ow_kernel_id parts[] = {OW_KERNEL_dynamic_quantize_linear, OW_KERNEL_dynamic_quantize_scale,
                                         OW_KERNEL_dynamic_quantize_zero};
    ow_resolved part = *node;
    if (ow_outputs(node->op) > 1) {
        part.kernel = part.whole.kernel = parts[k];
        part.output = k == 1 ? OW_F32 : OW_U8;
    }
    return part;
}

/* The last attribute of that name, the one that counts; NULL if the node has none. */
static const ortwin_attr *given(const ortwin_node *node, const ow_attr_rule *rule) {
    const ortwin_attr *found = NULL;
    for (size_t k = 0; k < node->attr_count; k++)
        if (strcmp(node->attrs[k].name ? node->attrs[k].name : "", rule->name) == 0)
            found = &node->attrs[k];
    return found;
}

static int is_text(const ortwin_attr *attr, const char *text) {
    return attr->s && attr->length == strlen(text) && memcmp(attr->s, text, attr->length) == 0;
}
/* How much of a STRING a message shows. */
static int shown_length(const ortwin_attr *attr) { return !attr->s ? 0 : attr->length < 64 ? (int)attr->length : 64; }

/* "Clip" of ow_params: one NaN bound makes the other NaN, so that the kernel tests one of them. */
static void spread_nan(ow_params *params) {
    if (isnan(params->alpha) || isnan(params->beta))
        params->alpha = params->beta = NAN;
}

/* The largest finite number of a float type, as binary32. */
static float largest_finite(int32_t dtype) {
    return dtype == OW_F16 ? 0x1.ffcp15f : dtype == OW_BF16 ? 0x1.fep127f : FLT_MAX;
}

/* A number of a float type as binary32, exactly. */
static float read_float(int32_t dtype, const void *data) {
    float value;
    uint16_t half;
    if (dtype == OW_F32) {
        memcpy(&value, data, sizeof value);
        return value;
    }
    memcpy(&half, data, sizeof half);
    return dtype == OW_F16 ? ow_from_f16(half) : ow_from_bf16(half);
}

void ow_clip_bounds(ow_params *params, int32_t dtype, const void *lower, const void *upper) {
    if (ow_is_float(dtype)) { /* C10d: a missing bound is the lowest or largest finite value */
        params->alpha = lower ? read_float(dtype, lower) : -largest_finite(dtype);
        params->beta = upper ? read_float(dtype, upper) : largest_finite(dtype);
        spread_nan(params);
        return;
    }
    switch (dtype) {
    case OW_I8: params->lo.i8 = INT8_MIN, params->hi.i8 = INT8_MAX; break;
    case OW_I16: params->lo.i16 = INT16_MIN, params->hi.i16 = INT16_MAX; break;
    case OW_I32: params->lo.i32 = INT32_MIN, params->hi.i32 = INT32_MAX; break;
    case OW_I64: params->lo.i64 = INT64_MIN, params->hi.i64 = INT64_MAX; break;
    case OW_U8: params->lo.u8 = 0, params->hi.u8 = UINT8_MAX; break;
    case OW_U16: params->lo.u16 = 0, params->hi.u16 = UINT16_MAX; break;
    case OW_U32: params->lo.u32 = 0, params->hi.u32 = UINT32_MAX; break;
    default: params->lo.u64 = 0, params->hi.u64 = UINT64_MAX; break;
    }
    size_t size = ow_item_size(dtype);
    if (lower)
        memcpy(params->lo.raw, lower, size);
    if (upper)
        memcpy(params->hi.raw, upper, size);
}

/* Clip's bounds as attributes, which are binary32 for every type. The preset, which version 6 does not tell from a
 * bound that is given, stands for a missing one (C10d). */
static void clip_attributes(ow_params *params, int32_t dtype) {
    if (params->alpha == -FLT_MAX)
        params->alpha = -largest_finite(dtype);
    if (params->beta == FLT_MAX)
        params->beta = largest_finite(dtype);
    spread_nan(params);
}

/* What an op of two inputs asks of them. */
static ortwin_status check_pair(const ow_node_view *view, const ow_resolved *made, ortwin_error *error) {
    const char *type = made->op->name;
    int version = (int)made->op->since_version;
    int32_t second = view->inputs[1].dtype;
    int given_axis = 0;
    for (size_t k = 0; k < view->node->attr_count; k++)
        given_axis |= strcmp(view->node->attrs[k].name, "axis") == 0;
    if (second == 0)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: the second input is missing", type, version);
    if (second != made->dtype)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: the second input is %s, the first %s", type, version,
                       ow_dtype_name(second), ow_dtype_name(made->dtype));
    if (given_axis && made->axis < 0)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: axis must not be negative", type, version);
    return ow_output_shape(made, view->inputs, NULL, error) ? ORTWIN_UNSUPPORTED : ORTWIN_OK;
}

/* What an op that is executed as a whole asks of its operands. */
static ortwin_status check_whole(const ow_node_view *view, ow_resolved *made, ortwin_error *error) {
    ortwin_operand inputs[OW_WHOLE_INPUTS] = {{0, -1, NULL}};
    ortwin_error rule;
    int32_t rank;
    for (size_t k = 0; k < OW_WHOLE_INPUTS; k++)
        inputs[k] = k < view->node->input_count ? view->inputs[k] : (ortwin_operand){0, -1, NULL};
    for (size_t k = 0; k < OW_WHOLE_INPUTS; k++)
        made->whole.operands |= inputs[k].dtype ? 1u << k : 0;
    if (!ow_whole_check(&made->whole, inputs, &made->output, &rank, NULL, &rule)) {
        if (made->whole.kernel == OW_KERNEL_matmul_nbits_level_0 &&
            ow_nbits_takes_integers(&made->whole, inputs, view->nbits_exact))
            made->whole.kernel = OW_KERNEL_matmul_nbits_level_4;
        return ORTWIN_OK;
    }
    return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: %s", made->op->name, (int)made->op->since_version, rule.text);
}

int ow_takes_bias(const ow_op *op) { return op->shape == OW_SHAPE_BIAS || op->shape == OW_SHAPE_OPTIONAL_BIAS; }

/* What an op asks of its bias, if it has one. */
static ortwin_status check_bias(const ow_node_view *view, const ow_resolved *made, ortwin_error *error) {
    const char *type = made->op->name;
    int version = (int)made->op->since_version;
    if (view->node->input_count < 2)
        return ORTWIN_OK;
    const ortwin_operand *bias = &view->inputs[1];
    if (!bias->dtype && made->op->shape == OW_SHAPE_BIAS)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: the bias is missing", type, version);
    if (bias->dtype && bias->dtype != made->dtype)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: the bias is %s, the input %s", type, version,
                       ow_dtype_name(bias->dtype), ow_dtype_name(made->dtype));
    return ow_output_shape(made, view->inputs, NULL, error) ? ORTWIN_UNSUPPORTED : ORTWIN_OK;
}

ortwin_status ow_resolve(const ow_node_view *view, ow_resolved *resolved, ortwin_error *error) {
    const ortwin_node *node = view->node;
    const char *domain = node->domain ? node->domain : "";
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    const char *shown = *domain ? domain : "ai.onnx", *type = node->op_type ? node->op_type : "";
    int known;
    const ow_op *op = find(domain, type, node->since_version, &known);
    if (!op && !known)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "op %s of domain %s is not implemented", type, shown);
    if (!op)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s: since_version %d is not implemented", type,
                       (int)node->since_version);
    size_t least = ow_min_inputs(op);
    if (node->input_count < least || node->input_count > op->max_inputs || node->output_count != ow_outputs(op))
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d takes %zu to %zu inputs and %zu output%s, not %zu and %zu",
                       type, (int)op->since_version, least, op->max_inputs, ow_outputs(op),
                       ow_outputs(op) > 1 ? "s" : "", node->input_count, node->output_count);
    int32_t dtype = view->inputs[0].dtype;
    if (dtype == 0)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s: the first input is missing or has no known tensor type", type);
    if (dtype < 0 || dtype >= OW_DTYPES || !(op->dtypes & BIT(dtype)))
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d on %s is not implemented", type, (int)op->since_version,
                       ow_dtype_name(dtype));

    ow_resolved made;
    memset(&made, 0, sizeof made);
    made.op = op;
    made.dtype = made.output = dtype;
    made.whole = (ow_whole){.kernel = op->kernel, .since_version = op->since_version};
    ow_params *params = &made.params;
    for (const ow_attr_rule *rule = op->attrs; rule->name; rule++)
        put_attr(&made, rule, rule->preset, rule->type == ORTWIN_ATTR_INT ? (int64_t)rule->preset : 0);
    for (size_t k = 0; k < node->attr_count; k++) {
        const ortwin_attr *attr = &node->attrs[k];
        const ow_attr_rule *rule = op->attrs;
        while (rule->name && strcmp(rule->name, attr->name ? attr->name : "") != 0)
            rule++;
        if (!rule->name)
            return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d has no attribute %s", type, (int)op->since_version,
                           attr->name ? attr->name : "(NULL)");
        if (attr->type != rule->type)
            return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: attribute %s has the wrong type", type,
                           (int)op->since_version, attr->name);
        put_attr(&made, rule, attr->f, attr->i);
    }
    ow_kernel_id kernel = op->kernel;
    for (const ow_attr_rule *rule = op->attrs; rule->name; rule++) {
        const ortwin_attr *attr = rule->text ? given(node, rule) : NULL;
        if (!attr || is_text(attr, rule->text))
            continue;
        if (!is_text(attr, rule->other))
            return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: %s=%.*s is not implemented, only %s and %s", type,
                           (int)op->since_version, rule->name, shown_length(attr), attr->s ? attr->s : "", rule->text,
                           rule->other);
        kernel = OW_KERNEL_gelu_tanh; /* Gelu's approximate is the only STRING */
    }
    if (op->kernel == OW_KERNEL_celu && !(params->alpha > 0.0f && params->alpha <= FLT_MAX))
        return ow_fail(error, ORTWIN_UNSUPPORTED, "%s-%d: alpha must be positive and finite", type,
                       (int)op->since_version);
    if (op->shape == OW_SHAPE_WHOLE) {
        ortwin_status status = check_whole(view, &made, error);
        if (status)
            return status;
        made.kernel = made.whole.kernel;
        *resolved = made;
        return ORTWIN_OK;
    }
    if (ow_takes_bias(op)) {
        ortwin_status status = check_bias(view, &made, error);
        if (status)
            return status;
    }
    if (op->kernel == OW_KERNEL_clip) {
        clip_attributes(params, dtype);
        for (size_t k = 1; k < node->input_count; k++) {
            const ortwin_operand *bound = &view->inputs[k];
            if (bound->dtype && bound->dtype != dtype)
                return ow_fail(error, ORTWIN_UNSUPPORTED, "Clip: the %s is %s, the input %s", k == 1 ? "min" : "max",
                               ow_dtype_name(bound->dtype), ow_dtype_name(dtype));
            if (bound->dtype && bound->rank > 0)
                return ow_fail(error, ORTWIN_UNSUPPORTED, "Clip: the %s has rank %d, the rule is rank 0",
                               k == 1 ? "min" : "max", (int)bound->rank);
        }
    }
    if (op->shape == OW_SHAPE_BROADCAST || op->shape == OW_SHAPE_LIMITED) {
        ortwin_status status = check_pair(view, &made, error);
        if (status)
            return status;
    }
    made.kernel = kernel;
    *resolved = made;
    return ORTWIN_OK;
}

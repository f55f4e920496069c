#include "run/shape.h"

#include <stdio.h>

/* A dimension of an operand, -1 if it is unknown. */
static int64_t dim(const ortwin_operand *operand, int64_t axis) { return operand->dims ? operand->dims[axis] : -1; }

static int differ(int64_t m, int64_t n) { return m >= 0 && n >= 0 && m != n; }

int32_t ow_output_rank(const ow_resolved *node, const ortwin_operand *inputs) {
    if (node->op->shape == OW_SHAPE_WHOLE)
        return ow_whole_rank(&node->whole, inputs);
    if (node->op->shape != OW_SHAPE_BROADCAST)
        return inputs[0].rank;
    if (inputs[0].rank < 0 || inputs[1].rank < 0)
        return -1;
    return inputs[0].rank > inputs[1].rank ? inputs[0].rank : inputs[1].rank;
}

/* "[2,?,4]" */
static const char *shown(const ortwin_operand *operand, char *text, size_t room) {
    size_t at = (size_t)snprintf(text, room, "[");
    for (int32_t k = 0; k < operand->rank && at + 24 < room; k++)
        at += dim(operand, k) < 0
                  ? (size_t)snprintf(text + at, room - at, k ? ",?" : "?")
                  : (size_t)snprintf(text + at, room - at, k ? ",%lld" : "%lld", (long long)dim(operand, k));
    snprintf(text + at, room - at, "]");
    return text;
}

static ortwin_status no_fit(const ow_resolved *node, const ortwin_operand *inputs, ortwin_error *error) {
    char first[128], second[128];
    return ow_fail(error, ORTWIN_BAD_SHAPE, "%s-%d: shapes %s and %s do not broadcast", node->op->name,
                   (int)node->op->since_version, shown(&inputs[0], first, sizeof first),
                   shown(&inputs[1], second, sizeof second));
}

/* LIMITED: the axis of the first operand where the second begins, -1 if it does not fit (ONNX, Add-6). */
static int64_t limited_lead(const ow_resolved *node, const ortwin_operand *a, const ortwin_operand *b) {
    if (!node->broadcast && a->rank != b->rank)
        return -1;
    int single = 1;
    for (int32_t k = 0; k < b->rank; k++)
        single &= !differ(dim(b, k), 1);
    if (node->broadcast && single) /* one element: the rank is all that must fit */
        return b->rank > a->rank ? -1 : a->rank - b->rank;
    int64_t lead = node->broadcast && node->axis >= 0 ? node->axis : (int64_t)a->rank - b->rank;
    if (lead < 0 || lead > (int64_t)a->rank - b->rank)
        return -1;
    for (int32_t k = 0; k < b->rank; k++)
        if (differ(dim(a, lead + k), dim(b, k)))
            return -1;
    return lead;
}

/* BIAS: the rule that the shapes break, as far as they are known; NULL for none. */
static const char *bias_rule(const ortwin_operand *x, const ortwin_operand *bias) {
    if (x->rank == 0)
        return "an input of rank 0 has no rows for a bias";
    if (bias->rank >= 0 && bias->rank != 1)
        return "the rank of the bias is not 1";
    if (x->rank > 0 && bias->rank == 1 && differ(dim(x, x->rank - 1), dim(bias, 0)))
        return "the bias is not as long as the input's last dimension";
    return NULL;
}

/* The size that two aligned axes broadcast to, -1 if it is unknown; -2 if they do not fit. */
static int64_t either(int64_t m, int64_t n) {
    if (m == 1 || m == n)
        return n;
    if (n == 1 || n < 0)
        return m; /* where n is unknown, it can only be 1 or m */
    return m < 0 ? n : -2;
}

ortwin_status ow_output_shape(const ow_resolved *node, const ortwin_operand *inputs, int64_t *dims,
                              ortwin_error *error) {
    const ortwin_operand *a = &inputs[0], *b = &inputs[1];
    if (node->op->shape == OW_SHAPE_WHOLE) {
        int32_t dtype, rank;
        return ow_whole_check(&node->whole, inputs, &dtype, &rank, dims, error);
    }
    if (node->op->shape == OW_SHAPE_BROADCAST) {
        int32_t rank = ow_output_rank(node, inputs);
        for (int32_t k = 0; k < rank; k++) {
            int64_t m = k < rank - a->rank ? 1 : dim(a, k - (rank - a->rank));
            int64_t n = k < rank - b->rank ? 1 : dim(b, k - (rank - b->rank)), size = either(m, n);
            if (size < -1)
                return no_fit(node, inputs, error);
            if (dims)
                dims[k] = size;
        }
        return ORTWIN_OK;
    }
    if (node->op->shape == OW_SHAPE_LIMITED && a->rank >= 0 && b->rank >= 0 && limited_lead(node, a, b) < 0)
        return no_fit(node, inputs, error);
    if (ow_takes_bias(node->op) && b->dtype) {
        const char *rule = bias_rule(a, b);
        if (rule)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "%s-%d: %s", node->op->name, (int)node->op->since_version, rule);
    }
    for (int32_t k = 0; k < a->rank && dims; k++)
        dims[k] = dim(a, k);
    return ORTWIN_OK;
}

int ow_tensor_size(int32_t dtype, size_t rank, const int64_t *dims, size_t *count, size_t *bytes) {
    size_t item = ow_item_size(dtype), total = item ? item : 1;
    int empty = 0, overflow = 0;
    for (size_t k = 0; k < rank; k++) {
        if (dims[k] == 0)
            empty = 1;
        else if (!overflow)
            overflow = __builtin_mul_overflow(total, (size_t)dims[k], &total);
    }
    *bytes = empty ? 0 : item ? total : total / 2 + total % 2; /* 4-bit elements lie two to a byte */
    *count = empty ? 0 : item ? total / item : total;
    return empty || (!overflow && total <= PTRDIFF_MAX);
}

size_t ow_walk(const ow_resolved *node, const ortwin_operand *inputs, size_t rank, const int64_t *dims, ow_axis *axes) {
    int64_t lead[2] = {(int64_t)rank - inputs[0].rank, (int64_t)rank - inputs[1].rank};
    if (node->op->shape == OW_SHAPE_LIMITED)
        lead[1] = limited_lead(node, &inputs[0], &inputs[1]);
    size_t stride[2] = {1, 1}, count = 0; /* from the innermost axis out: found axes lie at the end of axes */
    for (size_t k = rank; k-- > 0;) {
        ow_axis axis = {(size_t)dims[k], {0, 0}};
        for (int j = 0; j < 2; j++) {
            int64_t own = (int64_t)k - lead[j];
            size_t size = own < 0 || own >= inputs[j].rank ? 1 : (size_t)inputs[j].dims[own];
            axis.step[j] = size == 1 ? 0 : stride[j];
            stride[j] *= size;
        }
        if (axis.size == 1)
            continue;
        ow_axis *inner = &axes[rank - count];
        if (count && axis.step[0] == inner->size * inner->step[0] && axis.step[1] == inner->size * inner->step[1])
            inner->size *= axis.size;
        else
            axes[rank - ++count] = axis;
    }
    for (size_t k = 0; k < count; k++)
        axes[k] = axes[rank - count + k];
    return count;
}

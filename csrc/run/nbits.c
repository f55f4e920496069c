#include "run/nbits.h"

#include "run/dtype.h"
#include "run/ops.h"

#include <string.h>

enum { LARGEST_OF_INTEGERS = 65536 }; /* block_size * 127 * 255 fits an int32 */

static int fits(int64_t size, int64_t known) { return known < 0 || size == known; }

/* Whether a shape is, or may turn out to be, this one of rank 2, or flat. */
static int is_table(const ortwin_operand *o, int64_t rows, int64_t columns) {
    int64_t count;
    if (o->rank < 0 || (o->rank == 2 && fits(rows, o->dims[0]) && fits(columns, o->dims[1])))
        return 1;
    return o->rank == 1 && !__builtin_mul_overflow(rows, columns, &count) && fits(count, o->dims[0]);
}

static int is_line(const ortwin_operand *o, int64_t length) {
    return o->rank < 0 || (o->rank == 1 && fits(length, o->dims[0]));
}

static int64_t blocks_of(const ow_whole *node) {
    return node->inner / node->block_size + (node->inner % node->block_size != 0);
}
/* Bytes of `count` numbers, or -1. */
static int64_t packed_bytes(int64_t count, int64_t bits) {
    int64_t total;
    if (__builtin_mul_overflow(count, bits, &total) || total > INT64_MAX - 7)
        return -1;
    return (total + 7) / 8;
}

static ortwin_status check_attributes(const ow_whole *node, ortwin_error *error) {
    if (node->inner < 0 || node->columns < 0 || node->block_size < 0)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "attribute %s is missing or negative",
                       node->inner < 0     ? "K"
                       : node->columns < 0 ? "N"
                                           : "block_size");
    if (node->bits != 2 && node->bits != 4 && node->bits != 8)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "bits is %lld, not 2, 4 or 8", (long long)node->bits);
    if (node->block_size < 16 || (node->block_size & (node->block_size - 1)) != 0)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "block_size is %lld, not a power of 2 from 16 on",
                       (long long)node->block_size);
    if (node->accuracy < 0 || node->accuracy > 4)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "accuracy_level is %lld, not 0 to 4", (long long)node->accuracy);
    if (node->prepacked)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "weight_prepacked is not 0: its B is packed for another provider");
    return ORTWIN_OK;
}

static ortwin_status check_type(const ortwin_operand *o, int32_t wanted, int32_t other, const char *what,
                                ortwin_error *error) {
    if (o->dtype == wanted || (other && o->dtype == other))
        return ORTWIN_OK;
    if (!o->dtype)
        return ow_fail(error, ORTWIN_UNSUPPORTED, "input %s is missing", what);
    return ow_fail(error, ORTWIN_UNSUPPORTED, "input %s is %s, not %s%s%s", what, ow_dtype_name(o->dtype),
                   ow_dtype_name(wanted), other ? " or " : "", other ? ow_dtype_name(other) : "");
}

static ortwin_status check_types(const ortwin_operand *in, ortwin_error *error) {
    int32_t own = in[OW_NBITS_A].dtype;
    ortwin_status status = check_type(&in[OW_NBITS_B], OW_U8, 0, "B", error);
    if (!status)
        status = check_type(&in[OW_NBITS_SCALES], own, 0, "scales", error);
    if (!status && in[OW_NBITS_ZEROS].dtype)
        status = check_type(&in[OW_NBITS_ZEROS], OW_U8, own, "zero_points", error);
    if (!status && in[OW_NBITS_GROUPS].dtype)
        status = check_type(&in[OW_NBITS_GROUPS], OW_I32, 0, "g_idx", error);
    if (!status && in[OW_NBITS_BIAS].dtype)
        status = check_type(&in[OW_NBITS_BIAS], own, 0, "bias", error);
    return status;
}

/* A B that is as it should be but for zeros among its dimensions stands for a projection that is left out; what belongs
 * to its blocks does not count then. *there: whether B is known to have elements. */
static ortwin_status check_weights(const ow_whole *node, const ortwin_operand *b, int *there, ortwin_error *error) {
    const int64_t wanted[3] = {node->columns, blocks_of(node), packed_bytes(node->block_size, node->bits)};
    *there = b->rank == 3;
    if (b->rank < 0)
        return ORTWIN_OK;
    int good = b->rank == 3, omitted = good, empty = 0;
    for (int32_t k = 0; k < 3 && b->rank == 3; k++) {
        good &= b->dims[k] < 0 || b->dims[k] == wanted[k];
        omitted &= b->dims[k] <= 0 || b->dims[k] == wanted[k];
        empty |= b->dims[k] == 0;
        *there &= b->dims[k] > 0;
    }
    if (good || (omitted && empty))
        return ORTWIN_OK;
    return ow_fail(error, ORTWIN_BAD_SHAPE, "input B has not the shape [%lld, %lld, %lld]", (long long)wanted[0],
                   (long long)wanted[1], (long long)wanted[2]);
}

static ortwin_status check_blocks(const ow_whole *node, const ortwin_operand *in, ortwin_error *error) {
    const int64_t n = node->columns, blocks = blocks_of(node);
    const ortwin_operand *zeros = &in[OW_NBITS_ZEROS], *groups = &in[OW_NBITS_GROUPS];
    int64_t row = zeros->dtype == OW_U8 ? packed_bytes(blocks, node->bits) : blocks, padded;
    if (!is_table(&in[OW_NBITS_SCALES], n, blocks))
        return ow_fail(error, ORTWIN_BAD_SHAPE,
                       "input scales has not the shape [%lld, %lld], nor is it as long and flat", (long long)n,
                       (long long)blocks);
    if (zeros->dtype && !is_table(zeros, n, row))
        return ow_fail(error, ORTWIN_BAD_SHAPE,
                       "input zero_points has not the shape [%lld, %lld], nor is it as long and flat", (long long)n,
                       (long long)row);
    if (groups->dtype && !is_line(groups, node->inner) &&
        (__builtin_mul_overflow(blocks, node->block_size, &padded) || !is_line(groups, padded)))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "input g_idx is not one number for each of K = %lld",
                       (long long)node->inner);
    return ORTWIN_OK;
}

int32_t ow_nbits_rank(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    (void)node;
    return inputs[OW_NBITS_A].rank;
}

ortwin_status ow_nbits_check(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS], int32_t *dtype,
                             int32_t *rank, int64_t *dims, ortwin_error *error) {
    const ortwin_operand *a = &inputs[OW_NBITS_A], *bias = &inputs[OW_NBITS_BIAS];
    int there = 0;
    ortwin_status status = check_attributes(node, error);
    if (!status)
        status = check_types(inputs, error);
    if (status)
        return status;
    *dtype = a->dtype;
    *rank = a->rank;
    if (a->rank == 0 || (a->rank > 0 && !fits(node->inner, a->dims[a->rank - 1])))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the last dimension of A is not K = %lld", (long long)node->inner);
    status = check_weights(node, &inputs[OW_NBITS_B], &there, error);
    if (!status && there)
        status = check_blocks(node, inputs, error);
    if (!status && bias->dtype && !is_line(bias, node->columns))
        status = ow_fail(error, ORTWIN_BAD_SHAPE, "input bias has not the shape [%lld]", (long long)node->columns);
    for (int32_t k = 0; k < a->rank && dims; k++)
        dims[k] = k == a->rank - 1 ? node->columns : a->dims[k];
    return status;
}

/* What is behind K is padding, whose groups do not matter. */
ortwin_status ow_nbits_inspect(const ow_whole *node, const ortwin_tensor *const inputs[OW_WHOLE_INPUTS],
                               ortwin_error *error) {
    const ortwin_tensor *groups = inputs[OW_NBITS_GROUPS];
    const int64_t blocks = blocks_of(node);
    if (!groups)
        return ORTWIN_OK;
    size_t count = groups->bytes / sizeof(int32_t);
    for (size_t k = 0; k < count && k < (size_t)node->inner; k++) {
        int32_t group;
        memcpy(&group, (const unsigned char *)groups->data + k * sizeof group, sizeof group);
        if (group < 0 || group >= blocks)
            return ow_fail(error, ORTWIN_BAD_VALUE, "g_idx is %d at %zu, not 0 to %lld", (int)group, k,
                           (long long)blocks - 1);
    }
    return ORTWIN_OK;
}

/* The attribute K is one of them, and B's is checked where its shape is known. */
ow_inner ow_nbits_inner(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    (void)node;
    const ortwin_operand *a = &inputs[OW_NBITS_A], *b = &inputs[OW_NBITS_B];
    int known = a->rank > 0 && a->dims[a->rank - 1] >= 0 && b->rank == 3;
    for (int32_t k = 0; known && k < b->rank; k++)
        known = b->dims[k] >= 0;
    return known ? OW_INNER_EQUAL : OW_INNER_AT_RUN;
}

int ow_nbits_takes_integers(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS], int exact) {
    int32_t zeros = inputs[OW_NBITS_ZEROS].dtype;
    return node->accuracy == 4 && !exact && !inputs[OW_NBITS_GROUPS].dtype && (!zeros || zeros == OW_U8) &&
           node->block_size <= LARGEST_OF_INTEGERS;
}

/* The shape rules of products of 8-bit matrices: those of numpy.matmul, and those of zero points and scales. */
#include "run/integer_matmul.h"

#include "run/ops.h"

static int64_t broadcast(int64_t p, int64_t q) { return p == q || q == 1 ? p : p == 1 || q >= 0 ? q : p; }

/* Dimension k from the right, 1 beyond the left end. */
static int64_t from_right(const ortwin_operand *o, int32_t k) { return k < o->rank ? o->dims[o->rank - 1 - k] : 1; }

static ortwin_status check_matrices(const ortwin_operand *a, const ortwin_operand *b, ortwin_error *error) {
    if (a->rank == 0 || b->rank == 0)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "%s has rank 0, but a matrix product needs rank 1 or more",
                       a->rank == 0 ? "A" : "B");
    if (a->rank < 0 || b->rank < 0)
        return ORTWIN_OK;
    int64_t columns = from_right(a, 0), rows = from_right(b, b->rank > 1 ? 1 : 0);
    if (ow_clash(columns, rows))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the inner dimensions differ: A has %lld columns, B %lld rows",
                       (long long)columns, (long long)rows);
    for (int32_t k = 2; k < a->rank && k < b->rank; k++) {
        int64_t p = from_right(a, k), q = from_right(b, k);
        if (ow_clash(p, q) && p != 1 && q != 1)
            return ow_fail(error, ORTWIN_BAD_SHAPE, "the batch dimensions %lld and %lld of A and B don't broadcast",
                           (long long)p, (long long)q);
    }
    return ORTWIN_OK;
}

ow_inner ow_product_inner(const ortwin_operand *a, const ortwin_operand *b) {
    int known = a->rank > 0 && b->rank > 0 && from_right(a, 0) >= 0 && from_right(b, b->rank > 1 ? 1 : 0) >= 0;
    return known ? OW_INNER_EQUAL : OW_INNER_AT_RUN;
}

static int all_ones(const ortwin_operand *o, int unknown_too) {
    for (int32_t k = 0; k < o->rank; k++)
        if (o->dims[k] != 1 && !(unknown_too && o->dims[k] < 0))
            return 0;
    return 1;
}

/* One number, or one per line (row of A, column of B): a vector of as many, or [..., M, 1] ([..., 1, N]) that
 * broadcasts to the matrices. */
static ortwin_status check_lines(const ortwin_operand *o, const ortwin_operand *of, int rows, const char *what,
                                 ortwin_error *error) {
    if (!o->dtype || o->rank < 0 || of->rank < 0 || all_ones(o, 0))
        return ORTWIN_OK;
    int64_t count = of->rank > 1 ? from_right(of, rows ? 1 : 0) : 1;
    const char *line = rows ? "row" : "column";
    if (o->rank == 1) {
        if (ow_clash(o->dims[0], count))
            return ow_fail(error, ORTWIN_BAD_SHAPE, "the %s has %lld elements, not 1 or %lld, one per %s", what,
                           (long long)o->dims[0], (long long)count, line);
        return ORTWIN_OK;
    }
    if (o->rank > of->rank)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the %s has rank %d, its matrix %d", what, (int)o->rank, (int)of->rank);
    if (ow_clash(from_right(o, rows ? 0 : 1), 1))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the %s's %s dimension is %lld, not 1", what,
                       rows ? "last" : "last but one", (long long)from_right(o, rows ? 0 : 1));
    int64_t lines = from_right(o, rows ? 1 : 0);
    if (lines != 1 && ow_clash(lines, count))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the %s is for %lld %ss, not %lld", what, (long long)lines, line,
                       (long long)count);
    for (int32_t k = 2; k < o->rank; k++)
        if (from_right(o, k) != 1 && ow_clash(from_right(o, k), from_right(of, k)))
            return ow_fail(error, ORTWIN_BAD_SHAPE, "the %s doesn't broadcast to its matrices: %lld of %lld", what,
                           (long long)from_right(o, k), (long long)from_right(of, k));
    return ORTWIN_OK;
}

static ortwin_status check_whole(const ortwin_operand *o, const char *what, ortwin_error *error) {
    if (o->dtype && o->rank > 0 && !all_ones(o, 1))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the %s is not one number", what);
    return ORTWIN_OK;
}

static ortwin_status check_rest(const ow_product_shapes *s, ortwin_error *error) {
    ortwin_status status = check_lines(&s->a_zero, &s->a, 1, "zero point of A", error);
    if (!status)
        status = check_lines(&s->a_scale, &s->a, 1, "scale of A", error);
    if (!status)
        status = check_lines(&s->b_zero, &s->b, 0, "zero point of B", error);
    if (!status)
        status = check_lines(&s->b_scale, &s->b, 0, "scale of B", error);
    if (!status && s->a_is_whole)
        status = check_whole(&s->a_zero, "zero point of A", error);
    if (!status && s->a_is_whole)
        status = check_whole(&s->a_scale, "scale of A", error);
    if (!status)
        status = check_whole(&s->y_zero, "zero point of the result", error);
    if (!status)
        status = check_whole(&s->y_scale, "scale of the result", error);
    if (!status && s->bias.dtype && s->bias.rank >= 0 && s->b.rank >= 0) {
        int64_t columns = s->b.rank > 1 ? from_right(&s->b, 0) : 1;
        if (s->bias.rank != 1 || ow_clash(s->bias.dims[0], columns))
            status = ow_fail(error, ORTWIN_BAD_SHAPE, "the bias is not one number for each of the columns");
    }
    return status;
}

int32_t ow_product_rank(int32_t a, int32_t b) {
    if (a < 1 || b < 1)
        return -1;
    int32_t batch = (a > b ? a : b) - 2;
    return (batch > 0 ? batch : 0) + (a > 1) + (b > 1);
}

ortwin_status ow_product_shape(const ow_product_shapes *s, int64_t *dims, int32_t *rank, ortwin_error *error) {
    ortwin_status status = check_matrices(&s->a, &s->b, error);
    if (!status)
        status = check_rest(s, error);
    *rank = -1;
    if (status || s->a.rank < 0 || s->b.rank < 0)
        return status;
    *rank = ow_product_rank(s->a.rank, s->b.rank);
    int32_t batch = *rank - (s->a.rank > 1) - (s->b.rank > 1), at = 0;
    for (int32_t k = 0; k < batch && dims; k++)
        dims[at++] = broadcast(from_right(&s->a, batch + 1 - k), from_right(&s->b, batch + 1 - k));
    if (s->a.rank > 1 && dims)
        dims[at++] = from_right(&s->a, 1);
    if (s->b.rank > 1 && dims)
        dims[at] = from_right(&s->b, 0);
    return ORTWIN_OK;
}

#include "run/quantise.h"

#include "run/dtype.h"
#include "run/numbers.h"
#include "run/ops.h"

#include <math.h> /* isnan: a macro */
#include <string.h>

enum { CHUNK = 512 }; /* elements whose buffers stay in the first-level cache */

static int is_one(const ortwin_operand *o) { return o->rank == 0 || (o->rank == 1 && o->dims[0] == 1); }

/* Whether two shapes are known not to be those of one tensor. [] and [1] are the same. */
static int differ(const ortwin_operand *a, const ortwin_operand *b) {
    if (a->rank < 0 || b->rank < 0 || (is_one(a) && is_one(b)))
        return 0;
    if (a->rank != b->rank)
        return 1;
    for (int32_t k = 0; k < a->rank; k++)
        if (a->dims[k] >= 0 && b->dims[k] >= 0 && a->dims[k] != b->dims[k])
            return 1;
    return 0;
}

static ortwin_status wrong_scale(const ortwin_operand *scale, int32_t k, int64_t wanted, ortwin_error *error) {
    return ow_fail(error, ORTWIN_BAD_SHAPE, "the scale has %lld in dimension %d, not %lld", (long long)scale->dims[k],
                   (int)k, (long long)wanted);
}

ortwin_status ow_granularity_of(const ortwin_operand *x, const ortwin_operand *scale, const ortwin_operand *zero,
                                int64_t axis, int64_t block_size, int only_whole, ow_granularity *found,
                                ortwin_error *error) {
    ow_granularity g = {OW_PER_TENSOR, 1, 1, 1, 1};
    if (found)
        *found = g;
    if (zero->dtype && differ(zero, scale))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the zero point has not the shape of the scale");
    if (x->rank < 0 || scale->rank < 0)
        return ORTWIN_OK;
    if (block_size == 0 && is_one(scale))
        return ORTWIN_OK;
    int may_be_one = block_size == 0 && scale->rank == 1 && scale->dims[0] < 0;
    if (only_whole)
        return may_be_one ? ORTWIN_OK : ow_fail(error, ORTWIN_BAD_SHAPE, "the scale is not one number");
    if (may_be_one)
        return ORTWIN_OK;
    if (axis < -(int64_t)x->rank || axis >= x->rank)
        return ow_fail(error, ORTWIN_BAD_SHAPE, "axis %lld is none of an input of rank %d", (long long)axis,
                       (int)x->rank);
    int32_t at = (int32_t)(axis < 0 ? axis + x->rank : axis);
    if (scale->rank != (block_size ? x->rank : 1))
        return ow_fail(error, ORTWIN_BAD_SHAPE, "the scale has rank %d, not %d", (int)scale->rank,
                       block_size ? (int)x->rank : 1);
    for (int32_t k = 0; k < scale->rank; k++) {
        int64_t wanted = x->dims[block_size ? k : at];
        if (block_size && k == at && wanted > 0)
            wanted = (wanted - 1) / block_size + 1;
        if (scale->dims[k] >= 0 && wanted >= 0 && scale->dims[k] != wanted)
            return wrong_scale(scale, k, wanted, error);
    }
    g.form = block_size ? OW_BLOCKED : OW_PER_AXIS;
    g.block = (size_t)block_size;
    for (int32_t k = 0; k < x->rank; k++)
        if (x->dims[k] < 0)
            return ORTWIN_OK;
        else
            *(k < at ? &g.outer : k == at ? &g.size : &g.inner) *= (size_t)x->dims[k];
    if (found)
        *found = g;
    return ORTWIN_OK;
}

/* Elements [from, from + count) and the scale of the first; each next element moves by step in the scales. */
typedef void visit(const void *what, size_t from, size_t count, size_t scale, size_t step);

static void visit_all(const ow_granularity *g, size_t count, visit *run, const void *what) {
    if (g->form == OW_PER_TENSOR) {
        run(what, 0, count, 0, 0);
        return;
    }
    size_t blocks = g->form == OW_BLOCKED ? (g->size + g->block - 1) / g->block : g->size;
    for (size_t o = 0; o < g->outer; o++) {
        size_t row = o * g->size * g->inner;
        if (g->form == OW_PER_AXIS && g->inner == 1)
            run(what, row, g->size, 0, 1);
        else if (g->form == OW_PER_AXIS)
            for (size_t i = 0; i < g->size; i++)
                run(what, row + i * g->inner, g->inner, i, 0);
        else if (g->inner == 1)
            for (size_t b = 0; b < blocks; b++) {
                size_t left = g->size - b * g->block;
                run(what, row + b * g->block, left < g->block ? left : g->block, o * blocks + b, 0);
            }
        else
            for (size_t i = 0; i < g->size; i++)
                run(what, row + i * g->inner, g->inner, (o * blocks + i / g->block) * g->inner, 1);
    }
}

typedef struct call {
    const ow_quantisers *kernels;
    const ortwin_tensor *x, *scale, *zero, *y;
    int32_t precision;
} call;

typedef struct buffers {
    float x[CHUNK], scales[CHUNK];
    int32_t zeros[CHUNK], whole[CHUNK];
} buffers;

/* The scales and zero points of n elements: n of each, or one; zeros, if there are no zero points. */
static void load_lines(const call *c, size_t scale, size_t step, size_t n, buffers *b) {
    size_t count = step ? n : 1;
    ow_load_floats(c->scale->data, c->scale->dtype, scale, count, b->scales);
    ow_round_floats(c->precision, count, b->scales);
    if (c->zero)
        ow_load_integers(c->zero->data, c->zero->dtype, scale, count, b->zeros);
    else
        memset(b->zeros, 0, count * sizeof *b->zeros);
}

static int is_byte(int32_t dtype) { return dtype == OW_U8 || dtype == OW_I8; }

static void quantise_run(const void *what, size_t from, size_t count, size_t scale, size_t step) {
    const call *c = what;
    const int32_t lowest = ow_lowest(c->y->dtype), highest = ow_highest(c->y->dtype);
    buffers b;
    if (!step && c->x->dtype == OW_F32 && c->precision == OW_F32 && is_byte(c->y->dtype)) {
        load_lines(c, scale, step, 1, &b);
        c->kernels->to_bytes((const unsigned char *)c->x->data + from * sizeof(float), b.scales[0], b.zeros[0], count,
                             lowest, highest, (unsigned char *)c->y->data + from);
        return;
    }
    memset(&b, 0, sizeof b);
    for (size_t done = 0; done < count; done += CHUNK) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        if (done == 0 || step)
            load_lines(c, scale + done * step, step, n, &b);
        ow_load_floats(c->x->data, c->x->dtype, from + done, n, b.x);
        ow_round_floats(c->precision, n, b.x);
        c->kernels->divide(b.x, b.scales, step, n, b.x);
        ow_round_floats(c->precision, n, b.x);
        c->kernels->round(b.x, b.zeros, step, n, lowest, highest, b.whole);
        ow_store_integers(c->y->data, c->y->dtype, from + done, n, b.whole);
    }
}

/* An int32 less an int32 zero point needs 33 bits. */
static void scale_wide(const buffers *b, size_t step, size_t n, float *y) {
    for (size_t i = 0; i < n; i++) {
        float difference = (float)((int64_t)b->whole[i] - b->zeros[i * step]);
        float v = difference * b->scales[i * step];
        uint32_t nan = 0x7fc00000u;
        if (isnan(v))
            memcpy(&v, &nan, sizeof v);
        y[i] = v;
    }
}

static void dequantise_run(const void *what, size_t from, size_t count, size_t scale, size_t step) {
    const call *c = what;
    buffers b;
    if (!step && is_byte(c->x->dtype) && c->y->dtype == OW_F32) {
        load_lines(c, scale, step, 1, &b);
        c->kernels->from_bytes((const unsigned char *)c->x->data + from, c->x->dtype == OW_I8, b.zeros[0], b.scales[0],
                               count, (unsigned char *)c->y->data + from * sizeof(float));
        return;
    }
    memset(&b, 0, sizeof b);
    for (size_t done = 0; done < count; done += CHUNK) {
        size_t n = count - done < CHUNK ? count - done : CHUNK;
        if (done == 0 || step)
            load_lines(c, scale + done * step, step, n, &b);
        ow_load_integers(c->x->data, c->x->dtype, from + done, n, b.whole);
        if (c->zero && c->x->dtype == OW_I32)
            scale_wide(&b, step, n, b.x);
        else
            c->kernels->scale(b.whole, b.zeros, b.scales, step, n, b.x);
        ow_store_floats(c->y->data, c->y->dtype, from + done, n, b.x);
    }
}

static size_t count_of(const ortwin_tensor *t) {
    size_t count = 1;
    for (size_t k = 0; k < t->rank; k++)
        count *= (size_t)t->dims[k];
    return count;
}

void ow_quantise(const ow_quantisers *kernels, const ow_granularity *g, const ortwin_tensor *x,
                 const ortwin_tensor *scale, const ortwin_tensor *zero, int32_t precision, const ortwin_tensor *y) {
    call c = {kernels, x, scale, zero, y, precision};
    visit_all(g, count_of(x), quantise_run, &c);
}

void ow_dequantise(const ow_quantisers *kernels, const ow_granularity *g, const ortwin_tensor *x,
                   const ortwin_tensor *scale, const ortwin_tensor *zero, const ortwin_tensor *y) {
    call c = {kernels, x, scale, zero, y, OW_F32};
    visit_all(g, count_of(x), dequantise_run, &c);
}

/* Each operation rounded to binary32, as written. All zero: 0 / 255, and 0 / 0 gives the zero point 0, as a NaN does. */
void ow_dynamic_scale(const ow_quantisers *kernels, const void *x, size_t n, float *scale, uint8_t *zero) {
    float least, most;
    kernels->extent(x, n, &least, &most);
    *scale = (most - least) / 255.0f;
    float moved = 0.0f - least / *scale;
    moved = moved > 0.0f ? moved : 0.0f; /* also where it is NaN */
    moved = moved > 255.0f ? 255.0f : moved;
    *zero = (uint8_t)((moved + 0x1p23f) - 0x1p23f); /* to the nearest integer, ties to even */
    uint32_t nan = 0x7fc00000u;
    if (isnan(*scale))
        memcpy(scale, &nan, sizeof nan);
}

void ow_quantise_bytes(const ow_quantisers *kernels, const void *x, size_t n, float scale, uint8_t zero, void *y) {
    int64_t dims = (int64_t)n;
    ortwin_tensor values = {(void *)(uintptr_t)x, &dims, 1, 4 * n, OW_F32}, bytes = {y, &dims, 1, n, OW_U8};
    ortwin_tensor scales = {&scale, NULL, 0, sizeof scale, OW_F32}, zeros = {&zero, NULL, 0, sizeof zero, OW_U8};
    ow_granularity g = {OW_PER_TENSOR, 1, 1, 1, 1};
    ow_quantise(kernels, &g, &values, &scales, &zeros, OW_F32, &bytes);
}

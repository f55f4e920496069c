#include "run/nbits.h"

#include "run/dtype.h"
#include "run/numbers.h"
#include "run/ops.h"
#include "run/tiles.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEFT_BYTES = 16 << 20, /* of rows of A as they are multiplied, at a time */
    FANNED = 1 << 21,      /* products from which several threads are worth waking: 15 us and more of one */
    SEGMENT = 64,          /* k of weights that are widened for many rows: they stay in the first-level cache */
    VALUE_SLACK = 64,      /* bytes behind a row of integers that kernels may write */
};

typedef struct job {
    const ow_block_products *kernels;
    const ow_nbits_weights *weights;
    const unsigned char *packed; /* or NULL */
    const int32_t *groups;       /* or NULL */
    int integers;
    size_t rows;    /* that are there now */
    const float *a; /* of them; NULL for integers */
    ow_quantised_row row;
    size_t value_stride;
    const unsigned char *bias; /* or NULL */
    unsigned char *y;
    int32_t dtype;
} job;

/* What a piece needs besides. */
typedef struct scratch {
    unsigned char *panel;                  /* where B is not packed */
    float *weights, *sums, *totals, *ones; /* weights, sums, ones: where rows are many */
    void *memory;
} scratch;

static int is_direct(const job *j, size_t rows) {
    return !j->integers && rows <= OW_DIRECT_ROWS && !j->groups && j->weights->layout.zero_size != 4;
}

static int take_scratch(const job *j, size_t rows, scratch *s) {
    const size_t panel = j->kernels->panel, align = 64 / sizeof(float);
    size_t totals = (rows * panel + align - 1) / align * align, floats = totals, bytes = 0, size;
    if (!j->integers && !is_direct(j, rows))
        floats += SEGMENT * panel + totals + OW_BLOCK_PANEL_MAX;
    if (!j->packed)
        bytes = ow_nbits_panel_bytes(j->weights);
    if (__builtin_add_overflow(floats * sizeof(float) + OW_BLOCK_SLACK + 64, bytes, &size) || size > PTRDIFF_MAX)
        return 0;
    s->memory = malloc(size);
    if (!s->memory)
        return 0;
    s->totals = (float *)(((uintptr_t)s->memory + 63) / 64 * 64);
    s->sums = s->totals + totals;
    s->ones = s->sums + totals;
    s->weights = s->ones + OW_BLOCK_PANEL_MAX;
    s->panel = (unsigned char *)(s->totals + floats);
    if (!j->packed) /* the columns of the last panel that are not there, and what is read behind it */
        memset(s->panel, 0, bytes + OW_BLOCK_SLACK);
    for (size_t c = 0; floats > totals && c < panel; c++)
        s->ones[c] = 1.0f;
    return 1;
}

/* Weights are widened once, and then serve all rows. */
static void multiply_widened(const job *j, size_t row, size_t rows, const unsigned char *panel, const scratch *s) {
    const ow_blocked *b = &j->weights->layout;
    memset(s->totals, 0, rows * j->kernels->panel * sizeof(float));
    for (size_t n = 0; n < j->weights->blocks; n++) {
        size_t from = n * b->block, end = b->k - from < b->block ? b->k : from + b->block;
        const float *scales = j->groups ? s->ones : (const float *)(const void *)(panel + n * b->bytes);
        for (size_t k = from; k < end; k += SEGMENT) {
            size_t count = end - k < SEGMENT ? end - k : SEGMENT;
            int part = (k == from ? OW_CHAIN_BEGINS : 0) | (k + count == end ? OW_CHAIN_ENDS : 0);
            j->kernels->expand(b, panel, k, count, j->groups, s->weights);
            j->kernels->chain(j->a + row * b->k + k, b->k, rows, s->weights, count, part, scales, s->sums, s->totals);
        }
    }
}

static void multiply(const job *j, size_t row, size_t rows, const unsigned char *panel, const scratch *s) {
    const ow_blocked *b = &j->weights->layout;
    if (j->integers) {
        ow_quantised_row first = {j->row.values + row * j->value_stride, j->row.scales + row * j->weights->blocks,
                                  j->row.sums + row * j->weights->blocks};
        j->kernels->dots(&first, j->value_stride, j->weights->blocks, rows, b, panel, s->totals);
    } else if (is_direct(j, rows))
        j->kernels->direct(j->a + row * b->k, b->k, rows, b, panel, s->totals);
    else
        multiply_widened(j, row, rows, panel, s);
}

static void finish(const job *j, size_t row, size_t rows, size_t from, const float *totals) {
    float bias[OW_BLOCK_PANEL_MAX] = {0}, results[OW_BLOCK_PANEL_MAX];
    const size_t panel = j->kernels->panel, left = j->weights->columns - from, count = left < panel ? left : panel;
    if (j->bias)
        ow_load_floats(j->bias, j->dtype, from, count, bias);
    for (size_t r = 0; r < rows; r++) {
        j->kernels->finish(totals + r * panel, j->bias ? bias : NULL, panel, results);
        ow_store_floats(j->y, j->dtype, (row + r) * j->weights->columns + from, count, results);
    }
}

/* from: a multiple of a panel. */
static int run_tile(const void *user, size_t row, size_t rows, size_t from, size_t until) {
    const job *j = user;
    const size_t width = j->kernels->panel;
    scratch s;
    if (!take_scratch(j, rows, &s))
        return 0;
    for (; from < until; from += width) {
        const unsigned char *panel = s.panel;
        if (j->packed)
            panel = j->packed + from / width * ow_nbits_panel_bytes(j->weights);
        else
            ow_nbits_pack_panel(j->weights, from / width, s.panel);
        multiply(j, row, rows, panel, &s);
        finish(j, row, rows, from, s.totals);
    }
    free(s.memory);
    return 1;
}

static ortwin_status run_tiles(const job *j, const ow_fan *fan, ortwin_error *error) {
    const size_t columns = j->weights->columns;
    ow_fan workers = ow_fan_for(fan, (double)j->rows * (double)columns * (double)j->weights->layout.k >= FANNED);
    ow_tiling tiling = {.tile = run_tile,
                        .user = j,
                        .y = j->y,
                        .item = ow_item_size(j->dtype),
                        .rows = j->rows,
                        .columns = columns,
                        .least = j->kernels->panel};
    return ow_run_tiles(&workers, &tiling) ? ORTWIN_OK : ow_no_memory(error);
}

/* Rows of A as they are multiplied. Binary32 that lies well is taken as it is. */
static void take_rows(job *j, const ortwin_tensor *a, size_t first, float *wide, int8_t *values, float *scales,
                      int32_t *sums) {
    const ow_blocked *b = &j->weights->layout;
    const unsigned char *data = a->data;
    if (a->dtype == OW_F32 && (uintptr_t)data % sizeof(float) == 0)
        j->a = (const float *)a->data + first * b->k;
    else {
        ow_load_floats(data, a->dtype, first * b->k, j->rows * b->k, wide);
        j->a = wide;
    }
    for (size_t r = 0; r < j->rows && j->integers; r++)
        j->kernels->quantise(j->a + r * b->k, b, values + r * j->value_stride, scales + r * j->weights->blocks,
                             sums + r * j->weights->blocks);
    j->row = (ow_quantised_row){values, scales, sums};
}

/* As many rows at a time as LEFT_BYTES hold. */
static ortwin_status run_rows(job *j, const ortwin_tensor *a, size_t rows, const ow_fan *fan, ortwin_error *error) {
    const size_t k = j->weights->layout.k, blocks = j->weights->blocks, item = ow_item_size(a->dtype);
    size_t values = j->integers ? (k + VALUE_SLACK) / 64 * 64 + 64 : 0, each, size;
    size_t numbers = j->integers ? blocks * (sizeof(float) + sizeof(int32_t)) : 0;
    int wide = a->dtype != OW_F32 || (uintptr_t)a->data % sizeof(float) != 0;
    if (__builtin_mul_overflow(wide ? k : 0, sizeof(float), &each) || __builtin_add_overflow(each, values, &each) ||
        __builtin_add_overflow(each, numbers, &each))
        return ow_fail(error, ORTWIN_OVERFLOW, "a row's size does not fit in memory");
    size_t step = !each ? rows : each > LEFT_BYTES / 8 ? 8 : LEFT_BYTES / each;
    step = step < rows ? step : rows;
    if (__builtin_mul_overflow(each, step, &size) || size > PTRDIFF_MAX - 64)
        return ow_fail(error, ORTWIN_OVERFLOW, "a row's size does not fit in memory");
    unsigned char *memory = size ? malloc(size) : NULL;
    if (size && !memory)
        return ow_no_memory(error);
    float *floats = (float *)(void *)memory, *scales = wide ? floats + step * k : floats;
    int32_t *sums = (int32_t *)(void *)(scales + (j->integers ? step * blocks : 0));
    int8_t *quantised = (int8_t *)(sums + (j->integers ? step * blocks : 0));
    unsigned char *y = j->y;
    ortwin_status status = ORTWIN_OK;
    j->value_stride = values;
    for (size_t row = 0; row < rows && !status; row += step) {
        j->rows = rows - row < step ? rows - row : step;
        j->y = y + row * j->weights->columns * item;
        take_rows(j, a, row, floats, quantised, scales, sums);
        status = run_tiles(j, fan, error);
    }
    free(memory);
    return status;
}

/* No k: every sum is +0.0, and the bias counts. */
static void run_empty(const job *j, size_t rows) {
    float zeros[OW_BLOCK_PANEL_MAX] = {0};
    const size_t panel = j->kernels->panel;
    for (size_t r = 0; r < rows; r++)
        for (size_t from = 0; from < j->weights->columns; from += panel)
            finish(j, r, 1, from, zeros);
}

ortwin_status ow_nbits_run(const ow_kernels *kernels, const ow_whole *node,
                           const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], const ow_pack *pack, const ow_fan *fan,
                           const ortwin_tensor *y, ortwin_error *error) {
    ortwin_status status = ow_nbits_inspect(node, inputs, error);
    if (status || !y->bytes)
        return status;
    ow_nbits_weights w;
    const ortwin_tensor *groups = inputs[OW_NBITS_GROUPS], *bias = inputs[OW_NBITS_BIAS];
    const int is_empty = !node->inner || !inputs[OW_NBITS_B]->bytes; /* then blocks may be of any size */
    if (!ow_nbits_weights_of(node, kernels->block_products, inputs, &w) && !is_empty)
        return ow_fail(error, ORTWIN_OVERFLOW, "the size of its weights does not fit in memory");
    int32_t *aligned = NULL; /* g_idx */
    job j = {.kernels = kernels->block_products,
             .weights = &w,
             .packed = pack ? pack->data : NULL,
             .integers = node->kernel == OW_KERNEL_matmul_nbits_level_4,
             .bias = bias ? bias->data : NULL,
             .y = y->data,
             .dtype = y->dtype};
    size_t rows = y->bytes / ow_item_size(y->dtype) / w.columns;
    if (is_empty) {
        run_empty(&j, rows);
        if (fan->follow)
            fan->follow(fan->context, y->data, rows * w.columns);
        return ORTWIN_OK;
    }
    if (groups) {
        aligned = malloc(w.layout.k * sizeof *aligned);
        if (!aligned)
            return ow_no_memory(error);
        memcpy(aligned, groups->data, w.layout.k * sizeof *aligned);
        j.groups = aligned;
    }
    status = run_rows(&j, inputs[OW_NBITS_A], rows, fan, error);
    free(aligned);
    return status;
}

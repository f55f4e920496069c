#include "run/gemm.h"

#include "run/dtype.h"
#include "run/matrices.h"
#include "run/tiles.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEFT_BYTES = 16 << 20, /* of left rows as floats, where they have to be made such, at a time */
    FEW_ROWS = 6,          /* up to so many rows several panels are multiplied at a time */
    FEW_PANELS = 4,
    STREAM_COLUMNS = 1024, /* columns whose sums stay in the first-level cache while B streams by */
    STREAM_LEAST = 256,
    BLOCK_COLUMNS = 256 /* B that is packed for one call is packed by so many columns of a block of k */
};

typedef struct job {
    const ow_float_products *kernels;
    const ow_gemm *g;
    const float *panels;
    const unsigned char *left; /* rows that are there, as floats */
    size_t left_stride;        /* elements */
    size_t first, rows;        /* which they are */
} job;

static const unsigned char *left_row(const job *j, size_t row) {
    return j->left + row * j->left_stride * sizeof(float);
}

/* Element (row, column) of B, and the elements from it to the next row as it lies in memory. */
static const unsigned char *right_at(const ow_gemm *g, size_t k, size_t column) {
    size_t at = g->b_transposed ? column * g->k + k : k * g->columns + column;
    return g->b + at * ow_item_size(g->dtype);
}
static size_t right_stride(const ow_gemm *g) { return g->b_transposed ? g->k : g->columns; }

/* Results of rows [row, row + rows) and columns [from, from + columns) from their totals. */
static void finish(const job *j, size_t row, size_t rows, size_t from, size_t columns, const float *totals,
                   size_t totals_stride) {
    const ow_gemm *g = j->g;
    const size_t size = ow_item_size(g->dtype);
    const size_t m = j->first + row;
    const ow_float_finish f = {.dtype = g->dtype,
                               .alpha = g->alpha,
                               .beta = g->beta,
                               .rows = rows,
                               .columns = columns,
                               .c = g->c ? g->c + (m * g->c_row + from * g->c_column) * size : NULL,
                               .c_row = g->c_row,
                               .c_column = g->c_column,
                               .y = g->y + (m * g->columns + from) * size,
                               .y_row = g->columns};
    j->kernels->finish(totals, totals_stride, &f);
}

/* With K = 0 there is no block to assign the first sum of: it is +0.0 (C10e). */
static void clear(const job *j, float *totals, size_t count) {
    if (!j->g->k)
        memset(totals, 0, count * sizeof *totals);
}

/* B packed ahead. totals: of rows and a group of panels. */
static void packed_tile(const job *j, size_t row, size_t rows, size_t from, size_t until, size_t width, float *totals) {
    const size_t panel = j->kernels->panel, k = j->g->k;
    clear(j, totals, rows * width);
    for (; from < until; from += width) {
        size_t columns = ow_least(until - from, width), count = (columns + panel - 1) / panel;
        for (size_t i = 0; i < k; i += OW_SUM_BLOCK)
            j->kernels->multiply(left_row(j, row) + i * sizeof(float), j->left_stride, rows,
                                 j->panels + from * k + i * panel, k * panel, count, ow_least(k - i, OW_SUM_BLOCK),
                                 i == 0, totals, width);
        finish(j, row, rows, from, columns, totals, width);
    }
}

/* B as it is, packed a block at a time. packed: a block of width columns. */
static void packing_tile(const job *j, size_t row, size_t rows, size_t from, size_t until, size_t width, float *packed,
                         float *totals) {
    const size_t panel = j->kernels->panel, panel_size = OW_SUM_BLOCK * panel;
    clear(j, totals, rows * width);
    for (; from < until; from += width) {
        size_t columns = ow_least(until - from, width), count = (columns + panel - 1) / panel;
        for (size_t i = 0; i < j->g->k; i += OW_SUM_BLOCK) {
            size_t now = ow_least(j->g->k - i, OW_SUM_BLOCK);
            j->kernels->pack(right_at(j->g, i, from), j->g->dtype, right_stride(j->g), j->g->b_transposed, now, columns,
                             packed, panel_size);
            j->kernels->multiply(left_row(j, row) + i * sizeof(float), j->left_stride, rows, packed, panel_size, count,
                                 now, i == 0, totals, width);
        }
        finish(j, row, rows, from, columns, totals, width);
    }
}

/* Few rows, and B as it is: it is read once, in order; transposed, some columns of it side by side. */
static void stream_tile(const job *j, size_t row, size_t rows, size_t from, size_t until, size_t width, float *sums,
                        float *totals) {
    clear(j, totals, rows * width);
    for (; from < until; from += width) {
        size_t columns = ow_least(until - from, width);
        for (size_t i = 0; i < j->g->k; i += OW_SUM_BLOCK)
            j->kernels->stream(left_row(j, row) + i * sizeof(float), j->left_stride, rows, right_at(j->g, i, from),
                               j->g->dtype, right_stride(j->g), j->g->b_transposed, columns,
                               ow_least(j->g->k - i, OW_SUM_BLOCK), i == 0, sums, totals, width);
        finish(j, row, rows, from, columns, totals, width);
    }
}

static int is_streamed(const job *j) {
    size_t most = j->g->b_transposed ? OW_FLOAT_TURNED_ROWS : OW_FLOAT_STREAM_ROWS;
    return !j->panels && j->rows <= most;
}

static int run_tile(const void *user, size_t row, size_t rows, size_t from, size_t until) {
    const job *j = user;
    const size_t panel = j->kernels->panel, whole = (until - from + panel - 1) / panel * panel;
    size_t width = BLOCK_COLUMNS, packed = 0;
    if (j->panels)
        width = rows <= FEW_ROWS ? FEW_PANELS * panel : panel;
    else if (j->g->b_transposed && rows <= FEW_ROWS)
        width = 2 * panel; /* read once, and used at once */
    else if (is_streamed(j))
        width = STREAM_COLUMNS;
    width = ow_least(width, whole);
    if (is_streamed(j))
        packed = rows * width; /* the sums on their way */
    else if (!j->panels)
        packed = OW_SUM_BLOCK * width;
    float *totals = malloc((rows * width + packed) * sizeof *totals);
    if (!totals)
        return 0;
    if (is_streamed(j))
        stream_tile(j, row, rows, from, until, width, totals + rows * width, totals);
    else if (j->panels)
        packed_tile(j, row, rows, from, until, width, totals);
    else
        packing_tile(j, row, rows, from, until, width, totals + rows * width, totals);
    free(totals);
    return 1;
}

static int run_rows(const job *j, const ow_fan *fan) {
    size_t least = is_streamed(j) ? STREAM_LEAST : BLOCK_COLUMNS;
    if (j->panels)
        least = j->kernels->panel * (j->rows <= FEW_ROWS ? FEW_PANELS : 1);
    const size_t item = ow_item_size(j->g->dtype), columns = j->g->columns;
    return ow_run_tiles(fan, &(ow_tiling){.tile = run_tile,
                                          .user = j,
                                          .y = j->g->y + j->first * columns * item,
                                          .item = item,
                                          .rows = j->rows,
                                          .columns = columns,
                                          .least = least});
}

/* The transposed product, y' = alpha * (B' A') + beta * C', of a single column, which is a single row then: its
 * elements lie as they did, lanes are rows of A, and no panel of columns is computed that are not there. */
static ow_gemm turned(const ow_gemm *g) {
    ow_gemm t = *g;
    t.rows = 1, t.columns = g->rows;
    t.a = g->b, t.a_transposed = 0;
    t.b = g->a, t.b_transposed = !g->a_transposed;
    t.c_row = g->c_column, t.c_column = g->c_row;
    return t;
}

int ow_float_gemm(const ow_float_products *kernels, const ow_gemm *given, const float *panels, const ow_fan *fan) {
    const ow_gemm column = turned(given), *g = given->columns == 1 && !panels ? &column : given;
    job j = {.kernels = kernels, .g = g, .panels = panels, .left = g->a, .left_stride = g->k, .rows = g->rows};
    if (!g->k || (g->dtype == OW_F32 && !g->a_transposed))
        return run_rows(&j, fan);
    size_t bytes, step;
    if (__builtin_mul_overflow(g->k, sizeof(float), &bytes))
        return 0;
    step = bytes > LEFT_BYTES / 8 ? 8 : LEFT_BYTES / bytes;
    step = ow_least(step, g->rows);
    if (__builtin_mul_overflow(step, bytes, &bytes) || bytes > PTRDIFF_MAX)
        return 0;
    float *left = malloc(bytes);
    int done = left != NULL;
    j.left = (const unsigned char *)left;
    for (size_t row = 0; row < g->rows && done; row += step) {
        size_t at = g->a_transposed ? row : row * g->k;
        j.first = row;
        j.rows = ow_least(g->rows - row, step);
        kernels->widen(g->a + at * ow_item_size(g->dtype), g->dtype, g->a_transposed ? g->rows : g->k, g->a_transposed,
                       j.rows, g->k, left);
        done = run_rows(&j, fan);
    }
    free(left);
    return done;
}

/* ---- constant B ---- */

enum { MATRICES, ROWS, COLUMNS, TRANSPOSED, DTYPE }; /* the parameters of a recipe */

/* Panels of a matrix, one after the other. */
static int build(const ow_pack_recipe *recipe, void *target) {
    const ow_float_products *kernels = recipe->form;
    const size_t *p = recipe->parameters;
    const int32_t dtype = (int32_t)p[DTYPE];
    const unsigned char *b = recipe->sources[0].data;
    size_t panels = (p[COLUMNS] + kernels->panel - 1) / kernels->panel;
    float *to = target;
    for (size_t m = 0; m < p[MATRICES]; m++, to += panels * kernels->panel * p[ROWS])
        kernels->pack(b + m * p[ROWS] * p[COLUMNS] * ow_item_size(dtype), dtype, p[TRANSPOSED] ? p[ROWS] : p[COLUMNS],
                      (int)p[TRANSPOSED], p[ROWS], p[COLUMNS], to, kernels->panel * p[ROWS]);
    return 1;
}

const ow_pack *ow_float_pack_take(const ow_float_products *kernels, const ortwin_tensor *b, int transposed,
                                  ow_tally *tally) {
    const ow_matrices m = ow_matrices_of(b, 0);
    ow_pack_recipe recipe = {.form = kernels, .build = build};
    size_t columns = transposed ? m.rows : m.columns;
    recipe.parameters[MATRICES] = ow_matrix_count(&m);
    recipe.parameters[ROWS] = transposed ? m.columns : m.rows;
    recipe.parameters[COLUMNS] = columns;
    recipe.parameters[TRANSPOSED] = (size_t)transposed;
    recipe.parameters[DTYPE] = (size_t)b->dtype;
    recipe.sources[0].data = b->data;
    recipe.sources[0].bytes = b->bytes;
    if (__builtin_add_overflow(columns, kernels->panel - 1, &recipe.bytes) ||
        __builtin_mul_overflow(recipe.bytes / kernels->panel * kernels->panel, sizeof(float), &recipe.bytes) ||
        __builtin_mul_overflow(recipe.bytes, recipe.parameters[ROWS], &recipe.bytes) ||
        __builtin_mul_overflow(recipe.bytes, recipe.parameters[MATRICES], &recipe.bytes))
        recipe.bytes = SIZE_MAX;
    return ow_pack_take(&recipe, tally);
}

const float *ow_float_panels(const ow_float_products *kernels, const ow_pack *pack, size_t k, size_t columns,
                             size_t matrix) {
    return (const float *)pack->data + matrix * k * ((columns + kernels->panel - 1) / kernels->panel * kernels->panel);
}

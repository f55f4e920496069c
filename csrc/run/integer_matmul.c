#include "run/integer_matmul.h"

#include "run/dtype.h"
#include "run/integer_pack.h"
#include "run/matrices.h"
#include "run/numbers.h"
#include "run/ops.h"
#include "run/tiles.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEFT_BYTES = 16 << 20, /* of left rows as they are multiplied, at a time */
    FANNED = 1 << 21,      /* products from which several threads are worth waking: 10 us and more of one */
    STREAM_COLUMNS = 1024, /* columns whose sums stay in the first-level cache while B streams by */
    DEPTH = 1024,          /* k for which sums stay in registers, while a panel of B stays in the cache */
    BLOCK_DEPTH = 512,     /* B that is packed for one call is packed by blocks of so many rows */
    BLOCK_COLUMNS = 256    /* and columns: as much as stays in the second-level cache */
};

/* A zero point, scale or bias seen from one matrix: element i * step belongs to line i. */
typedef struct line {
    const unsigned char *data;
    size_t step;
    int32_t dtype;
} line;

typedef struct job {
    const ow_products *kernels;
    ow_product_kind kind;
    size_t k, groups, columns;
    size_t first, rows; /* of the left matrix: those that are there now */
    unsigned char flip;
    const void *left;
    size_t left_stride; /* elements */
    const int32_t *row_sums, *left_zeros;
    int left_zero; /* whether any of them is not 0, so that sums of columns are needed */
    const unsigned char *b;
    const int8_t *panels; /* or NULL */
    const int32_t *column_sums;
    line b_zero, a_scale, b_scale, bias;
    float y_scale;
    int32_t y_zero, y_dtype;
    unsigned char *y;
    size_t y_size; /* bytes of an element */
} job;

/* The numbers of t that belong to the lines (rows or columns, of which there are `lines`) of a matrix. */
static line line_of(const ortwin_tensor *t, const ow_matrices *of, size_t index, size_t lines) {
    line l = {NULL, 0, 0};
    if (!t)
        return l;
    l.data = t->data;
    l.dtype = t->dtype;
    size_t count = t->bytes / ow_item_size(t->dtype);
    if (count <= 1)
        return l;
    size_t own = lines; /* in each of its matrices */
    if (t->rank > 1 && t->dims[t->rank - 1] == 1 && t->dims[t->rank - 2] == 1)
        own = 1;
    ow_matrices batch = {1, 1, t->rank > 2 ? t->rank - 2 : 0, t->dims};
    l.step = own > 1;
    l.data += ow_matrix_at(&batch, of->dims, of->rank, index) * own * ow_item_size(t->dtype);
    return l;
}

static int32_t zero_at(const line *l, size_t i) {
    if (!l->data)
        return 0;
    unsigned char v = l->data[i * l->step];
    return l->dtype == OW_I8 && v > 127 ? v - 256 : v;
}

static float float_at(const line *l, size_t i) {
    float v;
    ow_load_floats(l->data, l->dtype, i * l->step, 1, &v);
    return v;
}

/* Numbers of a panel's columns, as `finish` wants them. */
typedef struct columns {
    int32_t zeros[OW_PANEL_MAX];
    float b_scales[OW_PANEL_MAX], scales[OW_PANEL_MAX], bias[OW_PANEL_MAX];
} columns;

static void read_floats(const line *l, size_t from, size_t count, float *out) {
    if (!l->data)
        return;
    ow_load_floats(l->data, l->dtype, l->step ? from : 0, l->step ? count : 1, out);
    for (size_t i = 1; i < count && !l->step; i++)
        out[i] = out[0];
}

static void read_columns(const job *j, size_t from, size_t count, columns *c) {
    for (size_t i = 0; i < count; i++)
        c->zeros[i] = zero_at(&j->b_zero, from + i) - j->flip; /* b' = b - 128 where it is flipped */
    read_floats(&j->b_scale, from, count, c->b_scales);
    read_floats(&j->bias, from, count, c->bias);
}

/* What sums of this row are multiplied with: a_scale * b_scale / y_scale, left to right (C10f). */
static void scale_columns(const job *j, size_t row, size_t count, columns *c) {
    float a_scale = float_at(&j->a_scale, j->first + row);
    for (size_t i = 0; i < count; i++)
        c->scales[i] = a_scale * c->b_scales[i];
    for (size_t i = 0; i < count && j->kind == OW_PRODUCT_QUANTISED; i++)
        c->scales[i] /= j->y_scale;
}

/* Results of rows [row, row + rows) and a panel's columns, from their sums. */
static void finish_panel(const job *j, size_t row, size_t rows, size_t from, size_t count, const int32_t *sums,
                         size_t sums_stride, const int32_t *column_sums, columns *c) {
    ow_finish f = {.to = j->kind == OW_PRODUCT_SUMS        ? OW_FINISH_SUMS
                         : j->kind == OW_PRODUCT_QUANTISED ? OW_FINISH_BYTES
                                                           : OW_FINISH_FLOATS,
                   .columns = count,
                   .column_sums = j->left_zero ? column_sums : NULL,
                   .right_zeros = c->zeros,
                   .scales = c->scales,
                   .bias = j->bias.data ? c->bias : NULL,
                   .zero_point = j->y_zero,
                   .lowest = j->y_dtype == OW_I8 ? -128 : 0,
                   .highest = j->y_dtype == OW_I8 ? 127 : 255};
    float wide[OW_PANEL_MAX];
    read_columns(j, from, count, c);
    for (size_t r = 0; r < rows; r++) {
        if (j->kind != OW_PRODUCT_SUMS && (r == 0 || j->a_scale.step))
            scale_columns(j, row + r, count, c);
        f.row_sum = j->row_sums[row + r];
        f.left_zero = j->left_zeros[row + r];
        size_t at = (j->first + row + r) * j->columns + from;
        if (j->y_dtype != OW_F16)
            j->kernels->finish(sums + r * sums_stride, &f, j->y + at * j->y_size);
        else {
            j->kernels->finish(sums + r * sums_stride, &f, wide);
            ow_store_floats(j->y, OW_F16, at, count, wide);
        }
    }
}

static const void *left_row(const job *j, size_t row) {
    return (const unsigned char *)j->left + row * j->left_stride * j->kernels->left_size;
}

/* Few rows, and B as it is: it is read once, in order. sums: STREAM_COLUMNS for each row and one more. */
static void stream_piece(const job *j, size_t from, size_t until, int32_t *sums, columns *c) {
    const size_t panel = j->kernels->panel;
    int32_t ordered[OW_PANEL_MAX];
    for (; from < until; from += STREAM_COLUMNS) {
        size_t count = until - from < STREAM_COLUMNS ? until - from : STREAM_COLUMNS;
        size_t rows = j->rows + (j->left_zero ? 1 : 0); /* behind the rows of A there is one of ones */
        memset(sums, 0, rows * STREAM_COLUMNS * sizeof *sums);
        if (j->k)
            j->kernels->stream(j->left, j->left_stride, rows, j->b + from, j->columns, j->k, count, j->flip, sums,
                               STREAM_COLUMNS);
        for (size_t n = 0; n < count; n += panel) {
            if (j->left_zero)
                j->kernels->order(sums + j->rows * STREAM_COLUMNS + n, ordered);
            finish_panel(j, 0, j->rows, from + n, count - n < panel ? count - n : panel, sums + n, STREAM_COLUMNS,
                         ordered, c);
        }
    }
}

/* B as it is, packed a block at a time. sums: of each panel of a block, its rows and one more, of ones. */
static void packing_piece(const job *j, size_t row, size_t rows, size_t from, size_t until, int8_t *packed,
                          int32_t *sums, columns *c) {
    const size_t panel = j->kernels->panel, group = j->kernels->group, panel_sums = (rows + 1) * panel;
    const size_t panel_size = BLOCK_DEPTH * panel;
    int32_t ordered[OW_PANEL_MAX];
    for (; from < until; from += BLOCK_COLUMNS) {
        size_t count = until - from < BLOCK_COLUMNS ? until - from : BLOCK_COLUMNS;
        memset(sums, 0, BLOCK_COLUMNS / panel * panel_sums * sizeof *sums);
        for (size_t k = 0; k < j->k; k += BLOCK_DEPTH) {
            size_t now = j->k - k < BLOCK_DEPTH ? j->k - k : BLOCK_DEPTH, groups = (now + group - 1) / group;
            const unsigned char *left = left_row(j, row), *ones = left_row(j, j->rows);
            left += k * j->kernels->left_size, ones += k * j->kernels->left_size;
            j->kernels->pack_right(j->b + k * j->columns + from, j->columns, now, count, j->flip, packed, panel_size);
            for (size_t n = 0, p = 0; n < count; n += panel, p++) {
                const int8_t *b = packed + p * panel_size;
                j->kernels->multiply(left, j->left_stride, rows, b, groups, sums + p * panel_sums);
                if (j->left_zero)
                    j->kernels->multiply(ones, 0, 1, b, groups, sums + p * panel_sums + rows * panel);
            }
        }
        for (size_t n = 0, p = 0; n < count; n += panel, p++) {
            if (j->left_zero)
                j->kernels->order(sums + p * panel_sums + rows * panel, ordered);
            finish_panel(j, row, rows, from + n, count - n < panel ? count - n : panel, sums + p * panel_sums, panel,
                         ordered, c);
        }
    }
}

/* B packed ahead, panel by panel. sums: of one panel, its rows. */
static void packed_piece(const job *j, size_t row, size_t rows, size_t from, size_t until, int32_t *sums, columns *c) {
    const size_t panel = j->kernels->panel, group = j->kernels->group;
    int32_t ordered[OW_PANEL_MAX];
    for (; from < until; from += panel) {
        const int8_t *b = j->panels + from * j->groups * group; /* `from` columns before it, each so long */
        memset(sums, 0, rows * panel * sizeof *sums);
        for (size_t g = 0; g < j->groups; g += DEPTH / group) {
            size_t now = j->groups - g < DEPTH / group ? j->groups - g : DEPTH / group;
            const unsigned char *left = left_row(j, row);
            j->kernels->multiply(left + g * group * j->kernels->left_size, j->left_stride, rows, b + g * group * panel,
                                 now, sums);
        }
        if (j->left_zero)
            j->kernels->order(j->column_sums + from, ordered);
        finish_panel(j, row, rows, from, until - from < panel ? until - from : panel, sums, panel, ordered, c);
    }
}

static int is_streamed(const job *j) { return !j->panels && j->rows < OW_STREAM_ROWS; }

/* Rows [row, row + rows) and columns [from, until) of the product, from a multiple of the panel. False when there is no
 * memory. */
static int run_piece(const void *user, size_t row, size_t rows, size_t from, size_t until) {
    const job *j = user;
    const size_t panel = j->kernels->panel;
    size_t sums_size = j->panels ? rows * panel : (rows + 1) * BLOCK_COLUMNS, packed_size = 0;
    if (is_streamed(j))
        sums_size = OW_STREAM_ROWS * STREAM_COLUMNS;
    else if (!j->panels)
        packed_size = BLOCK_DEPTH * BLOCK_COLUMNS;
    void *scratch = malloc(sizeof(columns) + sums_size * sizeof(int32_t) + packed_size);
    if (!scratch)
        return 0;
    columns *c = scratch;
    int32_t *sums = (int32_t *)(void *)(c + 1);
    memset(c, 0, sizeof *c); /* what is computed and not used is computed from numbers all the same */
    if (is_streamed(j))
        stream_piece(j, from, until, sums, c);
    else if (j->panels)
        packed_piece(j, row, rows, from, until, sums, c);
    else
        packing_piece(j, row, rows, from, until, (int8_t *)(sums + sums_size), sums, c);
    free(scratch);
    return 1;
}

/* The rows that are there. */
static ortwin_status run_pieces(const job *j, const ow_fan *fan, ortwin_error *error) {
    size_t least = j->panels ? j->kernels->panel : is_streamed(j) ? STREAM_COLUMNS / 2 : BLOCK_COLUMNS;
    ow_fan workers = ow_fan_for(fan, (double)j->rows * (double)j->columns * (double)j->k >= FANNED);
    ow_tiling tiling = {.tile = run_piece,
                        .user = j,
                        .y = j->y + j->first * j->columns * j->y_size,
                        .item = j->y_size,
                        .rows = j->rows,
                        .columns = j->columns,
                        .least = least};
    return ow_run_tiles(&workers, &tiling) ? ORTWIN_OK : ow_no_memory(error);
}

/* Rows of A as they are multiplied, a row of ones behind them. */
static void pack_rows(job *j, const unsigned char *a, int is_signed, const line *zero, void *left, int32_t *row_sums,
                      int32_t *left_zeros) {
    const size_t bytes = j->left_stride * j->kernels->left_size;
    unsigned char *target = left;
    j->left_zero = 0;
    for (size_t r = 0; r < j->rows; r++) {
        int32_t z = zero_at(zero, j->first + r);
        row_sums[r] = j->kernels->pack_left(a + (j->first + r) * j->k, j->k, is_signed, z, target + r * bytes);
        left_zeros[r] = j->kernels->centred ? 0 : z + (is_signed ? 128 : 0);
        j->left_zero |= left_zeros[r] != 0;
    }
    if (!j->left_zero || j->panels || !j->k)
        return;
    unsigned char *ones = target + j->rows * bytes + bytes; /* its bytes, behind it */
    memset(ones, 1, j->k);
    j->kernels->pack_left(ones, j->k, 0, 0, target + j->rows * bytes);
}

/* One matrix of the product: as many rows at a time as LEFT_BYTES hold. */
static ortwin_status run_matrix(job *j, const unsigned char *a, int is_signed, const line *a_zero, size_t rows,
                                const ow_fan *fan, ortwin_error *error) {
    const size_t bytes = j->left_stride * j->kernels->left_size;
    size_t step = bytes > LEFT_BYTES / 8 ? 8 : LEFT_BYTES / bytes;
    step = step < rows ? step : rows;
    size_t numbers = step * sizeof(int32_t), size;
    if (__builtin_mul_overflow(step + 2, bytes, &size) || __builtin_add_overflow(size, 2 * numbers, &size) ||
        size > PTRDIFF_MAX)
        return ow_fail(error, ORTWIN_OVERFLOW, "a row's size does not fit in memory");
    void *memory = malloc(size);
    if (!memory)
        return ow_no_memory(error);
    int32_t *row_sums = memory, *left_zeros = row_sums + step;
    void *left = left_zeros + step;
    j->left = left, j->row_sums = row_sums, j->left_zeros = left_zeros;
    ortwin_status status = ORTWIN_OK;
    for (size_t row = 0; row < rows && !status; row += step) {
        j->rows = rows - row < step ? rows - row : step;
        j->first = row;
        pack_rows(j, a, is_signed, a_zero, left, row_sums, left_zeros);
        status = run_pieces(j, fan, error);
    }
    free(memory);
    return status;
}

ortwin_status ow_product_run(const ow_products *kernels, ow_product_kind kind, const ow_product_operands *operands,
                             const ow_pack *pack, const ow_fan *fan, const ortwin_tensor *y, ortwin_error *error) {
    if (!y->bytes)
        return ORTWIN_OK;
    const ow_matrices a = ow_matrices_of(operands->a, 1), b = ow_matrices_of(operands->b, 0);
    const size_t rank = a.rank > b.rank ? a.rank : b.rank, y_size = ow_item_size(y->dtype);
    size_t count = 1;
    for (size_t k = 0; k < rank; k++)
        count *= (size_t)y->dims[k];
    job j = {.kernels = kernels, .kind = kind, .k = a.columns, .columns = b.columns};
    j.groups = j.k / kernels->group + (j.k % kernels->group != 0);
    j.left_stride = (j.groups ? j.groups : 1) * kernels->group;
    j.flip = operands->b->dtype == OW_U8 ? 0x80 : 0;
    j.y_size = y_size;
    ow_integer_pack packed = {NULL, NULL, 0, 0};
    if (pack)
        packed = ow_integer_pack_of(kernels, &b, pack);
    j.y_dtype = y->dtype;
    if (kind == OW_PRODUCT_QUANTISED) {
        line scale = {operands->y_scale->data, 0, operands->y_scale->dtype};
        line zero = {operands->y_zero->data, 0, operands->y_zero->dtype};
        j.y_scale = float_at(&scale, 0);
        j.y_zero = zero_at(&zero, 0);
    }
    ortwin_status status = ORTWIN_OK;
    for (size_t m = 0; m < count && !status; m++) {
        size_t in_a = ow_matrix_at(&a, y->dims, rank, m), in_b = ow_matrix_at(&b, y->dims, rank, m);
        line a_zero = line_of(operands->a_zero, &a, in_a, a.rows);
        j.a_scale = line_of(operands->a_scale, &a, in_a, a.rows);
        j.b_zero = line_of(operands->b_zero, &b, in_b, b.columns);
        j.b_scale = line_of(operands->b_scale, &b, in_b, b.columns);
        if (operands->bias)
            j.bias = (line){operands->bias->data, 1, operands->bias->dtype};
        j.b = pack ? NULL : (const unsigned char *)operands->b->data + in_b * j.k * j.columns;
        j.panels = pack ? packed.panels + in_b * packed.panels_size : NULL;
        j.column_sums = pack ? packed.column_sums + in_b * packed.sums_count : NULL;
        j.y = (unsigned char *)y->data + m * a.rows * b.columns * y_size;
        status = run_matrix(&j, (const unsigned char *)operands->a->data + in_a * a.rows * j.k,
                            operands->a->dtype == OW_I8, &a_zero, a.rows, fan, error);
    }
    return status;
}

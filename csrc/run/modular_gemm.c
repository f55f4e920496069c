#include "run/dtype.h"
#include "run/gemm.h"
#include "run/tiles.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_DEPTH = 128, BLOCK_COLUMNS = 64 }; /* of B, as much as the first-level cache holds of 32-bit integers */

typedef struct job {
    const ow_gemm *g;
    size_t size;
    ow_modular_fn *multiply;
    uint64_t alpha, beta;
} job;

/* rows x columns from `from` on, which lies with so many elements from one row (column) to the next, row after row. */
static void copy_matrix(const unsigned char *from, size_t row_stride, size_t column_stride, size_t rows, size_t columns,
                        size_t size, unsigned char *to) {
    for (size_t r = 0; r < rows; r++, from += row_stride * size, to += columns * size) {
        if (column_stride == 1)
            memcpy(to, from, columns * size);
        else if (size == 4)
            for (size_t c = 0; c < columns; c++)
                memcpy(to + c * 4, from + c * column_stride * 4, 4);
        else
            for (size_t c = 0; c < columns; c++)
                memcpy(to + c * 8, from + c * column_stride * 8, 8);
    }
}

static uint64_t load(const unsigned char *p, size_t size) {
    uint32_t narrow;
    uint64_t wide;
    memcpy(size == 4 ? (void *)&narrow : (void *)&wide, p, size);
    return size == 4 ? narrow : wide;
}

/* alpha * sums + beta * C of one row. */
static void finish(const job *j, size_t row, size_t from, size_t columns, const unsigned char *sums) {
    const ow_gemm *g = j->g;
    unsigned char *y = g->y + (row * g->columns + from) * j->size;
    if (j->alpha == 1 && !g->c) {
        memcpy(y, sums, columns * j->size);
        return;
    }
    for (size_t c = 0; c < columns; c++) {
        uint64_t v = j->alpha * load(sums + c * j->size, j->size);
        if (g->c)
            v += j->beta * load(g->c + (row * g->c_row + (from + c) * g->c_column) * j->size, j->size);
        uint32_t narrow = (uint32_t)v;
        memcpy(y + c * j->size, j->size == 4 ? (void *)&narrow : (void *)&v, j->size);
    }
}

static int run_tile(const void *user, size_t row, size_t rows, size_t from, size_t until) {
    const job *j = user;
    const ow_gemm *g = j->g;
    const size_t size = j->size;
    /* A block of A, one of B and sums, each aligned as the elements are. */
    unsigned char *a = malloc((rows * BLOCK_DEPTH + BLOCK_DEPTH * BLOCK_COLUMNS + rows * BLOCK_COLUMNS) * size);
    if (!a)
        return 0;
    unsigned char *b = a + rows * BLOCK_DEPTH * size, *sums = b + BLOCK_DEPTH * BLOCK_COLUMNS * size;
    for (; from < until; from += BLOCK_COLUMNS) {
        size_t columns = ow_least(until - from, BLOCK_COLUMNS);
        memset(sums, 0, rows * columns * size);
        for (size_t k = 0; k < g->k; k += BLOCK_DEPTH) {
            size_t depth = ow_least(g->k - k, BLOCK_DEPTH);
            copy_matrix(g->a + (g->a_transposed ? k * g->rows + row : row * g->k + k) * size,
                        g->a_transposed ? 1 : g->k, g->a_transposed ? g->rows : 1, rows, depth, size, a);
            copy_matrix(g->b + (g->b_transposed ? from * g->k + k : k * g->columns + from) * size,
                        g->b_transposed ? 1 : g->columns, g->b_transposed ? g->k : 1, depth, columns, size, b);
            j->multiply(a, depth, rows, b, depth, columns, sums);
        }
        for (size_t r = 0; r < rows; r++)
            finish(j, row + r, from, columns, sums + r * columns * size);
    }
    free(a);
    return 1;
}

int ow_modular_gemm(const ow_kernels *kernels, const ow_gemm *g, const ow_fan *fan) {
    const size_t size = ow_item_size(g->dtype);
    job j = {g, size, size == 4 ? kernels->modular_32 : kernels->modular_64, (uint64_t)(int64_t)g->alpha,
             (uint64_t)(int64_t)g->beta};
    return ow_run_tiles(fan, &(ow_tiling){.tile = run_tile,
                                          .user = &j,
                                          .y = g->y,
                                          .item = size,
                                          .rows = g->rows,
                                          .columns = g->columns,
                                          .least = BLOCK_COLUMNS});
}

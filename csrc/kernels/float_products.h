/* What the kernels of csrc/kernels/matmul.h are to their callers: products of matrices of floats, summed as C6 says.
 *
 * The sum of a block of at most OW_SUM_BLOCK consecutive k is one chain of fma from +0.0, k ascending; block sums are
 * added to the total in ascending order, and the first is assigned. How rows and columns are grouped shows nowhere: each
 * sum has a lane of its own. Left matrices are of floats at any address; right
 * ones panels of floats, or as they are. */
#ifndef ORTWIN_FLOAT_PRODUCTS_H
#define ORTWIN_FLOAT_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

enum {
    OW_SUM_BLOCK = 256,       /* C6: part of what is computed, not a size to be tuned */
    OW_FLOAT_STREAM_ROWS = 8, /* left rows that a stream takes, at most */
    OW_FLOAT_TURNED_ROWS = 4, /* where B lies transposed */
    OW_FLOAT_PANEL_MAX = 32   /* columns of a panel, at most */
};

/* What becomes of totals: y = alpha * total, and where there is a C y = that + beta * c, each operation rounded once, and
 * once to the type of y; a NaN is canonical (C3). */
typedef struct ow_float_finish {
    int32_t dtype; /* of C and y */
    float alpha, beta;
    size_t rows, columns;
    const void *c;          /* of the first result; NULL for none */
    size_t c_row, c_column; /* elements to the next row's; 0 where one serves all columns, else 1 */
    void *y;
    size_t y_row;
} ow_float_finish;

typedef struct ow_float_products {
    size_t panel; /* columns of a panel */

    /* rows x k of a left matrix as floats, row after row. transposed: it lies as [k, rows]. stride: elements between
     * the rows (columns) of it in memory. */
    void (*widen)(const void *a, int32_t dtype, size_t stride, int transposed, size_t rows, size_t k, float *left);
    /* k rows of B into panels, panel_size floats apart, each k * panel floats; columns beyond are zeros. transposed: B
     * lies as [columns, k]. */
    void (*pack)(const void *b, int32_t dtype, size_t stride, int transposed, size_t k, size_t columns, float *panels,
                 size_t panel_size);
    /* totals[r][c] of one block of k, for so many panels side by side. first: whether the block is, so that its sums
     * are assigned. */
    void (*multiply)(const void *left, size_t left_stride, size_t rows, const float *panels, size_t panel_size,
                     size_t count, size_t k, int first, float *totals, size_t totals_stride);
    /* The same with B as it is, [k, columns], which is read once and in order, for at most OW_FLOAT_STREAM_ROWS rows;
     * or transposed, [columns, k], for at most OW_FLOAT_TURNED_ROWS. sums: scratch of the size of totals, both whole
     * panels wide. */
    void (*stream)(const void *left, size_t left_stride, size_t rows, const void *b, int32_t dtype, size_t b_stride,
                   int transposed, size_t columns, size_t k, int first, float *sums, float *totals,
                   size_t totals_stride);
    void (*finish)(const float *totals, size_t totals_stride, const ow_float_finish *finish);
} ow_float_products;

#endif

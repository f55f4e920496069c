/* What the kernels of csrc/kernels/nbits.h are to their callers: products with a matrix that is quantised by blocks of
 * consecutive k, each column of each block with a scale and a zero point of its own (com.microsoft MatMulNBits).
 *
 * The matrix comes in panels of `panel` columns. A panel is its blocks in order, and a block is
 *   panel scales (binary32), panel zero points (of zero_size bytes), then words of 32 bits: word w of every column,
 *   then word w + 1 of every column, and so on.
 * A word holds consecutive k of one column, the first in its lowest bits: 8 of 4 bits, 4 of 8 bits. So lanes are
 * columns, and a word is what the matrix itself holds at that place. */
#ifndef ORTWIN_BLOCK_PRODUCTS_H
#define ORTWIN_BLOCK_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

enum {
    OW_BLOCK_PANEL_MAX = 128, /* columns of a panel, at most */
    OW_BLOCK_SLACK = 64,      /* bytes behind the last panel that may be read and must be there */
    OW_DIRECT_ROWS = 4        /* left rows that `direct` takes, at most */
};

typedef struct ow_blocked {
    size_t k, block;  /* k of the matrix, and of a block: the last may be short */
    size_t bytes;     /* of one block of a panel */
    int bits;         /* 4 or 8 */
    size_t zero_size; /* 0: `zero` is everybody's zero point; 1: bytes; 4: binary32 */
    int zero;
} ow_blocked;

/* A row of activations as integers (accuracy level 4): per block k bytes, rounded up to whole words, in an order of
 * their own, a scale, and their sum. */
typedef struct ow_quantised_row {
    const int8_t *values;
    const float *scales;
    const int32_t *sums;
} ow_quantised_row;

enum { OW_CHAIN_BEGINS = 1, OW_CHAIN_ENDS = 2 };

typedef struct ow_block_products {
    size_t panel;

    /* totals[r][c] = the product of rows of A and a panel, its zero points not binary32, in binary32: of each block one
     * fma chain over k ascending from +0.0, times the scale and added to the total by another fma, blocks ascending,
     * from +0.0. stride: elements between rows. */
    void (*direct)(const float *a, size_t stride, size_t rows, const ow_blocked *b, const unsigned char *panel,
                   float *totals);
    /* weights[i][c] = q - zero point, of k in [from, from + count), which lie in one block; from is a multiple of 8.
     * Where groups is not NULL, groups[k] says of which block zero point and scale are, and q - zero is multiplied by
     * the scale. */
    void (*expand)(const ow_blocked *b, const unsigned char *panel, size_t from, size_t count, const int32_t *groups,
                   float *weights);
    /* sums[r][c] += a[r][i] * weights[i][c], one fma after the other, sums from +0.0 where `part` says OW_CHAIN_BEGINS;
     * where it says OW_CHAIN_ENDS, then totals[r][c] += sums[r][c] * scales[c], another fma. */
    void (*chain)(const float *a, size_t stride, size_t rows, const float *weights, size_t count, int part,
                  const float *scales, float *sums, float *totals);
    /* A row in blocks, as integers. values: of each block the k of a block, rounded up to 8. False when some block held
     * a NaN or an infinity; its scale is a NaN then. */
    void (*quantise)(const float *a, const ow_blocked *b, int8_t *values, float *scales, int32_t *sums);
    /* totals as of `direct`, from integers: of each block the exact sum of products, converted, times the product of
     * both scales. value_stride: bytes between rows' values; block_stride: numbers between rows' scales and sums. */
    void (*dots)(const ow_quantised_row *row, size_t value_stride, size_t block_stride, size_t rows,
                 const ow_blocked *b, const unsigned char *panel, float *totals);
    /* y = totals + bias (NULL: as they are), NaNs canonical. n: rounded up to vectors. */
    void (*finish)(const float *totals, const float *bias, size_t n, float *y);
} ow_block_products;

#endif

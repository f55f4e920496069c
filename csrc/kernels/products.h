/* What the kernels of csrc/kernels/integer_matmul.h are to their callers: exact sums of products of 8-bit matrices.
 *
 * With a' and b' the elements as they are multiplied, and za', zb' their zero points moved along (ow_products),
 *   sum (a - za)(b - zb) = sum a' b'  -  zb' sum (a - za)  -  za' sum b',  every add modulo 2^32 (C7).
 * Right elements are always signed: an unsigned b is b' = b - 128. Left ones are as the instruction set wants them. */
#ifndef ORTWIN_PRODUCTS_H
#define ORTWIN_PRODUCTS_H

#include <stddef.h>
#include <stdint.h>

enum {
    OW_PANEL_MAX = 64, /* columns of a panel, at most */
    OW_STREAM_ROWS = 5 /* left rows that a stream takes, at most */
};

/* What becomes of the sums of one row and one panel. Columns beyond `columns` are neither computed nor written; the
 * arrays must be a panel long all the same. */
typedef struct ow_finish {
    enum { OW_FINISH_SUMS, OW_FINISH_BYTES, OW_FINISH_FLOATS } to; /* int32; int8 or uint8; float */
    size_t columns;
    int32_t row_sum, left_zero;               /* sum (a - za); za' */
    const int32_t *column_sums, *right_zeros; /* sum b', or NULL where za' is 0; zb' */
    const float *scales;                      /* BYTES, FLOATS: what a sum is multiplied with */
    const float *bias;                        /* FLOATS: added then; NULL for none */
    int32_t zero_point, lowest, highest;      /* BYTES: added; bounds of the type */
} ow_finish;

typedef struct ow_products {
    size_t group, panel, left_size; /* k that a product takes up; columns of a panel; bytes of a left element */
    int centred; /* left elements come less their zero point, and za' is 0; else raised to unsigned */

    /* A row of k elements as it is multiplied, with zeros up to a multiple of `group`; returns sum (a - za). */
    int32_t (*pack_left)(const void *a, size_t k, int is_signed, int32_t zero_point, void *left);
    /* k rows of B, flipped (0x80: from unsigned), into panels that are panel_size bytes apart: each takes up panel * (k
     * up to a multiple of group). What stands for the rows and columns beyond is of no account. */
    void (*pack_right)(const void *b, size_t stride, size_t k, size_t columns, unsigned char flip, int8_t *panels,
                       size_t panel_size);
    /* sums[r][c] += left[r] * panel, over so many groups; stride: elements between left rows. The columns of a panel
     * stand in an order of their own, which `finish` undoes. */
    void (*multiply)(const void *left, size_t stride, size_t rows, const int8_t *panel, size_t groups, int32_t *sums);
    /* The same with B as it is, of any number of columns, read once and in order, for 1 to OW_STREAM_ROWS rows. Sums
     * are whole panels: those of row r begin at r * sums_stride. */
    void (*stream)(const void *left, size_t stride, size_t rows, const void *b, size_t b_stride, size_t k,
                   size_t columns, unsigned char flip, int32_t *sums, size_t sums_stride);
    /* Sums of one row and panel to results. y has finish->columns elements. */
    void (*finish)(const int32_t *sums, const ow_finish *finish, void *y);
    /* Sums of a panel in the matrix's order. */
    void (*order)(const int32_t *sums, int32_t *ordered);
} ow_products;

#endif

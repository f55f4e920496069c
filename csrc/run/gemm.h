/* One product of two matrices, y = alpha * (A' B') + beta * C, where ' is a transposition or none. */
#ifndef ORTWIN_RUN_GEMM_H
#define ORTWIN_RUN_GEMM_H

#include "kernels/kernels.h"
#include "run/whole.h"

typedef struct ow_gemm {
    int32_t dtype;
    size_t rows, columns, k; /* M, N, K; M and N are not 0 */
    const unsigned char *a, *b;
    int a_transposed, b_transposed; /* A lies as [K, M], B as [N, K] */
    float alpha, beta;
    const unsigned char *c; /* NULL for none, also where beta is 0 */
    size_t c_row, c_column; /* elements of C from one row or column to the next, 0 where one serves all */
    unsigned char *y;
} ow_gemm;

/* Of floats (C5, C6). panels: B as ow_float_pack has it, or NULL. False when there is no memory. */
int ow_float_gemm(const ow_float_products *kernels, const ow_gemm *g, const float *panels, const ow_fan *fan);
/* Of integers of 32 or 64 bits (C7); alpha and beta are whole numbers below 2^63. */
int ow_modular_gemm(const ow_kernels *kernels, const ow_gemm *g, const ow_fan *fan);

/* The matrices in b packed for ow_float_gemm, as ow_pack_take; and the panels of one of them. */
const ow_pack *ow_float_pack_take(const ow_float_products *kernels, const ortwin_tensor *b, int transposed,
                                  ow_tally *tally);
const float *ow_float_panels(const ow_float_products *kernels, const ow_pack *pack, size_t k, size_t columns,
                             size_t matrix);

#endif

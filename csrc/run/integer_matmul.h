/* Products of 8-bit matrices: MatMulInteger, QLinearMatMul, com.microsoft MatMulIntegerToFloat. */
#ifndef ORTWIN_RUN_INTEGER_MATMUL_H
#define ORTWIN_RUN_INTEGER_MATMUL_H

#include "kernels/products.h"
#include "ortwin.h"
#include "run/packs.h"
#include "run/whole.h"

typedef enum ow_product_kind { OW_PRODUCT_SUMS, OW_PRODUCT_QUANTISED, OW_PRODUCT_FLOATS } ow_product_kind;

/* Operands of one product; NULL for those that the op has not or the node leaves out. Their types are those of the op. */
typedef struct ow_product_operands {
    const ortwin_tensor *a, *a_zero, *a_scale, *b, *b_zero, *b_scale, *y_zero, *y_scale, *bias;
} ow_product_operands;

/* The shapes as known when a node is claimed, or as they are at Run; the rule they break, if any. dims, which may be
 * NULL, gets the product's shape, of *rank dimensions; -1 is an unknown one, also of rank. An operand that there is not has type 0. */
typedef struct ow_product_shapes {
    ortwin_operand a, a_zero, a_scale, b, b_zero, b_scale, y_zero, y_scale, bias;
    int a_is_whole; /* A's zero point and scale are one number (com.microsoft) */
} ow_product_shapes;
ortwin_status ow_product_shape(const ow_product_shapes *shapes, int64_t *dims, int32_t *rank, ortwin_error *error);

/* Whether two dimensions are known to differ; -1 is one that is not known. */
static inline int ow_clash(int64_t p, int64_t q) { return p >= 0 && q >= 0 && p != q; }

/* Its rank, from the ranks of A and B; -1 if one is unknown or there is none. */
int32_t ow_product_rank(int32_t a, int32_t b);

/* Whether the inner dimensions of A and B, which break no rule, are known. */
ow_inner ow_product_inner(const ortwin_operand *a, const ortwin_operand *b);

/* Computes y, whose shape is the product's and whose operands' shapes break no rule. pack: of b, or NULL. */
ortwin_status ow_product_run(const ow_products *kernels, ow_product_kind kind, const ow_product_operands *operands,
                             const ow_pack *pack, const ow_fan *fan, const ortwin_tensor *y, ortwin_error *error);

#endif

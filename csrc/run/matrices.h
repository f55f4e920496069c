/* The matrices in a tensor of rank 1 or more, and which of them a product of two such tensors is made of, as
 * numpy.matmul has it: a left vector is a row, a right one a column, batch dimensions broadcast. */
#ifndef ORTWIN_RUN_MATRICES_H
#define ORTWIN_RUN_MATRICES_H

#include "ortwin.h"

typedef struct ow_matrices {
    size_t rows, columns; /* of one */
    size_t rank;          /* batch dimensions */
    const int64_t *dims;  /* those */
} ow_matrices;

ow_matrices ow_matrices_of(const ortwin_tensor *t, int is_left);
/* How many there are. */
size_t ow_matrix_count(const ow_matrices *operand);
/* Which of an operand's matrices the product's matrix `index` is made of. dims: the product's, whose first `rank` are
 * those of the batch. */
size_t ow_matrix_at(const ow_matrices *operand, const int64_t *dims, size_t rank, size_t index);

#endif

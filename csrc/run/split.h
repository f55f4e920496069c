/* Where a tensor is cut for several threads: a pure function of what is computed, never of how many threads there are,
 * so that the cut cannot carry a thread count into the bits (C1). */
#ifndef ORTWIN_RUN_SPLIT_H
#define ORTWIN_RUN_SPLIT_H

#include "run/ops.h"

enum {
    OW_MAX_PIECES = 64,
    OW_PIECE_ALIGNMENT = 16 /* elements: pieces of an aligned f32 tensor share no cache line */
};

/* The length in elements of every piece but the last, which is what remains. It is `length` itself when the tensor is
 * not worth cutting. row_width: 1, or the length of a row operand: element i is computed with operand i mod row_width,
 * and pieces are whole rows. Width 0, or a unit of 16 elements and whole rows that overflows: no cut. */
size_t ow_piece_length(size_t length, ow_cost cost, size_t row_width);

#endif

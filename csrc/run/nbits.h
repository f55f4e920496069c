/* com.microsoft MatMulNBits: products with a matrix that is quantised by blocks. Its rules are in nbits.c, how weights
 * are packed in nbits_pack.c, a run in nbits_run.c. */
#ifndef ORTWIN_RUN_NBITS_H
#define ORTWIN_RUN_NBITS_H

#include "kernels/block_products.h"
#include "run/whole.h"

enum { OW_NBITS_A, OW_NBITS_B, OW_NBITS_SCALES, OW_NBITS_ZEROS, OW_NBITS_GROUPS, OW_NBITS_BIAS };

ow_whole_check_fn ow_nbits_check;
ow_whole_rank_fn ow_nbits_rank;
ow_whole_inspect_fn ow_nbits_inspect;
ow_whole_inner_fn ow_nbits_inner;
ow_whole_pack_fn ow_nbits_pack;
ow_whole_run_fn ow_nbits_run;

/* Whether activations are taken as 8-bit integers: the node says accuracy level 4, its operands have what that needs,
 * and `exact`, a user's wish for levels below 4, is not set. Else it is computed as at level 0. */
int ow_nbits_takes_integers(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS], int exact);

/* Where weights come from, and how they are packed. Its sizes fit in memory. */
typedef struct ow_nbits_weights {
    ow_blocked layout;
    size_t columns, blocks, blob; /* blob: bytes of a block of a column of B */
    int bits;                     /* of B; packed are at least 4 */
    size_t panel, panels;         /* columns of a panel; how many there are */
    const unsigned char *b;
    const void *scales, *zeros;
    int32_t scales_dtype, zeros_dtype;
} ow_nbits_weights;

/* False if the sizes do not fit. */
int ow_nbits_weights_of(const ow_whole *node, const ow_block_products *kernels,
                        const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], ow_nbits_weights *weights);
size_t ow_nbits_panel_bytes(const ow_nbits_weights *weights);
/* Packs one panel; target is aligned for floats. */
void ow_nbits_pack_panel(const ow_nbits_weights *weights, size_t index, unsigned char *target);

#endif

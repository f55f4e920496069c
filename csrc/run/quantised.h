/* The quantised ops as the plan sees them: which operands they take, what comes out, and their execution as a whole. */
#ifndef ORTWIN_RUN_QUANTISED_H
#define ORTWIN_RUN_QUANTISED_H

#include "kernels/kernels.h"
#include "ortwin.h"
#include "run/integer_matmul.h"
#include "run/packs.h"

enum { OW_QUANTISED_INPUTS = 8 };

/* A node of one of OW_WHOLE_KERNELS. Attributes as written, or their defaults. */
typedef struct ow_quantised {
    ow_kernel_id kernel;
    int32_t since_version;
    int64_t axis, block_size, output_dtype, precision;
} ow_quantised;

/* Types and known shapes of the operands (type 0: there is none) against the op's rules. *dtype: the output's type.
 * dims, which may be NULL, gets its shape as far as it is known, *rank dimensions or -1. ORTWIN_UNSUPPORTED for a type
 * or an attribute, ORTWIN_BAD_SHAPE for a shape. */
ortwin_status ow_quantised_check(const ow_quantised *node, const ortwin_operand inputs[OW_QUANTISED_INPUTS],
                                 int32_t *dtype, int32_t *rank, int64_t *dims, ortwin_error *error);

/* Whether this kernel is one of them, and the rank of its output from the ranks of its operands alone, -1 if unknown. */
int ow_is_quantised(ow_kernel_id kernel);
int32_t ow_quantised_rank(const ow_quantised *node, const ortwin_operand inputs[OW_QUANTISED_INPUTS]);

/* The operand that is packed ahead where it is a constant, -1 for none; and its pack, NULL where it was declined. */
int ow_quantised_packed(const ow_quantised *node);
const ow_pack *ow_quantised_pack(const ow_kernels *kernels, const ortwin_tensor *b, ow_tally *tally);

/* Computes y, whose type and shape are those of the check. inputs: NULL for what there is not. */
ortwin_status ow_quantised_run(const ow_kernels *kernels, const ow_quantised *node,
                               const ortwin_tensor *const inputs[OW_QUANTISED_INPUTS], const ow_pack *pack,
                               const ow_fan *fan, const ortwin_tensor *y, ortwin_error *error);

#endif

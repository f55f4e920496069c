/* Shapes: what a node makes of its operands', and how a kernel walks operands that broadcast. */
#ifndef ORTWIN_RUN_SHAPE_H
#define ORTWIN_RUN_SHAPE_H

#include "run/ops.h"

/* The rank of a node's output, -1 where it is unknown. */
int32_t ow_output_rank(const ow_resolved *node, const ortwin_operand *inputs);

/* The output's dimensions, -1 for one that is unknown; dims has room for ow_output_rank of them, or is NULL if only the
 * rule is asked for. ORTWIN_BAD_SHAPE if what is known of the operands breaks the op's rule. */
ortwin_status ow_output_shape(const ow_resolved *node, const ortwin_operand *inputs, int64_t *dims,
                              ortwin_error *error);

/* The bytes of a tensor of a type that ow_is_held, and its elements; 0 if they do not fit in memory's address range. */
int ow_tensor_size(int32_t dtype, size_t rank, const int64_t *dims, size_t *count, size_t *bytes);

/* One axis of a walk over an output, and how many elements each operand moves for one step along it. */
typedef struct ow_axis {
    size_t size, step[2];
} ow_axis;

/* How the two operands of a node stand against its output: axes, outermost first, of size 2 or more, neighbours made one
 * where both operands allow. Along the innermost an operand moves by 1 or not at all. Returns how many there are; axes
 * has room for the output's rank. All shapes are known and fit. */
size_t ow_walk(const ow_resolved *node, const ortwin_operand *inputs, size_t rank, const int64_t *dims, ow_axis *axes);

#endif

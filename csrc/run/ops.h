/* The op table and the one function that decides whether a node can be executed exactly as written. */
#ifndef ORTWIN_RUN_OPS_H
#define ORTWIN_RUN_OPS_H

#include "kernels/kernels.h"
#include "ortwin.h"
#include "run/whole.h"

typedef enum ow_cost {
    OW_COST_MEMORY,
    OW_COST_LIGHT,
    OW_COST_TRANSCENDENTAL,
    OW_COST_COMPOSITE,
    OW_COST_PRODUCT
} ow_cost;
typedef enum ow_shape_rule {
    OW_SHAPE_SAME,
    OW_SHAPE_BROADCAST,
    OW_SHAPE_LIMITED,
    OW_SHAPE_BIAS,
    OW_SHAPE_OPTIONAL_BIAS,
    OW_SHAPE_WHOLE
} ow_shape_rule;

typedef struct ow_attr_rule {
    const char *name; /* NULL ends the list */
    int32_t type;     /* ortwin_attr_type */
    enum {
        OW_TO_NOTHING,
        OW_TO_ALPHA,
        OW_TO_BETA,
        OW_TO_AXIS,
        OW_TO_BROADCAST,
        OW_TO_BLOCK_SIZE,
        OW_TO_OUTPUT_DTYPE,
        OW_TO_PRECISION,
        OW_TO_INNER,
        OW_TO_COLUMNS,
        OW_TO_BITS,
        OW_TO_ACCURACY,
        OW_TO_PREPACKED,
        OW_TO_TRANS_A,
        OW_TO_TRANS_B
    } to;
    float preset;             /* schema default; Clip-1 has none and takes the type's limits, as Clip-6 */
    const char *text, *other; /* STRING: schema default, and the other value that is implemented */
} ow_attr_rule;

typedef struct ow_op {
    const char *domain, *name;
    int32_t since_version;
    size_t max_inputs;
    uint32_t dtypes; /* bit k: element type k */
    ow_cost cost;
    ow_shape_rule shape;
    const ow_attr_rule *attrs;
    ow_kernel_id kernel;
} ow_op;

/* A node as the claim test sees it: slots replaced by what is known of the operands. */
typedef struct ow_node_view {
    const ortwin_node *node;
    const ortwin_operand *inputs; /* node->input_count entries */
    int nbits_exact;              /* MatMulNBits at level 4 is to be computed as at level 0 */
} ow_node_view;

typedef struct ow_resolved {
    const ow_op *op;
    ow_kernel_id kernel; /* the op's, unless an attribute chose another */
    int32_t dtype;       /* of the first input */
    int32_t output;      /* of the output */
    ow_params params;
    int64_t axis;   /* LIMITED: the axis of the first input where the second begins, -1 for the last axes */
    int broadcast;  /* LIMITED: whether the shapes may differ */
    ow_whole whole; /* WHOLE */
} ow_resolved;

/* How many inputs the schema wants at least, and how many outputs it has. */
size_t ow_min_inputs(const ow_op *op);
size_t ow_outputs(const ow_op *op);
/* The same node as what computes its output k. */
ow_resolved ow_part(const ow_resolved *node, size_t k);

/* Can this node be executed exactly as written? The first rule that says no is put into error. Both the plan and
 * the claim in ONNX Runtime ask here, so nothing is claimed that the executor would refuse. */
ortwin_status ow_resolve(const ow_node_view *view, ow_resolved *resolved, ortwin_error *error);

const char *ow_kernel_name(ow_kernel_id kernel);

/* Whether the op's second input is a bias, a row that is added to every row of the first. */
int ow_takes_bias(const ow_op *op);

/* Reads Clip's bounds from its optional inputs (NULL: missing), whose data must be one element of `dtype`. */
void ow_clip_bounds(ow_params *params, int32_t dtype, const void *lower, const void *upper);

/* Replaces what is no UTF-8, also a character that was cut in two, by question marks. Hosts that decode a message
 * strictly would lose it, and ONNX Runtime's Python wrapper would even take that for a reason to drop the provider. */
void ow_make_utf8(char *text);

/* Formats one sentence into error (which may be NULL) and returns status. */
__attribute__((format(printf, 3, 4))) ortwin_status ow_fail(ortwin_error *error, ortwin_status status,
                                                            const char *format, ...);
ortwin_status ow_no_memory(ortwin_error *error);

#endif

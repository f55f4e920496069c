/* What the files of the executor share: the plan and its parts.
 *
 *   build.c      a plan under construction: inputs, constants, nodes, outputs; seal folds what is constant
 *   signature.c  what depends on the shapes of the inputs alone, computed once for each set of them and kept
 *   arena.c      where intermediates lie
 *   frame.c      scratch of one call at a time
 *   plan.c       a Run
 *   split.c      where work is cut for several threads; fanout.c hands it out, pool.c has threads of our own
 *
 * A sealed plan never changes, except for two things that grow by atomic steps: its list of frames and its cache of
 * signatures. Any number of threads may run it at once. */
#ifndef ORTWIN_RUN_PARTS_H
#define ORTWIN_RUN_PARTS_H

#include "run/counters.h"
#include "run/cpu.h"
#include "run/plan.h"
#include "run/shape.h"
#include "run/trace.h"

typedef struct ow_slot {
    enum { FROM_INPUT, FROM_CONSTANT, FROM_NODE } from;
    ortwin_operand known;   /* dims are ours */
    ortwin_tensor constant; /* data is ours, dims are known.dims */
    size_t input;           /* FROM_INPUT: which */
    size_t last_use;        /* the last step that reads it; steps are nodes, then the copies of the outputs */
    int32_t output;         /* FROM_NODE: the plan output whose buffer holds it, -1 for none */
    size_t step;            /* FROM_NODE: which makes it */
    int read;               /* whether any step reads it, but as a pack */
} ow_slot;

typedef struct ow_node {
    ow_resolved resolved;
    size_t input_count;
    int32_t inputs[OW_MAX_INPUTS]; /* slots, -1 for a missing one */
    int32_t output;                /* slot */
    char *label;                   /* "node 'clip_3' (Clip)" */
    const ow_pack *pack;           /* of its constants that are packed ahead, NULL for none */
    int is_part;                   /* of a node that an earlier one stands for as well */
} ow_node;

/* The shape of a value under a signature. */
typedef struct ow_value {
    const int64_t *dims;
    size_t rank, count, bytes;
} ow_value;

/* Where an operand is: base[slot], moved by item bytes for every element of the output that lies before the piece at
 * hand. item is 0 for what does not move: an operand that is walked, or a buffer of one piece. Of such a buffer several
 * threads have one each, `lane` bytes apart; lane is 0 for what they share. */
typedef struct ow_place {
    uint32_t slot, item;
    size_t lane;
} ow_place;

/* One node under a signature. */
typedef struct ow_step {
    enum { STEP_COPY, STEP_UNARY, STEP_BOUNDED, STEP_BIASED, STEP_PAIRED, STEP_WALKED, STEP_WHOLE } kind;
    ow_place x, b, y;
    size_t item; /* bytes of an element */
    ow_unary_fn *unary;
    ow_binary_fn *binary;
    ow_biased_fn *biased;
    size_t width; /* STEP_BIASED: of a row; else 1 */
    const ow_params *params;
    const ow_node *node;
    const ow_axis *axes; /* STEP_WALKED: see ow_walk */
    size_t axis_count;
    /* Of a binary op: 1 in step with the output, 0 a single element, 2 as the axes say. Of a bias: 1 where it is the only
     * row, so in step too. */
    size_t x_step, b_step;
} ow_step;

/* Consecutive steps whose outputs have one shape: elementwise all of them, so each piece of the outputs is a matter of
 * the same piece of the operands, and the steps can take turns at pieces that fit in the cache. Only the first may be
 * executed as a whole: a product, which lets the others follow it through the tiles that it is computed by, or an op
 * that stands alone. Tiles are not made by `cut`, which says of them only whether several threads are worth it. */
typedef struct ow_segment {
    size_t first, end;   /* steps */
    size_t count, piece; /* elements: of the outputs, and of what goes through the cache at a time */
    size_t cut;          /* elements that a thread takes at a time; count where several threads are not worth it */
} ow_segment;

typedef struct ow_signature {
    atomic_uint references; /* the cache has one, each frame that uses it another */
    ow_value *values;       /* per slot */
    ow_step *steps;
    ow_segment *segments;
    size_t segment_count;
    size_t *offsets; /* per slot: into the arena, SIZE_MAX for what is not there */
    size_t arena_bytes;
} ow_signature;

enum { OW_SIGNATURES = 8 }; /* kept by a plan */

/* A place in the cache. state: how many threads are looking at it, or OW_CHANGING while one exchanges its signature. */
typedef struct ow_cached {
    atomic_uint state;
    ow_signature *signature;
} ow_cached;

struct ow_frame {
    atomic_int busy;
    struct ow_frame *next; /* older frames of the plan */
    const ortwin_plan *plan;
    ow_signature *signature; /* of the last Run */
    const ortwin_host *pool; /* of this Run: the host's threads; NULL for the library's own */
    unsigned char *arena;
    size_t arena_room;
    unsigned char **base;    /* per slot: its data */
    unsigned char **written; /* per plan output: the buffer the host gave */
    size_t *by_address;      /* plan outputs with elements, by where their buffers are */
    ortwin_tensor *inputs;   /* per plan input */
    int64_t *dims;           /* OW_STACKED_RANK for each input: shapes that the host copies */
    int64_t **long_dims;     /* per input, long_room of them: where that is not enough */
    size_t long_room;
    ow_tally tally;
};

struct ortwin_plan {
    const ow_isa *isa;
    int32_t threads;
    int nbits_exact; /* MatMulNBits at level 4 is computed as at level 0 */
    int sealed;
    ow_slot *slots;
    size_t slot_count, slot_room;
    ow_node *nodes;
    size_t node_count, node_room;
    int32_t *outputs; /* slots */
    size_t output_count, output_room;
    int32_t *inputs; /* slots */
    size_t input_count, input_room;
    size_t part_count; /* nodes that are parts */
    ow_tally tally;    /* of the construction */
    _Atomic(ow_frame *) frames;
    ow_cached cache[OW_SIGNATURES];
    atomic_uint turn; /* whose turn it is to be evicted */
    ow_trace *trace;  /* NULL unless asked for */
    int own_trace;    /* whether it ends with the plan */
};

/* Checks a tensor against its own shape. what, index: for messages, "input 2". */
ortwin_status ow_check_tensor(const ortwin_tensor *t, const char *what, size_t index, ortwin_error *error);
/* Whether plan output k is written by no step of its own: it is a copy of an input, of a constant, or of a value that
 * is already the buffer of an earlier output. */
int ow_is_copied(const ortwin_plan *plan, size_t k);
/* What the node's operands are known to be; values: their shapes, or NULL for what is known before Run. */
void ow_operands(const ortwin_plan *plan, const ow_node *node, const ow_value *values,
                 ortwin_operand operands[OW_MAX_INPUTS]);
/* How the node is executed on operands of these shapes. axes: room for the output's rank. */
void ow_make_step(const ortwin_plan *plan, const ow_node *node, const ow_value *values, ow_axis *axes, ow_step *step);
/* Runs a STEP_WHOLE, all of it, and what follows it by the fan. */
ortwin_status ow_run_whole(const ortwin_plan *plan, unsigned char *const *base, const ow_value *values,
                           const ow_node *node, const ow_fan *fan, ortwin_error *error);
/* Runs one node's kernel for elements begin to begin + count of its output. Serial, and free of any state but what it
 * is given: pieces of one step may run in any order, or at once in a lane each. */
void ow_run_kernel(unsigned char *const *base, const ow_step *step, size_t lane, size_t begin, size_t count);
/* Whether the segment begins with what is executed as a whole. */
static inline int ow_begins_whole(const ow_signature *signature, const ow_segment *segment) {
    return signature->steps[segment->first].kind == STEP_WHOLE;
}
/* In how many lanes the segment's pieces may run at once. */
static inline size_t ow_lanes(const ow_segment *segment) {
    return segment->cut < segment->count ? (segment->count - 1) / segment->cut + 1 : 1;
}

/* The signature for these inputs, which have been checked, with a reference for the caller: from the cache, or
 * computed and put there. */
ortwin_status ow_find_signature(const ortwin_plan *plan, const ortwin_tensor *inputs, ow_tally *tally,
                                ow_signature **found, ortwin_error *error);
/* Whether the inputs have the shapes of the signature: presence, type, rank, every dimension, and size of the buffer. */
int ow_matches(const ortwin_plan *plan, const ow_signature *signature, const ortwin_tensor *inputs);
void ow_drop_signature(ow_signature *signature);
void ow_free_cache(ortwin_plan *plan);

/* Finds offsets and arena_bytes of the signature, and which places do not move. segment_of: of each step. */
ortwin_status ow_plan_arena(const ortwin_plan *plan, ow_signature *signature, ow_tally *tally, ortwin_error *error);

void ow_free_frames(ortwin_plan *plan);
/* Gives the frame another signature, whose reference it takes over, and the memory this needs. */
ortwin_status ow_frame_adopt(ow_frame *frame, ow_signature *signature, ortwin_error *error);

#endif

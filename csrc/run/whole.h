/* Ops that are executed as a whole, not by pieces of their outputs: what the plan asks of them, and the one place where
 * their families are told apart. */
#ifndef ORTWIN_RUN_WHOLE_H
#define ORTWIN_RUN_WHOLE_H

#include "kernels/kernels.h"
#include "ortwin.h"
#include "run/packs.h"

enum { OW_WHOLE_INPUTS = 8 };

/* A node of one of OW_WHOLE_KERNELS: attributes as written, or their defaults. Each family reads those of its ops. */
typedef struct ow_whole {
    ow_kernel_id kernel;
    int32_t since_version;
    uint32_t operands; /* bit k: there is operand k */
    int64_t axis, block_size, output_dtype, precision;
    int64_t inner, columns, bits, accuracy, prepacked; /* MatMulNBits: K, N, accuracy_level, weight_prepacked */
    float alpha, beta;                                 /* Gemm */
    int transposes_a, transposes_b, broadcast;
} ow_whole;

/* Who works on an op, and on what follows it.
 *
 * run: runs task(user, 0) to task(user, count - 1), each once, on several threads and waits for them; false when it ran
 * nothing, and the caller is to do it. NULL: this thread alone.
 *
 * follow: elementwise steps that a product calls for the elements of y that it has finished, each once, in any order, on
 * any thread: while they are in the cache, and without waiting for the others. NULL: there are none. */
typedef struct ow_fan {
    int (*run)(void *context, size_t count, void (*task)(void *user, size_t index), void *user);
    void (*follow)(void *context, const unsigned char *finished, size_t count);
    void *context;
    int follows_long; /* whether what follows would be worth several threads by itself */
} ow_fan;

/* The same, but work that is too short for several threads, as what follows it is, stays on this one. */
static inline ow_fan ow_fan_for(const ow_fan *fan, int is_long) {
    ow_fan chosen = *fan;
    if (!is_long && !fan->follows_long)
        chosen.run = NULL;
    return chosen;
}

/* Types and known shapes of the operands (type 0: there is none) against the op's rules. *dtype: the output's type.
 * dims, which may be NULL, gets its shape as far as it is known, *rank dimensions or -1. ORTWIN_UNSUPPORTED for a type
 * or an attribute, ORTWIN_BAD_SHAPE for a shape. */
typedef ortwin_status ow_whole_check_fn(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS],
                                        int32_t *dtype, int32_t *rank, int64_t *dims, ortwin_error *error);
/* The rank of the output from the ranks of the operands alone, -1 if unknown. */
typedef int32_t ow_whole_rank_fn(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]);
/* Of a claimed product: are its inner dimensions known to be equal, or has each Run to look? */
typedef enum ow_inner { OW_NO_INNER, OW_INNER_EQUAL, OW_INNER_AT_RUN } ow_inner;
typedef ow_inner ow_whole_inner_fn(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]);
/* The rules about elements of operands, of which those that are known are given: asked with the constants when a node
 * is claimed, and with all before it runs. ORTWIN_BAD_VALUE. */
typedef ortwin_status ow_whole_inspect_fn(const ow_whole *node, const ortwin_tensor *const inputs[OW_WHOLE_INPUTS],
                                          ortwin_error *error);
/* The node's constants (NULL: an operand that is none, or that there is not) packed ahead; NULL where the op packs
 * nothing, or the pack was declined. *replaced: bit k is set when the pack stands for operand k, which is then not read
 * by runs with it. Shapes are known. */
typedef const ow_pack *ow_whole_pack_fn(const ow_kernels *kernels, const ow_whole *node,
                                        const ortwin_tensor *const constants[OW_WHOLE_INPUTS], uint32_t *replaced,
                                        ow_tally *tally);
/* Computes y, whose type and shape are those of the check. inputs: NULL for what there is not; those that the pack
 * replaces have a type and a shape, and perhaps no data. pack: NULL for none. Only products let anything follow. */
typedef ortwin_status ow_whole_run_fn(const ow_kernels *kernels, const ow_whole *node,
                                      const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], const ow_pack *pack,
                                      const ow_fan *fan, const ortwin_tensor *y, ortwin_error *error);

ow_whole_check_fn ow_whole_check;
ow_whole_rank_fn ow_whole_rank;
ow_whole_inspect_fn ow_whole_inspect;
/* The operands that inspection looks at, as bits; mostly none. */
uint32_t ow_whole_inspected(const ow_whole *node);
ow_whole_pack_fn ow_whole_pack;
ow_whole_run_fn ow_whole_run;
ow_whole_inner_fn ow_whole_inner;

#endif

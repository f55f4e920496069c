#include "run/whole.h"

#include "run/matmul.h"
#include "run/nbits.h"
#include "run/quantised.h"

typedef struct family {
    ow_whole_check_fn *check;
    ow_whole_rank_fn *rank;
    ow_whole_pack_fn *pack;
    ow_whole_run_fn *run;
    ow_whole_inner_fn *inner; /* NULL: of products there are none */
    uint32_t inspected;       /* operands, as bits */
    ow_whole_inspect_fn *inspect;
} family;

static const family *family_of(ow_kernel_id kernel) {
    static const family quantised = {
        ow_quantised_check, ow_quantised_rank, ow_quantised_pack, ow_quantised_run, ow_quantised_inner, 0, NULL};
    static const family nbits = {ow_nbits_check, ow_nbits_rank,         ow_nbits_pack,   ow_nbits_run,
                                 ow_nbits_inner, 1u << OW_NBITS_GROUPS, ow_nbits_inspect};
    static const family matmul = {
        ow_matmul_check, ow_matmul_rank, ow_matmul_pack, ow_matmul_run, ow_matmul_inner, 0, NULL};
    switch ((int)kernel) {
    case OW_KERNEL_matmul_nbits_level_0:
    case OW_KERNEL_matmul_nbits_level_4: return &nbits;
    case OW_KERNEL_matmul:
    case OW_KERNEL_gemm: return &matmul;
    default: return &quantised;
    }
}

ortwin_status ow_whole_check(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS], int32_t *dtype,
                             int32_t *rank, int64_t *dims, ortwin_error *error) {
    return family_of(node->kernel)->check(node, inputs, dtype, rank, dims, error);
}

int32_t ow_whole_rank(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    return family_of(node->kernel)->rank(node, inputs);
}

uint32_t ow_whole_inspected(const ow_whole *node) { return family_of(node->kernel)->inspected & node->operands; }

ortwin_status ow_whole_inspect(const ow_whole *node, const ortwin_tensor *const inputs[OW_WHOLE_INPUTS],
                               ortwin_error *error) {
    const family *f = family_of(node->kernel);
    return f->inspect ? f->inspect(node, inputs, error) : ORTWIN_OK;
}

const ow_pack *ow_whole_pack(const ow_kernels *kernels, const ow_whole *node,
                             const ortwin_tensor *const constants[OW_WHOLE_INPUTS], uint32_t *replaced,
                             ow_tally *tally) {
    *replaced = 0;
    return family_of(node->kernel)->pack(kernels, node, constants, replaced, tally);
}

ortwin_status ow_whole_run(const ow_kernels *kernels, const ow_whole *node,
                           const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], const ow_pack *pack, const ow_fan *fan,
                           const ortwin_tensor *y, ortwin_error *error) {
    return family_of(node->kernel)->run(kernels, node, inputs, pack, fan, y, error);
}

ow_inner ow_whole_inner(const ow_whole *node, const ortwin_operand inputs[OW_WHOLE_INPUTS]) {
    ow_whole_inner_fn *inner = family_of(node->kernel)->inner;
    return inner ? inner(node, inputs) : OW_NO_INNER;
}

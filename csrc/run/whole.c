#include "run/whole.h"

#include "run/quantised.h"

typedef struct family {
    ow_whole_check_fn *check;
    ow_whole_rank_fn *rank;
    ow_whole_pack_fn *pack;
    ow_whole_run_fn *run;
} family;

static const family *family_of(ow_kernel_id kernel) {
    static const family quantised = {ow_quantised_check, ow_quantised_rank, ow_quantised_pack, ow_quantised_run};
    switch ((int)kernel) {
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

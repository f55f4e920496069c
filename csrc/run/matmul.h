/* MatMul and Gemm as the plan sees them. */
#ifndef ORTWIN_RUN_MATMUL_H
#define ORTWIN_RUN_MATMUL_H

#include "run/whole.h"

ow_whole_check_fn ow_matmul_check;
ow_whole_rank_fn ow_matmul_rank;
ow_whole_pack_fn ow_matmul_pack;
ow_whole_run_fn ow_matmul_run;

#endif

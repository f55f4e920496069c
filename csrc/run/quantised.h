/* The quantised ops as the plan sees them: which operands they take, what comes out, and their execution as a whole. */
#ifndef ORTWIN_RUN_QUANTISED_H
#define ORTWIN_RUN_QUANTISED_H

#include "run/whole.h"

ow_whole_check_fn ow_quantised_check;
ow_whole_rank_fn ow_quantised_rank;
ow_whole_pack_fn ow_quantised_pack;
ow_whole_run_fn ow_quantised_run;

#endif

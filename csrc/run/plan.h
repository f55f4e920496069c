/* What the host shims ask of a plan besides the public interface. */
#ifndef ORTWIN_RUN_PLAN_H
#define ORTWIN_RUN_PLAN_H

#include "ortwin.h"

enum { OW_MAX_INPUTS = 3 }; /* of one node: the widest op of ops.def */

size_t ow_plan_input_count(const ortwin_plan *plan);

#endif

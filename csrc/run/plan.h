/* What the host shims ask of a plan besides the public interface. */
#ifndef ORTWIN_RUN_PLAN_H
#define ORTWIN_RUN_PLAN_H

#include "ortwin.h"
#include "run/counters.h"
#include "run/trace.h"

enum {
    OW_MAX_INPUTS = 8, /* of one node: the widest op of ops.def */
    OW_MAX_OUTPUTS = 3,
    OW_STACKED_RANK = 8, /* a shape of this rank or less finds room in the frame */
};

typedef struct ow_frame ow_frame;

size_t ow_plan_input_count(const ortwin_plan *plan);
/* Makes the plan part of a session's trace (NULL: of none). */
void ow_plan_share_trace(ortwin_plan *plan, ow_trace *trace);

/* One Run in three steps, without copying what it is given: enter, fill in the inputs, execute, leave. A frame belongs
 * to one call at a time. NULL when there is no memory. */
ow_frame *ow_plan_enter(const ortwin_plan *plan);
ortwin_tensor *ow_frame_inputs(ow_frame *frame);
/* Room for a shape of input k; NULL when there is no memory. */
int64_t *ow_frame_dims(ow_frame *frame, size_t k, size_t rank);
ow_tally *ow_frame_tally(ow_frame *frame);
/* pool: the host's threads, NULL for the library's own. */
ortwin_status ow_plan_execute(ow_frame *frame, const ortwin_host *pool, ortwin_output_fn output, void *user,
                              ortwin_error *error);
void ow_plan_leave(ow_frame *frame);

#endif

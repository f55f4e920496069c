/* The library's own threads, for callers that bring none. */
#ifndef ORTWIN_RUN_POOL_H
#define ORTWIN_RUN_POOL_H

#include "run/counters.h"
#include "run/fanout.h"

/* Has the job's tasks drawn by the calling thread and up to threads - 1 others (threads 0: as many as there are CPUs to
 * use), and returns when all have ended. The threads are made by the first call that needs them. False when there are
 * none to be had, and nothing was run. */
int ow_pool_run(int32_t threads, ow_job *job, ow_tally *tally);

#endif

/* Counters: how tests see that a mechanism ran. A Run tallies in its own frame (so in its own thread, without
 * sharing) and adds the tally to the process totals once, at its end. */
#ifndef ORTWIN_RUN_COUNTERS_H
#define ORTWIN_RUN_COUNTERS_H

#include <stdint.h>

/* clang-format off */
#define OW_COUNTERS(C) \
    C(runs)             /* plan runs that ended well */ \
    C(nodes_executed)   /* nodes executed by them */ \
    C(splits)           /* nodes, or other work, cut for several threads */ \
    C(pieces)           /* the pieces of them */ \
    C(pieces_elsewhere) /* those of them that ran on another thread than the caller's */ \
    C(own_pool_fanouts) /* splits offered to the library's own threads */ \
    C(host_dispatches)  /* splits offered to a host's pool */ \
    C(refusals)         /* those of them that the host refused */ \
    C(probes)           /* empty dispatches that ask whether a host's pool has other threads */ \
    C(latches)          /* sessions that learned that it has */ \
    C(pools_built)      /* times the library made its first thread: once, and once per forked child */ \
    C(threads_created)  /* threads it made */
/* clang-format on */

typedef struct ow_tally {
#define C(name) uint64_t name;
    OW_COUNTERS(C)
#undef C
} ow_tally;

void ow_flush(const ow_tally *tally);

#endif

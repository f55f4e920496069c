/* Counters: how tests see that a mechanism ran. A Run tallies in its own frame (so in its own thread, without
 * sharing) and adds the tally to the process totals once, at its end. */
#ifndef ORTWIN_RUN_COUNTERS_H
#define ORTWIN_RUN_COUNTERS_H

#include <stdint.h>

/* clang-format off */
#define OW_COUNTERS(C) \
    C(runs)            /* plan runs that ended well */ \
    C(nodes_executed)  /* nodes executed by them */
/* clang-format on */

typedef struct ow_tally {
#define C(name) uint64_t name;
    OW_COUNTERS(C)
#undef C
} ow_tally;

void ow_flush(const ow_tally *tally);

#endif

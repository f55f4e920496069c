/* Counters without sharing: whoever works alone (a Run in its frame, a plan under construction) counts in a tally of its
 * own, with plain loads and stores; reading adds up the tallies of all that are alive and what the others left. */
#ifndef ORTWIN_RUN_COUNTERS_H
#define ORTWIN_RUN_COUNTERS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ow_counter {
#define C(name) OW_##name,
#include "counters.def"
#undef C
    OW_COUNTERS
} ow_counter;

typedef struct ow_tally {
    struct ow_tally *next, **link; /* among the tallies that are alive */
    int shared;                    /* several threads count here at once */
    _Atomic uint64_t counts[OW_COUNTERS];
} ow_tally;

/* Starts a tally (all zero) and makes it part of the totals; ends it, leaving its counts in the totals. */
void ow_tally_open(ow_tally *tally, int shared);
void ow_tally_close(ow_tally *tally);

/* For a fork, which must find nobody opening, closing or reading. */
void ow_lock_counters(void);
void ow_unlock_counters(void);

/* Relaxed: totals order nothing. Atomic at all only because a reader may look at any time. */
static inline void ow_count(ow_tally *tally, ow_counter which, uint64_t n) {
    _Atomic uint64_t *count = &tally->counts[which];
    if (tally->shared)
        atomic_fetch_add_explicit(count, n, memory_order_relaxed);
    else
        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Memory, counted in the phase it is for; zeroed; free() gives it back. NULL when there is none, or no such size. */
void *ow_alloc(ow_tally *tally, ow_counter phase, size_t count, size_t size);
/* Room for one more entry of an array, counted as above; NULL when there is no memory, with the array untouched. */
void *ow_grown(ow_tally *tally, ow_counter phase, void *array, size_t count, size_t *room, size_t size);

#endif

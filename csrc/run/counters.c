#include "run/counters.h"

#include "ortwin.h"

#include <stdatomic.h>

/* The library's only mutable globals. Relaxed: totals order nothing. */
static struct {
#define C(name) _Atomic uint64_t name;
    OW_COUNTERS(C)
#undef C
} totals;

void ow_flush(const ow_tally *tally) {
#define C(name)      \
    if (tally->name) \
        atomic_fetch_add_explicit(&totals.name, tally->name, memory_order_relaxed);
    OW_COUNTERS(C)
#undef C
}

int ortwin_counter(size_t index, const char **name, uint64_t *value) {
    static const struct {
        const char *name;
        _Atomic uint64_t *total;
    } all[] = {
#define C(name) {#name, &totals.name},
        OW_COUNTERS(C)
#undef C
    };
    if (index >= sizeof all / sizeof all[0] || !name || !value)
        return 0;
    *name = all[index].name;
    *value = atomic_load_explicit(all[index].total, memory_order_relaxed);
    return 1;
}

#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include "run/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

ow_trace *ow_trace_new(void) {
    const char *asked = getenv("ORTWIN_TRACE");
    return asked && strcmp(asked, "1") == 0 ? calloc(1, sizeof(ow_trace)) : NULL;
}

uint64_t ow_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ow_trace_add(ow_trace *trace, ow_phase phase, uint64_t begin) {
    atomic_fetch_add_explicit(&trace->nanoseconds[phase], ow_clock() - begin, memory_order_relaxed);
    atomic_fetch_add_explicit(&trace->times[phase], 1, memory_order_relaxed);
}

void ow_trace_end(ow_trace *trace, const char *of) {
    static const char *const names[] = {
#define P(name) #name,
        OW_PHASES(P)
#undef P
    };
    if (!trace)
        return;
    char table[1024];
    int at = snprintf(table, sizeof table, "ortwin trace of %.64s\n%-10s%12s%14s%14s\n", of, "phase", "times",
                      "total us", "mean us"),
        empty = 1;
    for (size_t k = 0; k < OW_PHASE_COUNT && at > 0 && (size_t)at < sizeof table; k++) {
        double total = (double)trace->nanoseconds[k] / 1e3;
        uint64_t times = trace->times[k];
        empty &= times == 0;
        if (times)
            at += snprintf(table + at, sizeof table - (size_t)at, "%-10s%12llu%14.1f%14.3f\n", names[k],
                           (unsigned long long)times, total, total / (double)times);
    }
    if (!empty)
        fputs(table, stderr); /* in one piece, so that tables of several threads do not mix */
    free(trace);
}

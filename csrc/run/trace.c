#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include "run/trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Traces that have not ended: sessions may outlive the program that made them. */
static struct {
    pthread_mutex_t mutex;
    ow_trace *first;
} living = {.mutex = PTHREAD_MUTEX_INITIALIZER};

ow_trace *ow_trace_new(const char *of) {
    const char *asked = getenv("ORTWIN_TRACE");
    ow_trace *trace = asked && strcmp(asked, "1") == 0 ? calloc(1, sizeof *trace) : NULL;
    if (!trace)
        return NULL;
    snprintf(trace->of, sizeof trace->of, "%s", of);
    pthread_mutex_lock(&living.mutex);
    trace->next = living.first;
    living.first = trace;
    pthread_mutex_unlock(&living.mutex);
    return trace;
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

static void tell(const ow_trace *trace, const char *when) {
    static const char *const names[] = {
#define P(name) #name,
        OW_PHASES(P)
#undef P
    };
    char table[1024];
    int at = snprintf(table, sizeof table, "ortwin trace of %s%s\n%-10s%12s%14s%14s\n", trace->of, when, "phase",
                      "times", "total us", "mean us"),
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
}

void ow_trace_end(ow_trace *trace) {
    if (!trace)
        return;
    pthread_mutex_lock(&living.mutex);
    ow_trace **at = &living.first;
    while (*at != trace)
        at = &(*at)->next;
    *at = trace->next;
    pthread_mutex_unlock(&living.mutex);
    tell(trace, "");
    free(trace);
}

/* At the end of the process, while other threads may still be running the sessions: nothing is freed. A mutex that
 * somebody holds may be held for good, by a thread that a fork left behind. */
__attribute__((destructor)) static void tell_of_the_living(void) {
    if (pthread_mutex_trylock(&living.mutex) != 0)
        return;
    for (const ow_trace *trace = living.first; trace; trace = trace->next)
        tell(trace, ", alive at exit");
    pthread_mutex_unlock(&living.mutex);
}

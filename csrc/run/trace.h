/* ORTWIN_TRACE=1: where the time of a session goes, told on standard error when the session ends, or the process if it is
 * first. Off, a phase costs one test of a pointer. */
#ifndef ORTWIN_RUN_TRACE_H
#define ORTWIN_RUN_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

/* clang-format off */
#define OW_PHASES(P) \
    P(claim)     /* GetCapability */ \
    P(build)     /* a plan: Compile, constants folded */ \
    P(inputs)    /* reading what the host gives a Run */ \
    P(shapes)    /* finding or computing the signature */ \
    P(outputs)   /* asking the host for buffers */ \
    P(kernels)   /* executing nodes */ \
    P(run)       /* all of a Run: the four above, and what lies between */
/* clang-format on */

typedef enum ow_phase {
#define P(name) OW_PHASE_##name,
    OW_PHASES(P)
#undef P
        OW_PHASE_COUNT
} ow_phase;

typedef struct ow_trace {
    _Atomic uint64_t nanoseconds[OW_PHASE_COUNT], times[OW_PHASE_COUNT];
    char of[64];
    struct ow_trace *next; /* of those that have not ended */
} ow_trace;

/* of: what it is a trace of. NULL unless the environment asks for a trace (and there is memory for it). */
ow_trace *ow_trace_new(const char *of);
/* Prints the table, if anything happened, and frees the trace; NULL is allowed. */
void ow_trace_end(ow_trace *trace);
uint64_t ow_clock(void);
void ow_trace_add(ow_trace *trace, ow_phase phase, uint64_t begin);

static inline uint64_t ow_begin(const ow_trace *trace) { return trace ? ow_clock() : 0; }
static inline void ow_end(ow_trace *trace, ow_phase phase, uint64_t begin) {
    if (trace)
        ow_trace_add(trace, phase, begin);
}

#endif

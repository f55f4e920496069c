/* C4: the floating-point control state of a thread while kernels run. Round to nearest even, subnormals kept, no
 * traps; saved and set when work starts on a thread, restored, exception flags included, when it ends. */
#ifndef ORTWIN_RUN_FPSTATE_H
#define ORTWIN_RUN_FPSTATE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>

typedef unsigned ow_fpstate;

static inline ow_fpstate ow_fpstate_enter(void) {
    unsigned saved = _mm_getcsr();
    _mm_setcsr(0x1f80); /* MXCSR at reset: every exception masked, RC = nearest, no FTZ, no DAZ */
    return saved;
}
static inline void ow_fpstate_leave(ow_fpstate saved) { _mm_setcsr(saved); }

#elif defined(__aarch64__)

typedef struct ow_fpstate {
    uint64_t control, flags;
} ow_fpstate;

static inline ow_fpstate ow_fpstate_enter(void) {
    ow_fpstate saved;
    uint64_t none = 0; /* FPCR: RMode = nearest, FZ = FZ16 = 0, traps off, AH = FIZ = 0 */
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(saved.control), "=r"(saved.flags));
    __asm__ volatile("msr fpcr, %0" ::"r"(none) : "memory");
    return saved;
}
static inline void ow_fpstate_leave(ow_fpstate saved) {
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" ::"r"(saved.control), "r"(saved.flags) : "memory");
}

#else
#error "ortwin knows the floating-point control state of x86-64 and aarch64 only"
#endif

#endif

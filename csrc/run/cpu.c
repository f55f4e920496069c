#include "run/cpu.h"

#include "run/ops.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* One feature: a bit of a CPUID leaf (Intel SDM vol. 2A, CPUID) and what to say where it is 0. */
typedef struct feature {
    unsigned leaf, reg, bit; /* reg: 1 EBX, 2 ECX */
    const char *lack;
} feature;

static const feature avx2_features[] = {{1, 2, 28, "this CPU lacks AVX"},
                                        {1, 2, 12, "this CPU lacks FMA"},
                                        {1, 2, 29, "this CPU lacks F16C"},
                                        {7, 1, 5, "this CPU lacks AVX2"}};
static const feature avx512_features[] = {{7, 1, 16, "this CPU lacks AVX512F"},
                                          {7, 1, 17, "this CPU lacks AVX512DQ"},
                                          {7, 1, 30, "this CPU lacks AVX512BW"},
                                          {7, 1, 31, "this CPU lacks AVX512VL"},
                                          {7, 2, 11, "this CPU lacks AVX512_VNNI"}};

/* The register state the operating system saves on a context switch (XCR0); 0 without OSXSAVE. */
static unsigned saved_state(void) {
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27)))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static const char *lack(const feature *list, size_t count) {
    for (size_t k = 0; k < count; k++) {
        unsigned regs[4] = {0, 0, 0, 0};
        if (!__get_cpuid_count(list[k].leaf, 0, &regs[0], &regs[1], &regs[2], &regs[3]) ||
            !(regs[list[k].reg] & (1u << list[k].bit)))
            return list[k].lack;
    }
    return NULL;
}

enum { STATE_AVX = 0x6, STATE_AVX512 = 0xe6 }; /* XMM, YMM; and opmask, ZMM */

static const char *why_not_avx2(void) {
    const char *why = lack(avx2_features, sizeof avx2_features / sizeof avx2_features[0]);
    if (!why && (saved_state() & STATE_AVX) != STATE_AVX)
        why = "the operating system does not save AVX state";
    return why;
}

static const char *why_not_avx512(void) {
    const char *why = why_not_avx2(); /* the kernels use AVX2 instructions too */
    if (!why)
        why = lack(avx512_features, sizeof avx512_features / sizeof avx512_features[0]);
    if (!why && (saved_state() & STATE_AVX512) != STATE_AVX512)
        why = "the operating system does not save AVX-512 state";
    return why;
}
#else
static const char *why_not_avx2(void) { return "this is not an x86-64 CPU"; }
static const char *why_not_avx512(void) { return "this is not an x86-64 CPU"; }
#endif

static const char *why_not_portable(void) { return NULL; }

/* Widest first. */
static const struct rung {
    ow_isa isa;
    const char *(*why_not)(void);
} ladder[] = {
#if defined(__x86_64__)
    {{"avx512", &ow_kernels_avx512}, why_not_avx512},
    {{"avx2", &ow_kernels_avx2}, why_not_avx2},
#else
    {{"avx512", NULL}, why_not_avx512},
    {{"avx2", NULL}, why_not_avx2},
#endif
    {{"portable", &ow_kernels_portable}, why_not_portable},
};
enum { RUNGS = sizeof ladder / sizeof ladder[0] };

int ortwin_isa(size_t index, const char **name, const char **why) {
    if (index >= RUNGS || !name || !why)
        return 0;
    *name = ladder[index].isa.name;
    *why = ladder[index].why_not();
    return 1;
}

ortwin_status ow_choose_isa(const char *name, const ow_isa **isa, ortwin_error *error) {
    const char *source = "";
    if (!name || !*name) {
        name = getenv("ORTWIN_ISA");
        source = " (from ORTWIN_ISA)";
    }
    int any = !name || !*name;
    for (size_t k = 0; k < RUNGS; k++) {
        if (!any && strcmp(ladder[k].isa.name, name) != 0)
            continue;
        const char *why = ladder[k].why_not();
        if (why && !any)
            return ow_fail(error, ORTWIN_ISA_UNAVAILABLE, "isa %.64s%s is not available: %s", name, source, why);
        if (why)
            continue;
        *isa = &ladder[k].isa;
        return ORTWIN_OK;
    }
    return ow_fail(error, ORTWIN_ISA_UNAVAILABLE, "isa '%.64s'%s is unknown: choose avx512, avx2 or portable", name,
                   source);
}

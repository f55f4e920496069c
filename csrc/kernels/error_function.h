/* The error function. Constants: error_function_tables.h, made by fit/error_function.py. */
#include "kernels/error_function_tables.h"

static const ow_segments erf_segments = SEGMENTS(ERF_SEGMENTS);

/* erf |x| by 25 segments: v = |x| + 1/2, whose octave and first three mantissa bits name the segment; c0 + t q(t),
 * t = |x| - centre, at a centre where erf is within 0.002 ulp of c0. Below 1/8 the term that stands alone is |x|
 * itself, which also keeps it monotone. From 3.92 on the value rounds to 1. Error: 0.639 ulp; monotone, odd, within
 * [-1, 1]. */
UNARY(erf) {
    UNUSED_ATTRIBUTES;
    vf a = vf_clamp_abs(x, vf_set(3.9375f)), v = vf_add(a, vf_set(0.5f));
    vi slot = vi_shift_right(vi_bits(v), 20);
    vf_segment s = vf_segment_of(&erf_segments, slot);
    vf t = vf_sub(a, s.centre);
    vf c0 = vf_pick(vf_gt(vf_set(0.625f), v), a, s.c0);
    return or_nan(vf_copysign(vf_fma(t, slope_5(s, t), c0), x), x, x);
}

/* Smooth forms of Relu: Gelu with approximate=none, Softplus, Mish. Constants: smooth_tables.h, made by fit/smooth.py.
 *
 * With a = |x| each is base + e^-s F(a) or base + x e^-s F(a), F by segments: c0 + t q(t), t = a - centre. base is 0, x
 * or x / 2, chosen so that what is added to it is small or steady. The power comes 2^64 times too large, so that only
 * the last fma rounds a result that is subnormal.
 *
 * Domain: all inputs. Errors are the largest found: over all inputs between 2^-32 and 2^8 in magnitude and one in 61 of
 * the others. "Monotone" was checked on every input. */
#include "kernels/smooth_tables.h"

static const ow_segments gelu_segments = SEGMENTS(GELU_SEGMENTS);
static const ow_segments softplus_segments = SEGMENTS(SOFTPLUS_SEGMENTS);
static const ow_segments mish_segments = SEGMENTS(MISH_SEGMENTS);

/* (1 + p)(c0 + t q) - c0. */
static inline vf with_power(vf_segment s, vf t, vf q, vf p) { return vf_fma(t, vf_fma(q, p, q), vf_mul(s.c0, p)); }

/* x Phi(x), Phi the normal distribution's: s = a^2 / 2, carried as s + s_low. For a < 1/2 base is x / 2, F is
 * -a (Phi(a) - 1/2) e^s; else base is max(x, -0), F is -a Phi(-a) e^s. From 14.5 on the result is the base, and the
 * power is 0 lest it underflow, which is slow. Error: 0.934 ulp. */
UNARY(gelu) {
    UNUSED_ATTRIBUTES;
    const vf half = vf_set(0.5f), end = vf_set(14.5f);
    vf a = vf_clamp_abs(x, end), v = vf_add(a, vf_set(1.0f)), h = vf_mul(a, vf_set(-0.5f));
    vf s = vf_mul(a, h), s_low = vf_fma(a, h, vf_neg(s)); /* -a^2 / 2 */
    exp_parts e = exp_split(s, vf_mul(s_low, vf_set(LOG2E_HI)));
    vf_segment f = vf_segment_of(&gelu_segments, vi_shift_right(vi_bits(v), 20));
    vf t = vf_sub(a, f.centre), w = with_power(f, t, slope_5(f, t), e.p);
    vf scale = vf_pick(vf_gt(end, a), e.scale, vf_set(0.0f));
    w = vf_fma(scale, f.c0, vf_mul(scale, w));
    vf base = vf_pick(vf_gt(vf_set(1.5f), v), vf_mul(x, half), vf_max(x, vf_set(-0.0f)));
    return around_minimum(gelu_valley, vf_set(gelu_valley[1]), x, or_nan(vf_fma(w, vf_set(-0x1p-64f), base), x, x));
}

/* log(1 + e^x) = max(x, 0) + e^-a F(a), F(a) = log(1 + e^-a) e^a, v = 1 + 3 a / 4; from a = 18.7 on F is 1. For a < 1/6
 * it is x / 2 + log(2 cosh(a / 2)), whose second part is flat: no rounding of it can outweigh a step of x, which keeps
 * it monotone. The sum is taken in two steps, above 0.4375 with x last, below it first: what is rounded twice is at most
 * half of the result. Error: 0.800 ulp; monotone. */
UNARY(softplus) {
    UNUSED_ATTRIBUTES;
    const vf one = vf_set(1.0f), zero = vf_set(0.0f);
    vf a = vf_clamp_abs(x, vf_set(104.5f)), v = vf_min(vf_fma(a, vf_set(0.75f), one), vf_set(15.5f));
    vm near = vf_gt(vf_set(1.125f), v), large = vf_gt(x, vf_set(0.4375f));
    exp_parts e = exp_split(vf_pick(near, zero, vf_neg(a)), vf_set(-0.0f));
    vf_segment f = vf_segment_of(&softplus_segments, vi_shift_right(vi_bits(v), 20));
    vf t = vf_sub(a, f.centre), w = with_power(f, t, slope_4(f, t), e.p);
    vf first = vf_mul(vf_pick(large, zero, vf_max(x, zero)), vf_set(0x1p64f)), last = vf_pick(large, x, zero);
    first = vf_pick(near, vf_mul(x, vf_set(0x1p63f)), first);
    w = vf_fma(e.scale, f.c0, vf_fma(e.scale, w, first));
    return or_nan(vf_fma(w, vf_set(0x1p-64f), last), x, x);
}

/* x tanh(log(1 + e^x)) = base + x e^-a F(a), base = x / 2 for -2/3 < x < 5/24. F by 16 segments for each sign, named by
 * v = 1 + 3 a / 4, for x > 0 by 16 (1 + 1.2 a). x e^-a is carried as s + s_low, to begin with without 1 + p. Error:
 * 0.940 ulp. */
UNARY(mish) {
    UNUSED_ATTRIBUTES;
    const vf zero = vf_set(0.0f), end = vf_set(112.0f);
    vf a = vf_clamp_abs(x, end), c = vf_clamp(x, end);
    exp_parts e = exp_split(vf_neg(a), vf_set(-0.0f));
    vf s = vf_mul(e.scale, c), s_low = vf_fma(e.scale, c, vf_neg(s));
    vm above = vf_gt(x, zero);
    vf v = vf_min(vf_fma(a, vf_set(0.75f), vf_set(1.0f)), vf_set(15.5f));
    v = vf_pick(above, vf_min(vf_fma(v, vf_set(MISH_STRETCH), vf_set(MISH_SHIFT)), vf_set(248.0f)), v);
    vf_segment f = vf_segment_of(&mish_segments, vi_shift_right(vi_bits(v), 21));
    vf t = vf_sub(a, f.centre), w = with_power(f, t, slope_6(f, t), e.p);
    w = vf_fma(s, f.c0, vf_fma(s, w, vf_mul(s_low, f.c0)));
    vm middle = vf_gt(vf_pick(above, vf_set(20.0f), vf_set(1.5f)), v);
    /* x / 2 is added while it is 2^64 times too large: by itself it may be inexact. */
    vf first = vf_pick(middle, vf_mul(x, vf_set(0x1p63f)), zero), last = vf_pick(middle, zero, vf_max(x, zero));
    vf y = or_nan(vf_copysign(vf_fma(vf_add(w, first), vf_set(0x1p-64f), last), x), x, x);
    return around_minimum(mish_valley, vf_set(mish_valley[1]), x, y);
}

/* The exponential family: Exp, Tanh, Sigmoid, Elu, Selu, Celu, Swish, QuickGelu, Gelu with approximate=tanh,
 * FastGelu. Constants: exponential_tables.h, made by fit/exponential.py.
 *
 * Domain: all inputs. Errors are the largest found: over all inputs for Exp; for Sigmoid, Swish and the Gelus over all
 * between 2^-32 and 2^8 in magnitude and one in 61 of the others; over one in 61 for Tanh, in 31 for Elu, Selu, Celu.
 * "Monotone" was checked on every input for Exp and Sigmoid, for the others on every one between 2^-19 and 2^9 in
 * magnitude, for Celu on that sample. */
#include "kernels/exponential_tables.h"

/* A power of e as 2^floor(n) t (1 + p): n a multiple of 1/16, t = 2^(n - floor(n)) rounded, |p| <= 1/45. scale is
 * 2^64 2^floor(n) t where -190 <= n < 63: normal for any power that is not far below the subnormals. */
typedef struct exp_parts {
    vf n, t, p, scale;
} exp_parts;

/* e^x 2^low, |x| <= 200. Adding 1.5 * 2^19, whose last place is 1/16, rounds x log2(e) to n and leaves its sixteenths in
 * the low bits; the 64 added with it are the scale's. f = x log2(e) + low - n; p is 2^f - 1 and what the rounding of t
 * took, in an order that keeps it monotone (fit/exponential.py). Where x and low are 0, so is p. */
static inline exp_parts exp_split(vf x, vf low) {
    const vf magic = vf_set(0x1.8p19f + 64.0f), log2e = vf_set(LOG2E_HI);
    vf m = vf_fma(x, log2e, magic), n = vf_sub(m, magic);
    vf f = vf_add(vf_fma(x, vf_set(LOG2E_LO), vf_fma(x, log2e, vf_neg(n))), low);
    vi sixteenths = vi_bits(m);
    vf t = vf_entry_16(exp_t, sixteenths);
    vf p = vf_fma(vf_mul(f, f), vf_fma(f, vf_set(EXP_C3), vf_set(EXP_C2)), vf_entry_16(exp_p0, sixteenths));
    return (exp_parts){n, t, vf_fma(f, vf_set(EXP_C1), p), vf_add_exponent(t, vi_shift_right(sixteenths, 4))};
}

/* e^x. Below -104 it rounds to 0, above 104 to infinity. Error: 0.768 ulp, 0.56 where the
 * result is normal; monotone. */
UNARY(exp) {
    UNUSED_ATTRIBUTES;
    exp_parts e = exp_split(vf_clamp(x, vf_set(104.0f)), vf_set(-0.0f));
    return or_nan(vf_scale(vf_fma(e.t, e.p, e.t), e.n), x, x);
}

static const ow_segments tanh_segments = SEGMENTS(TANH_SEGMENTS);
static const ow_segments expm1_segments = SEGMENTS(EXPM1_SEGMENTS);
static const ow_segments sigmoid_segments = SEGMENTS(SIGMOID_SEGMENTS);

/* tanh |x| by 32 segments: v = 1.86328125 |x| + 1.125, whose octave and first three mantissa bits name the segment.
 * Beyond 9.03 the value rounds to 1. In the first segment, |x| < 0.067, the term that stands alone is |x| itself.
 * Error: 0.855 ulp; monotone, odd, within [-1, 1]. */
UNARY(tanh) {
    UNUSED_ATTRIBUTES;
    vf u = vf_clamp_abs(x, vf_set(9.03125f));
    vi i = vi_shift_right(vi_bits(vf_fma(u, vf_set(0x1.ddp0f), vf_set(1.125f))), 20);
    vf_segment s = vf_segment_of(&tanh_segments, i);
    vf t = vf_sub(u, s.centre), head = vf_max(s.c0, vf_min(u, vf_set(0.0703125f)));
    return or_nan(vf_copysign(vf_fma(t, slope_4(s, t), head), x), x, x);
}

/* expm1 of x <= 0 as head + tail, the same way with v = 1.375 - x; below -20.5 it is -1 for every purpose. */
typedef struct sum {
    vf head, tail;
} sum;

static inline sum expm1_negative(vf x) {
    vf u = vf_max(x, vf_set(-20.5f));
    vi i = vi_shift_right(vi_bits(vf_sub(vf_set(1.375f), u)), 20);
    vf_segment s = vf_segment_of(&expm1_segments, i);
    vf t = vf_sub(u, s.centre);
    return (sum){vf_min(s.c0, vf_max(u, vf_set(-0.25f))), vf_mul(t, slope_5(s, t))};
}

/* x >= 0 ? x : alpha (e^x - 1). Error with alpha = 1: 0.746 ulp; monotone. */
UNARY(elu) {
    (void)beta;
    sum e = expm1_negative(x);
    vf y = vf_fma(alpha, e.head, vf_mul(alpha, e.tail));
    y = vf_pick(vf_ge(x, vf_set(0.0f)), x, y);
    return or_nan(y, y, y);
}

/* gamma (x >= 0 ? x : alpha (e^x - 1)), alpha then gamma. gamma alpha is carried as g + low.
 * Error with the defaults: 0.772 ulp; monotone. */
UNARY(selu) {
    sum e = expm1_negative(x);
    vf g = vf_mul(alpha, beta), low = vf_fma(alpha, beta, vf_neg(g));
    vf y = vf_fma(g, e.head, vf_fma(low, e.head, vf_mul(g, e.tail)));
    y = vf_pick(vf_ge(x, vf_set(0.0f)), vf_mul(beta, x), y);
    return or_nan(y, y, y);
}

/* x >= 0 ? x : alpha (e^(x / alpha) - 1), alpha positive and finite. The quotient is carried as z + low. Where it is
 * so near 0 that the value rounds to x, it may have lost digits to underflow. Error with alpha = 1: 0.746 ulp;
 * monotone. */
UNARY(celu) {
    (void)beta;
    vf z = vf_div(x, alpha), low = vf_div(vf_fma(vf_neg(z), alpha, x), alpha);
    vm near = vf_ge(z, vf_set(-0x1p-30f)); /* and x >= 0 */
    z = vf_max(z, vf_set(-20.5f));
    low = vf_pick(vf_gt(z, vf_set(-20.5f)), low, vf_set(0.0f));
    sum e = expm1_negative(z);
    vf tail = vf_fma(low, vf_add(vf_set(1.0f), vf_add(e.head, e.tail)), e.tail); /* e^z low */
    vf y = vf_fma(alpha, e.head, vf_mul(alpha, tail));
    y = vf_pick(near, x, y);
    return or_nan(y, y, y);
}

/* 1 / (1 + e^u), u >= 0, by 32 segments of width 3/7; the table has its slope negated. The centres are such that
 * both c0 and 1 - c0 are good to a few hundredths of an ulp. */
static inline vf_segment sigmoid_segment(vf u) {
    return vf_segment_of(&sigmoid_segments, vi_bits(vf_fma(u, vf_set(0x1.2aaaaap1f), vf_set(0x1.8p23f))));
}
/* sigmoid at the centre, on the side of z. */
static inline vf sigmoid_head(vf_segment s, vf z) { return vf_pick(vm_sign(z), s.c0, vf_sub(vf_set(1.0f), s.c0)); }
#define SIGMOID_MIDDLE 13.5f

/* |x| > 13.5, or NaN: E - E^2 or 1 - E with E = e^-|x| <= 1.4e-6. Where E counts no more it is 0: a step that
 * underflows takes a hundred times as long as one that does not, and saturated inputs are common. */
static inline vf sigmoid_tail(vf x) {
    exp_parts e = exp_split(vf_neg(vf_clamp_abs(x, vf_set(104.0f))), vf_set(-0.0f));
    const vf one = vf_set(1.0f), unscale = vf_set(0x1p-64f);
    vf end = vf_pick(vm_sign(x), vf_set(104.0f), vf_set(20.0f));
    vf scale = vf_pick(vf_gt(end, vf_abs(x)), e.scale, vf_set(0.0f));
    vf E = vf_mul(vf_fma(scale, e.p, scale), unscale);
    vf p = vf_fma(vf_neg(E), vf_add(one, e.p), e.p); /* (1 + p)(1 - E) - 1 */
    vf y = vf_pick(vm_sign(x), vf_mul(vf_fma(scale, p, scale), unscale), vf_sub(one, E));
    return or_nan(y, x, x);
}

/* Error: 0.773 ulp; monotone, within [0, 1]. */
UNARY(sigmoid) {
    UNUSED_ATTRIBUTES;
    vf u = vf_abs(x);
    vf_segment s = sigmoid_segment(u);
    vf d = vf_sub(u, s.centre);
    vf y = vf_fma(vf_flip(d, x), slope_5(s, d), sigmoid_head(s, x));
    vm middle = vf_ge(vf_set(SIGMOID_MIDDLE), u);
    if (!vm_all(middle))
        y = vf_pick(middle, y, sigmoid_tail(x));
    return y;
}

/* x sigmoid(z + low) for |z| > 13.5, or where x or z is NaN; the limit at infinity is 0. Unless x matters only up to
 * 16 in magnitude (small), a huge x is taken 2^-64 times, since a small alpha can make up for it. No step underflows but
 * the last, and that only where the result is subnormal: E is no less than 2^-125, which is nothing beside 1 or p, and
 * what rounds to 0 is 0 before it is scaled. */
static inline vf gated_tail(vf x, vf z, vf low, int small) {
    const vf one = vf_set(1.0f), zero = vf_set(0.0f), end = vf_set(small ? 150.0f : 200.0f), u = vf_abs(z),
             a = vf_abs(x);
    low = vf_flip(low, z);
    if (!small)
        low = vf_pick(vf_gt(end, u), low, zero);
    exp_parts e = exp_split(vf_neg(vf_clamp_abs(z, end)), vf_mul(low, vf_set(-LOG2E_HI)));
    vf E = vf_scale(vf_fma(e.t, e.p, e.t), vf_max(e.n, vf_set(-125.0f)));
    vf p = vf_fma(vf_neg(E), vf_add(one, e.p), e.p);
    vf above = vf_pick(vf_gt(vf_set(104.0f), u), vf_fma(vf_neg(E), x, x), x);
    vf g = vf_clamp(x, vf_set(16.0f)), n = e.n;
    if (!small) {
        vm huge = vf_ge(a, vf_set(0x1p64f));
        g = vf_mul(x, vf_pick(huge, vf_set(0x1p-64f), one));
        n = vf_max(vf_add(n, vf_pick(huge, vf_set(64.0f), zero)), vf_set(-250.0f));
    }
    vf h = vf_mul(g, e.t), rest = vf_fma(h, p, vf_fma(g, e.t, vf_neg(h)));
    vf product = vf_add(h, rest),
       end_n = vf_pick(vf_gt(vf_set(0x1p9f), vf_abs(product)), vf_set(-160.0f), vf_set(-216.0f));
    vf below = vf_scale(vf_pick(vf_gt(end_n, n), vf_copysign(zero, x), product), n);
    if (!small)
        below = vf_pick(vf_ge(a, vf_from_bits(0x7f800000u)), vf_copysign(zero, x), below);
    return or_nan(vf_pick(vm_sign(z), below, above), x, z);
}

/* x sigmoid(z + low), z the larger part: x (g + g_low), so that all but the last rounding are small. */
static inline vf gated(vf x, vf z, vf low, int small) {
    vf u = vf_abs(z);
    vf_segment s = sigmoid_segment(u);
    vf d = vf_add(vf_sub(u, s.centre), vf_flip(low, z));
    vf head = sigmoid_head(s, z), tail = vf_flip(d, z), q = slope_5(s, d);
    vf g = vf_fma(tail, q, head), g_low = vf_fma(tail, q, vf_sub(head, g)); /* the difference is exact */
    vf y = vf_copysign(vf_fma(x, g, vf_mul(x, g_low)), x);
    vm middle = vf_ge(vf_set(SIGMOID_MIDDLE), u);
    if (!vm_all(middle))
        y = vf_pick(middle, y, gated_tail(x, z, low, small));
    return y;
}

/* x sigmoid(alpha x): Swish, QuickGelu. Error: 0.767 ulp with alpha = 1, 0.838 with 1.702. */
UNARY(swish) {
    (void)beta;
    int quick = vm_all(vf_ge(alpha, vf_set(QUICK_ALPHA)));
    const float *valley = quick ? quick_valley : swish_valley;
    vf usual = vf_set(quick ? QUICK_ALPHA : 1.0f), radius2 = vf_set(valley[1]), none = vf_set(0.0f);
    radius2 = vf_pick(vf_ge(alpha, usual), vf_pick(vf_ge(usual, alpha), radius2, none), none);
    vf z = vf_mul(alpha, x);
    return around_minimum(valley, radius2, x, gated(x, z, vf_fma(alpha, x, vf_neg(z)), 0));
}

/* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 = x sigmoid(x (a + b x^2)). The argument is carried as two
 * numbers, since an error of it is a relative error of the result. At |x| >= 16 the result is x or -0.0. Error:
 * 0.857 ulp. */
UNARY(gelu_tanh) {
    UNUSED_ATTRIBUTES;
    const vf a = vf_set(GELU_A_HI), b = vf_set(GELU_B_HI);
    vf c = vf_clamp(x, vf_set(16.0f));
    vf s = vf_mul(c, c), s_low = vf_fma(c, c, vf_neg(s));
    vf w = vf_fma(b, s, a), w_low = vf_fma(b, s, vf_sub(a, w)); /* the difference is exact */
    w_low = vf_add(w_low, vf_fma(vf_set(GELU_B_LO), s, vf_fma(b, s_low, vf_set(GELU_A_LO))));
    vf z = vf_mul(c, w);
    vf y = gated(x, z, vf_fma(c, w_low, vf_fma(c, w, vf_neg(z))), 1);
    return around_minimum(gelu_tanh_valley, vf_set(gelu_tanh_valley[1]), x, y);
}

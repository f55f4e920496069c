/* Exact unary ops on binary32. One definition per op, written in the vocabulary of simd/ and compiled once for each
 * instruction set. Every step is one correctly rounded operation (C2); every NaN result is the canonical one (C3).
 *
 * Errors: one rounding, so at most 0.5 ulp, unless the op says otherwise. Domain: all 2^32 inputs. */

#define UNARY(name) static inline vf name##_lanes(vf x, vf alpha, vf beta)

/* C3: y, or the canonical quiet NaN where a or b is NaN. */
static inline vf or_nan(vf y, vf a, vf b) { return vf_pick(vf_unordered(a, b), vf_from_bits(0x7fc00000u), y); }

#define UNUSED_ATTRIBUTES (void)alpha, (void)beta

/* c1 + t (c2 + t (c3 + ...)): the function at centre + t is c0 + t times this. */
static inline vf slope_4(vf_segment s, vf t) { return vf_fma(t, vf_fma(t, vf_fma(t, s.c4, s.c3), s.c2), s.c1); }
static inline vf slope_5(vf_segment s, vf t) {
    return vf_fma(t, vf_fma(t, vf_fma(t, vf_fma(t, s.c5, s.c4), s.c3), s.c2), s.c1);
}
static inline vf slope_6(vf_segment s, vf t) {
    return vf_fma(t, vf_fma(t, vf_fma(t, vf_fma(t, vf_fma(t, s.c6, s.c5), s.c4), s.c3), s.c2), s.c1);
}

/* y, but with d = x - t, where d^2 < radius2, m + (r + d^2 (c2 + d (c3 + ...))); v holds t, radius2, m, r, c2 to c6.
 * Around a minimum a step of x moves the result by far less than its last place, so the rounding errors of another way
 * there show as results that run against the function. Here each step is monotone: d is exact, and the relative step of
 * d^2 outweighs the errors of what it is multiplied with. */
static inline vf around_minimum(const float v[9], vf radius2, vf x, vf y) {
    vf d = vf_sub(x, vf_set(v[0])), s = vf_mul(d, d);
    if (vm_all(vf_ge(s, radius2)))
        return y;
    vf q = vf_fma(d, vf_fma(d, vf_fma(d, vf_set(v[8]), vf_set(v[7])), vf_set(v[6])), vf_set(v[5]));
    q = vf_fma(d, q, vf_set(v[4]));
    return vf_pick(vf_gt(radius2, s), vf_add(vf_set(v[2]), vf_fma(s, q, vf_set(v[3]))), y);
}

/* C10c: Relu(-0.0) is -0.0, x unless 0 > x. */
UNARY(relu) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_max(x, vf_set(0.0f)), x, x);
}

UNARY(leaky_relu) {
    (void)beta;
    vf y = vf_pick(vf_gt(vf_set(0.0f), x), vf_mul(alpha, x), x);
    return or_nan(y, y, y);
}

/* A comparison, not arithmetic: NaN is not above alpha, so it gives +0.0. */
UNARY(thresholded_relu) {
    (void)beta;
    return vf_pick(vf_gt(x, alpha), x, vf_set(0.0f));
}

/* max(0, min(1, alpha * x + beta)); equal operands return the first, so the result is never -0.0. */
UNARY(hard_sigmoid) {
    vf t = vf_fma(alpha, x, beta);
    return or_nan(vf_max(vf_set(0.0f), vf_min(vf_set(1.0f), t)), t, t);
}

/* x * max(0, min(1, x / 6 + 1/2)), that is x (x + 3) / 6 between -3 and 3. The product is carried as p + lo, exact to
 * about 48 bits; dividing by 6 is a multiplication by RN(1/6) and one step of the remainder. Error: 0.500001 ulp. */
UNARY(hard_swish) {
    UNUSED_ATTRIBUTES;
    const vf three = vf_set(3.0f), sixth = vf_set(0x1.555556p-3f); /* RN(1/6) */
    vf s = vf_add(x, three), e = vf_sub(x, vf_sub(s, three));      /* s + e = x + 3 */
    vf p = vf_mul(x, s), lo = vf_fma(x, e, vf_fma(x, s, vf_neg(p)));
    vf q = vf_mul(p, sixth), r = vf_fma(vf_set(-6.0f), q, p); /* r = p - 6 q */
    vf y = vf_copysign(vf_fma(vf_add(r, lo), sixth, q), x);
    y = vf_pick(vf_ge(x, three), x, y);
    y = vf_pick(vf_ge(vf_set(-3.0f), x), vf_set(-0.0f), y);
    return or_nan(y, x, x);
}

/* C10d: min(upper, max(x, lower)) with alpha = lower, beta = upper. A NaN bound makes both NaN (ow_params). */
UNARY(clip) { return or_nan(vf_min(beta, vf_max(x, alpha)), x, beta); }

UNARY(abs) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_abs(x), x, x);
}

UNARY(neg) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_neg(x), x, x);
}

UNARY(reciprocal) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_div(vf_set(1.0f), x), x, x);
}

UNARY(sqrt) {
    UNUSED_ATTRIBUTES;
    vf y = vf_sqrt(x);
    return or_nan(y, y, y);
}

UNARY(floor) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_floor(x), x, x);
}

UNARY(ceil) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_ceil(x), x, x);
}

UNARY(round) {
    UNUSED_ATTRIBUTES;
    return or_nan(vf_round_even(x), x, x);
}

/* C10c: Sign of either zero is +0.0. */
UNARY(sign) {
    UNUSED_ATTRIBUTES;
    vf zero = vf_set(0.0f);
    vf y = vf_pick(vf_gt(x, zero), vf_set(1.0f), zero);
    return or_nan(vf_pick(vf_gt(zero, x), vf_set(-1.0f), y), x, x);
}

/* x / (1 + |x|). The denominator is carried as s + e, exactly; the quotient y is corrected by its remainder. At
 * |x| >= 2^25 the value rounds to 1, and the clamp keeps 1/s normal and infinity finite. Error: 0.500001 ulp. */
UNARY(softsign) {
    UNUSED_ATTRIBUTES;
    const vf one = vf_set(1.0f);
    vf a = vf_min(vf_abs(x), vf_set(0x1p25f));
    vf large = vf_max(a, one), small = vf_min(a, one);
    vf s = vf_add(large, small), e = vf_sub(small, vf_sub(s, large)); /* s + e = 1 + a */
    vf inverse = vf_div(one, s), y = vf_mul(a, inverse);
    vf minus_y = vf_neg(y), r = vf_fma(minus_y, e, vf_fma(minus_y, s, a)); /* r = a - y (1 + a) */
    return or_nan(vf_copysign(vf_fma(r, inverse, y), x), x, x);
}

/* The vector vocabulary in plain C: a vector of one. The other files of this folder spell the same words with
 * intrinsics; each word does one IEEE 754 operation, so equal bits follow from equal words in equal order. */
#include <stdint.h>
#include <string.h>

#define WIDTH 1
#define UNROLL 1

typedef float vf;
typedef int vm; /* a truth value per lane */

static inline vf vf_load(const unsigned char *p) {
    float v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void vf_store(unsigned char *p, vf v) { memcpy(p, &v, sizeof v); }
/* Tails: n < WIDTH lanes, here never any. */
static inline vf vf_load_part(const unsigned char *p, size_t n) { return n ? vf_load(p) : 0.0f; }
static inline void vf_store_part(unsigned char *p, vf v, size_t n) {
    if (n)
        vf_store(p, v);
}

static inline vf vf_set(float v) { return v; }
static inline uint32_t vf_bits(vf v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static inline vf vf_from_bits(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_div(vf a, vf b) { return a / b; }
static inline vf vf_sqrt(vf a) { return __builtin_sqrtf(a); } /* -fno-math-errno: one instruction, no libm */

/* a * b + c rounded once. fmaf without an FMA target is a library call, so: the product is exact in binary64; the
 * sum is brought to round-to-odd with the error of TwoSum, after which rounding to binary32 is as if from the exact
 * value (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Comput. 57(4), 2008). */
static inline vf vf_fma(vf a, vf b, vf c) {
    double p = (double)a * (double)b, z = (double)c;
    double s = p + z, t = s - p, e = (p - (s - t)) + (z - t);
    uint64_t u;
    memcpy(&u, &s, sizeof u);
    if (e < 0 || e > 0) { /* inexact; e is NaN where s is not finite */
        if ((u & 1) == 0)
            u += (e > 0) == (s > 0) ? 1 : UINT64_MAX;
        memcpy(&s, &u, sizeof s);
    }
    return (float)s;
}

/* Quiet comparisons: false on NaN. */
static inline vm vf_gt(vf a, vf b) { return a > b; }
static inline vm vf_ge(vf a, vf b) { return a >= b; }
static inline vm vf_unordered(vf a, vf b) { return a != a || b != b; }
static inline vf vf_pick(vm m, vf a, vf b) { return m ? a : b; }
/* a unless b > a; a unless b < a. Equal operands, +0 and -0 too, and unordered ones give a. */
static inline vf vf_max(vf a, vf b) { return b > a ? b : a; }
static inline vf vf_min(vf a, vf b) { return b < a ? b : a; }

static inline vf vf_abs(vf a) { return vf_from_bits(vf_bits(a) & 0x7fffffffu); }
static inline vf vf_neg(vf a) { return vf_from_bits(vf_bits(a) ^ 0x80000000u); }
static inline vf vf_copysign(vf magnitude, vf sign) {
    return vf_from_bits((vf_bits(magnitude) & 0x7fffffffu) | (vf_bits(sign) & 0x80000000u));
}

/* To an integral value; at 2^23 and above every binary32 number is one. The sign of a zero result is that of a. */
static inline vf vf_round_even(vf a) {
    vf m = vf_abs(a), r = (m + 0x1p23f) - 0x1p23f;
    return vf_copysign(m < 0x1p23f ? r : m, a);
}
static inline vf vf_floor(vf a) {
    vf r = vf_round_even(a);
    return vf_copysign(r > a ? r - 1.0f : r, a);
}
static inline vf vf_ceil(vf a) {
    vf r = vf_round_even(a);
    return vf_copysign(r < a ? r + 1.0f : r, a);
}

/* The vector vocabulary in plain C: a vector of one. The other files of this folder spell the same words with
 * intrinsics; each word does one IEEE 754 operation, so equal bits follow from equal words in equal order. */
#include "simd/half.h"
#include "simd/segments.h"

#include <stdint.h>
#include <string.h>

#define ISA_NAME "portable"
#define WIDTH 1
#define UNROLL 1

typedef float vf;
typedef int vm;      /* a truth value per lane */
typedef uint32_t vi; /* 32 bits per lane */
typedef uint16_t vh; /* 16 bits per lane, as many lanes: half types in memory */

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

static inline vh vh_load(const unsigned char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}
static inline void vh_store(unsigned char *p, vh h) { memcpy(p, &h, sizeof h); }
static inline vh vh_load_part(const unsigned char *p, size_t n) { return n ? vh_load(p) : 0; }
static inline void vh_store_part(unsigned char *p, vh h, size_t n) {
    if (n)
        vh_store(p, h);
}
/* binary16 and bfloat16 to binary32, exactly, and back, rounded once. Back, a NaN must be the canonical one. */
static inline vf vf_from_f16(vh h) { return ow_from_f16(h); }
static inline vh vf_to_f16(vf v) { return ow_to_f16(v); }
static inline vf vf_from_bf16(vh h) { return ow_from_bf16(h); }
static inline vh vf_to_bf16(vf v) { return ow_to_bf16(v); }

static inline vf vf_set(float v) { return v; }
static inline uint32_t vf_bits(vf v) { return ow_bits(v); }
static inline vf vf_from_bits(uint32_t u) { return ow_from_bits(u); }

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

static inline vm vm_sign(vf a) { return vf_bits(a) >> 31 ? 1 : 0; } /* has its sign bit set, a NaN's too */
static inline int vm_all(vm m) { return m; }
/* a with its sign flipped where s has one. */
static inline vf vf_flip(vf a, vf s) { return vf_from_bits(vf_bits(a) ^ (vf_bits(s) & 0x80000000u)); }
/* min(|a|, limit) without the sign of a, or with it; limit where a is NaN, in some sets NaN. */
static inline vf vf_clamp_abs(vf a, vf limit) { return vf_abs(a) < limit ? vf_abs(a) : limit; }
static inline vf vf_clamp(vf a, vf limit) { return vf_copysign(vf_clamp_abs(a, limit), a); }

static inline vi vi_bits(vf a) { return vf_bits(a); }
static inline vi vi_shift_right(vi a, int n) { return a >> n; }
/* a * 2^n by adding n to its exponent field, mod 2^9: a and the result must be normal. */
static inline vf vf_add_exponent(vf a, vi n) { return vf_from_bits(vf_bits(a) + (n << 23)); }
/* The entry with the number formed by the low 4 bits of i; by the low 5. */
static inline vf vf_entry_16(const float *t, vi i) { return t[i & 15]; }
static inline vf vf_entry_32(const float *t, vi i) { return t[i & 31]; }
/* What t holds for the segment named by the low 5 bits of i. */
typedef struct vf_segment {
    vf centre, c0, c1, c2, c3, c4, c5, c6;
} vf_segment;
static inline vf_segment vf_segment_of(const ow_segments *t, vi i) {
    const float *r = t->rows[i & 31];
    return (vf_segment){r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]};
}

/* v[i] has row i of WIDTH x WIDTH numbers, and then column i. */
static inline void vf_turn(vf *v) { (void)v; }

static inline vf vf_power_of_two(vf n) { return vf_from_bits((uint32_t)((int32_t)n + 127) << 23); }
/* a * 2^floor(n) rounded once, for finite a and |n| <= 250. In two steps, of which the first is exact: so the result
 * must be 0 or infinity, or |a| * 2^(floor(n) +- 126) normal, where floor(n) is outside [-126, 127]. */
static inline vf vf_scale(vf a, vf n) {
    vf k = vf_floor(n), last = vf_min(vf_max(k, -126.0f), 127.0f);
    return a * vf_power_of_two(k - last) * vf_power_of_two(last);
}
/* x = m * 2^k with 3/4 <= m < 3/2, exactly, for finite x > 0; m = 1 and k = log2(x) at 0 and infinity. */
static inline vf vf_split(vf x, vf *k) {
    uint32_t u = vf_bits(x), subnormal = u < 0x00800000u;
    u = subnormal ? vf_bits(x * 0x1p24f) : u;
    int32_t e = (int32_t)((u - 0x3f400000u) & 0xff800000u) / 0x00800000;
    *k = (float)(subnormal ? e - 24 : e);
    vf m = vf_from_bits(u - (uint32_t)e * 0x00800000u);
    if (!(x > 0.0f) || u == 0x7f800000u) {
        *k = x > 0.0f ? x : vf_from_bits(0xff800000u);
        m = 1.0f;
    }
    return m;
}

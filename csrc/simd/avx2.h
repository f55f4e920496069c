/* The vector vocabulary for AVX2, FMA and F16C: eight lanes. See portable.h for what each word means. */
#include "simd/segments.h"

#define ISA_NAME "avx2"
#define WIDTH 8
#define UNROLL 4

typedef __m256 vf;
typedef __m256 vm;
typedef __m256i vi;
typedef __m128i vh;

/* Lane k is live in a part of n lanes when k < n. */
static inline __m256i part_mask(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_load(const unsigned char *p) { return _mm256_loadu_ps((const void *)p); }
static inline void vf_store(unsigned char *p, vf v) { _mm256_storeu_ps((void *)p, v); }
static inline vf vf_load_part(const unsigned char *p, size_t n) {
    return _mm256_maskload_ps((const void *)p, part_mask(n));
}
static inline void vf_store_part(unsigned char *p, vf v, size_t n) { _mm256_maskstore_ps((void *)p, part_mask(n), v); }

static inline vh vh_load(const unsigned char *p) { return _mm_loadu_si128((const void *)p); }
static inline void vh_store(unsigned char *p, vh h) { _mm_storeu_si128((void *)p, h); }
/* Nothing masks lanes of 16 bits, so a part goes through a vector in memory. */
static inline vh vh_load_part(const unsigned char *p, size_t n) {
    uint16_t lanes[WIDTH] = {0};
    memcpy(lanes, p, n * sizeof lanes[0]);
    return _mm_loadu_si128((const void *)lanes);
}
static inline void vh_store_part(unsigned char *p, vh h, size_t n) {
    uint16_t lanes[WIDTH];
    _mm_storeu_si128((void *)lanes, h);
    memcpy(p, lanes, n * sizeof lanes[0]);
}
/* VCVTPH2PS and VCVTPS2PH keep subnormals whatever MXCSR says (Intel SDM vol. 2). */
static inline vf vf_from_f16(vh h) { return _mm256_cvtph_ps(h); }
static inline vh vf_to_f16(vf v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_from_bf16(vh h) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)); }
static inline vh vf_to_bf16(vf v) {
    __m256i u = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    u = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
}

static inline vf vf_set(float v) { return _mm256_set1_ps(v); }
static inline vf vf_from_bits(uint32_t u) { return _mm256_castsi256_ps(_mm256_set1_epi32((int)u)); }

static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }

static inline vm vf_gt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
static inline vm vf_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
static inline vm vf_unordered(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
static inline vf vf_pick(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
/* The instructions give their second operand where equal or unordered, so it is passed the one to keep. */
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(b, a); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(b, a); }

static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf vf_neg(vf a) { return -a; } /* not an intrinsic: compilers join it to an fma */
static inline vf vf_copysign(vf magnitude, vf sign) {
    return _mm256_or_ps(vf_abs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

static inline vf vf_round_even(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_floor(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_ceil(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

static inline vm vm_sign(vf a) { return a; } /* what a blend reads is the sign bit */
static inline int vm_all(vm m) { return _mm256_movemask_ps(m) == 0xff; }
static inline vf vf_flip(vf a, vf s) { return _mm256_xor_ps(a, _mm256_and_ps(_mm256_set1_ps(-0.0f), s)); }
static inline vf vf_clamp_abs(vf a, vf limit) { return _mm256_min_ps(vf_abs(a), limit); }
static inline vf vf_clamp(vf a, vf limit) { return vf_copysign(vf_clamp_abs(a, limit), a); }

static inline vi vi_bits(vf a) { return _mm256_castps_si256(a); }
static inline vi vi_shift_right(vi a, int n) { return _mm256_srli_epi32(a, n); }
static inline vf vf_add_exponent(vf a, vi n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(n, 23)));
}
/* Bit 3 of i chooses the half: moved to the sign, which is what the blend reads. */
static inline vf vf_entry_16(const float *t, vi i) {
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t), i);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(t + 8), i);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}
static inline vf vf_entry_32(const float *t, vi i) {
    return _mm256_i32gather_ps(t, _mm256_and_si256(i, _mm256_set1_epi32(31)), 4);
}
typedef struct vf_segment {
    vf centre, c0, c1, c2, c3, c4, c5, c6;
} vf_segment;
/* Eight rows, transposed: faster than a gather per column. The rows' offsets leave the vector in pairs. */
static inline vf_segment vf_segment_of(const ow_segments *t, vi i) {
    __m256i offsets = _mm256_and_si256(_mm256_slli_epi32(i, 5), _mm256_set1_epi32(31 << 5));
    const char *rows = (const char *)t->rows;
    uint64_t pairs[4];
    for (int k = 0; k < 2; k++) {
        __m128i half = k ? _mm256_extracti128_si256(offsets, 1) : _mm256_castsi256_si128(offsets);
        pairs[2 * k] = (uint64_t)_mm_cvtsi128_si64(half);
        pairs[2 * k + 1] = (uint64_t)_mm_extract_epi64(half, 1);
    }
    __m256 low[4], high[4], a, b, c, d;
    for (int j = 0; j < 4; j++) {
        uint64_t first = pairs[j / 2], second = pairs[j / 2 + 2];
        const void *p = rows + (j % 2 ? first >> 32 : (uint32_t)first);
        const void *q = rows + (j % 2 ? second >> 32 : (uint32_t)second);
        low[j] = _mm256_loadu2_m128(q, p), high[j] = _mm256_loadu2_m128((const float *)q + 4, (const float *)p + 4);
    }
    vf_segment s;
    a = _mm256_unpacklo_ps(low[0], low[1]), b = _mm256_unpacklo_ps(low[2], low[3]);
    c = _mm256_unpackhi_ps(low[0], low[1]), d = _mm256_unpackhi_ps(low[2], low[3]);
    s.centre = _mm256_shuffle_ps(a, b, 0x44), s.c0 = _mm256_shuffle_ps(a, b, 0xee);
    s.c1 = _mm256_shuffle_ps(c, d, 0x44), s.c2 = _mm256_shuffle_ps(c, d, 0xee);
    a = _mm256_unpacklo_ps(high[0], high[1]), b = _mm256_unpacklo_ps(high[2], high[3]);
    c = _mm256_unpackhi_ps(high[0], high[1]), d = _mm256_unpackhi_ps(high[2], high[3]);
    s.c3 = _mm256_shuffle_ps(a, b, 0x44), s.c4 = _mm256_shuffle_ps(a, b, 0xee);
    s.c5 = _mm256_shuffle_ps(c, d, 0x44), s.c6 = _mm256_shuffle_ps(c, d, 0xee);
    return s;
}

/* Rows become columns: pairs and fours of rows within halves, then the halves. */
static inline void vf_turn(vf *v) {
    vf u[8];
#pragma GCC unroll 2
    for (size_t i = 0; i < 8; i += 4) { /* half h of u[i + j]: column 4 h + j of rows i to i + 3 */
        vf a = _mm256_unpacklo_ps(v[i], v[i + 1]), b = _mm256_unpackhi_ps(v[i], v[i + 1]);
        vf c = _mm256_unpacklo_ps(v[i + 2], v[i + 3]), d = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
        u[i] = _mm256_shuffle_ps(a, c, 0x44), u[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        u[i + 2] = _mm256_shuffle_ps(b, d, 0x44), u[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; j++) {
        v[j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
        v[4 + j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
    }
}

static inline vf vf_power_of_two(vf n) {
    __m256i biased = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
static inline vf vf_scale(vf a, vf n) {
    vf k = vf_floor(n), last = _mm256_min_ps(_mm256_max_ps(k, _mm256_set1_ps(-126.0f)), _mm256_set1_ps(127.0f));
    return _mm256_mul_ps(_mm256_mul_ps(a, vf_power_of_two(_mm256_sub_ps(k, last))), vf_power_of_two(last));
}
static inline vf vf_split(vf x, vf *k) {
    const vf inf = vf_from_bits(0x7f800000u);
    vm subnormal = vf_gt(vf_set(0x1p-126f), x);
    __m256i u = _mm256_castps_si256(vf_pick(subnormal, vf_mul(x, vf_set(0x1p24f)), x));
    __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(u, _mm256_set1_epi32(0x3f400000)), 23);
    vf m = _mm256_castsi256_ps(_mm256_sub_epi32(u, _mm256_slli_epi32(e, 23)));
    vf n = vf_sub(_mm256_cvtepi32_ps(e), _mm256_and_ps(subnormal, vf_set(24.0f)));
    vm zero = _mm256_cmp_ps(x, vf_set(0.0f), _CMP_EQ_OQ), infinite = _mm256_cmp_ps(x, inf, _CMP_EQ_OQ);
    *k = vf_pick(infinite, inf, vf_pick(zero, vf_neg(inf), n));
    return vf_pick(_mm256_or_ps(zero, infinite), vf_set(1.0f), m);
}

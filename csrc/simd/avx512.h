/* The vector vocabulary for AVX-512 F, BW, DQ, VL and VNNI: sixteen lanes. See portable.h for what each word means. */
#include "simd/segments.h"

#define ISA_NAME "avx512"
#define WIDTH 16
#define UNROLL 4

typedef __m512 vf;
typedef __mmask16 vm;
typedef __m512i vi;
typedef __m256i vh;

/* Lane k is live in a part of n lanes when k < n. */
static inline __mmask16 part_mask(size_t n) { return (__mmask16)((1u << n) - 1u); }
static inline vf vf_load(const unsigned char *p) { return _mm512_loadu_ps((const void *)p); }
static inline void vf_store(unsigned char *p, vf v) { _mm512_storeu_ps((void *)p, v); }
static inline vf vf_load_part(const unsigned char *p, size_t n) {
    return _mm512_maskz_loadu_ps(part_mask(n), (const void *)p);
}
static inline void vf_store_part(unsigned char *p, vf v, size_t n) {
    _mm512_mask_storeu_ps((void *)p, part_mask(n), v);
}

static inline vh vh_load(const unsigned char *p) { return _mm256_loadu_si256((const void *)p); }
static inline void vh_store(unsigned char *p, vh h) { _mm256_storeu_si256((void *)p, h); }
static inline vh vh_load_part(const unsigned char *p, size_t n) {
    return _mm256_maskz_loadu_epi16(part_mask(n), (const void *)p);
}
static inline void vh_store_part(unsigned char *p, vh h, size_t n) {
    _mm256_mask_storeu_epi16((void *)p, part_mask(n), h);
}
/* VCVTPH2PS and VCVTPS2PH keep subnormals whatever MXCSR says (Intel SDM vol. 2). VCVTNEPS2BF16 would not. */
static inline vf vf_from_f16(vh h) { return _mm512_cvtph_ps(h); }
static inline vh vf_to_f16(vf v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_from_bf16(vh h) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16)); }
static inline vh vf_to_bf16(vf v) {
    __m512i u = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    u = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(u, 16));
}

static inline vf vf_set(float v) { return _mm512_set1_ps(v); }
static inline vf vf_from_bits(uint32_t u) { return _mm512_castsi512_ps(_mm512_set1_epi32((int)u)); }

static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }

static inline vm vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
static inline vm vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
static inline vm vf_unordered(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
static inline vf vf_pick(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
/* The instructions give their second operand where equal or unordered, so it is passed the one to keep. */
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(b, a); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(b, a); }

static inline vf vf_abs(vf a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
static inline vf vf_neg(vf a) { return -a; } /* not an intrinsic: compilers join it to an fma */
/* VPTERNLOG: by the bits of (mask, sign, magnitude), mask ? sign : magnitude. */
static inline vf vf_copysign(vf magnitude, vf sign) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_set1_epi32(INT32_MIN), _mm512_castps_si512(sign),
                                                         _mm512_castps_si512(magnitude), 0xca));
}

static inline vf vf_round_even(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

static inline vm vm_sign(vf a) { return _mm512_movepi32_mask(_mm512_castps_si512(a)); }
static inline int vm_all(vm m) { return m == 0xffff; }
/* VPTERNLOG: a ^ (s & mask) by the bits of (a, s, mask). */
static inline vf vf_flip(vf a, vf s) {
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(_mm512_castps_si512(a), _mm512_castps_si512(s), _mm512_set1_epi32(INT32_MIN), 0x78));
}
/* VRANGEPS: the operand of smaller magnitude, sign cleared (10) or that of a (2). */
static inline vf vf_clamp_abs(vf a, vf limit) { return _mm512_range_ps(a, limit, 10); }
static inline vf vf_clamp(vf a, vf limit) { return _mm512_range_ps(a, limit, 2); }

static inline vi vi_bits(vf a) { return _mm512_castps_si512(a); }
static inline vi vi_shift_right(vi a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
static inline vf vf_add_exponent(vf a, vi n) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), _mm512_slli_epi32(n, 23)));
}
static inline vf vf_entry_16(const float *t, vi i) { return _mm512_permutexvar_ps(i, _mm512_loadu_ps(t)); }
static inline vf vf_entry_32(const float *t, vi i) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(t), i, _mm512_loadu_ps(t + 16));
}
typedef struct vf_segment {
    vf centre, c0, c1, c2, c3, c4, c5, c6;
} vf_segment;
static inline vf_segment vf_segment_of(const ow_segments *t, vi i) {
    return (vf_segment){vf_entry_32(t->columns[0], i), vf_entry_32(t->columns[1], i), vf_entry_32(t->columns[2], i),
                        vf_entry_32(t->columns[3], i), vf_entry_32(t->columns[4], i), vf_entry_32(t->columns[5], i),
                        vf_entry_32(t->columns[6], i), vf_entry_32(t->columns[7], i)};
}

/* Rows become columns: pairs and fours of rows within quarters, then the quarters. */
static inline void vf_turn(vf *v) {
    vf u[16];
#pragma GCC unroll 4
    for (size_t i = 0; i < 16; i += 4) { /* quarter q of u[i + j]: column 4 q + j of rows i to i + 3 */
        vf a = _mm512_unpacklo_ps(v[i], v[i + 1]), b = _mm512_unpackhi_ps(v[i], v[i + 1]);
        vf c = _mm512_unpacklo_ps(v[i + 2], v[i + 3]), d = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
        u[i] = _mm512_shuffle_ps(a, c, 0x44), u[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        u[i + 2] = _mm512_shuffle_ps(b, d, 0x44), u[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; j++) {
        vf a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88), b = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd);
        vf c = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);
        v[j] = _mm512_shuffle_f32x4(a, c, 0x88), v[4 + j] = _mm512_shuffle_f32x4(b, d, 0x88);
        v[8 + j] = _mm512_shuffle_f32x4(a, c, 0xdd), v[12 + j] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

static inline vf vf_scale(vf a, vf n) { return _mm512_scalef_ps(a, n); }
static inline vf vf_split(vf x, vf *k) {
    vf m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero);
    *k = vf_sub(_mm512_getexp_ps(x), _mm512_getexp_ps(m));
    return m;
}

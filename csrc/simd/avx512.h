/* The vector vocabulary for AVX-512 F, BW, DQ, VL and VNNI: sixteen lanes. See portable.h for what each word means. */
#define WIDTH 16
#define UNROLL 4

typedef __m512 vf;
typedef __mmask16 vm;

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
static inline vf vf_neg(vf a) { return _mm512_xor_ps(_mm512_set1_ps(-0.0f), a); }
static inline vf vf_copysign(vf magnitude, vf sign) {
    return _mm512_or_ps(vf_abs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}

static inline vf vf_round_even(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

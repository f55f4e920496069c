/* The vector vocabulary for AVX2, FMA and F16C: eight lanes. See portable.h for what each word means. */
#define WIDTH 8
#define UNROLL 4

typedef __m256 vf;
typedef __m256 vm;

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
static inline vf vf_neg(vf a) { return _mm256_xor_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf vf_copysign(vf magnitude, vf sign) {
    return _mm256_or_ps(vf_abs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}

static inline vf vf_round_even(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vf vf_floor(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vf vf_ceil(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }

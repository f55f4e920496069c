/* Words for block-quantised weights, for AVX2. See nbits_portable.h for what each word means. */
#define BLOCK_VECTORS 8
#define CHAIN_ROWS 6
#define CHAIN_VECTORS 2

typedef __m256i vw;
typedef struct vw_table {
    __m256 bases[4]; /* 2^23 + zero, 2^19 + zero, 2^15 + zero, 2^11 + zero */
} vw_table;
typedef struct vw_halves {
    __m256i low, high;
} vw_halves;

static inline vw_table vw_table_of(float zero) {
    return (vw_table){{_mm256_set1_ps(0x1p23f + zero), _mm256_set1_ps(0x1p19f + zero), _mm256_set1_ps(0x1p15f + zero),
                       _mm256_set1_ps(0x1p11f + zero)}};
}
static inline vw vw_load(const unsigned char *p) { return _mm256_loadu_si256((const void *)p); }
/* 4 bits at place 4 i of the fraction of 2^(23 - 4 i) are the number 2^(23 - 4 i) + q: so they need not be moved. */
static inline vf from_place(const vw_table *t, __m256i x, int i) {
    __m256i v = _mm256_and_si256(x, _mm256_set1_epi32(15 << 4 * i));
    v = _mm256_or_si256(v, _mm256_set1_epi32(0x4b000000 - (4 * i << 23)));
    return _mm256_sub_ps(_mm256_castsi256_ps(v), t->bases[i]);
}
static inline void vw_weights_4(const unsigned char *p, const vw_table *t, vf *w) {
    __m256i x = vw_load(p), y = _mm256_srli_epi32(x, 16);
    w[0] = from_place(t, x, 0), w[1] = from_place(t, x, 1), w[2] = from_place(t, x, 2), w[3] = from_place(t, x, 3);
    w[4] = from_place(t, y, 0), w[5] = from_place(t, y, 1), w[6] = from_place(t, y, 2), w[7] = from_place(t, y, 3);
}
static inline vf from_byte(const vw_table *t, __m256i x) {
    __m256i v = _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(255)), _mm256_set1_epi32(0x4b000000));
    return _mm256_sub_ps(_mm256_castsi256_ps(v), t->bases[0]);
}
static inline void vw_weights_8(const unsigned char *p, const vw_table *t, vf *w) {
    w[0] = from_byte(t, vw_load(p)), w[1] = from_byte(t, vw_load(p + 1));
    w[2] = from_byte(t, vw_load(p + 2)), w[3] = from_byte(t, vw_load(p + 3));
}

static inline vs vs_bytes(const unsigned char *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)); }
static inline __m256i four_of(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}
static inline vw_halves vw_split(vw x) {
    const __m256i low = _mm256_set1_epi8(15);
    return (vw_halves){_mm256_and_si256(x, low), _mm256_and_si256(_mm256_srli_epi32(x, 4), low)};
}
/* VPMADDUBSW saturates at 32,767: two products of at most 15 * 127 are far below, and so are four. */
static inline vs vs_dot_4(vs s, vw_halves q, const int8_t *a) {
    __m256i pairs = _mm256_maddubs_epi16(q.low, four_of(a));
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(q.high, four_of(a + 4)));
    return _mm256_add_epi32(s, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
/* Two of 255 * 127 are not: so VPMADDWD, on the bytes with an even number and on those with an odd one. */
static inline vs vs_dot_8(vs s, vw q, const int8_t *a) {
    __m256i x = four_of(a), even = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), odd = _mm256_srai_epi16(x, 8);
    s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_and_si256(q, _mm256_set1_epi16(255)), even));
    return _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_srli_epi16(q, 8), odd));
}

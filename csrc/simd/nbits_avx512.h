/* Words for block-quantised weights, for AVX-512 VNNI. See nbits_portable.h for what each word means. */
#define BLOCK_VECTORS 8
#define CHAIN_ROWS 6
#define CHAIN_VECTORS 4

typedef __m512i vw;
typedef struct vw_table {
    __m512 entries;       /* i - zero */
    __m512i upper_halves; /* of them, twice */
    __m512 base;
} vw_table;

static inline vw_table vw_table_of(float zero) {
    const __m512 first = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    vw_table t;
    t.entries = _mm512_sub_ps(first, _mm512_set1_ps(zero));
    __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(t.entries), 16));
    t.upper_halves = _mm512_inserti64x4(_mm512_castsi256_si512(halves), halves, 1);
    t.base = _mm512_set1_ps(0x1p23f + zero);
    return t;
}
static inline vw vw_load(const unsigned char *p) { return _mm512_loadu_si512((const void *)p); }

/* Small integers: their upper 16 bits are all of them. So a look-up of binary32 by the low bits of a lane and one of
 * upper halves by the low bits of its upper half, lower halves 0, take turns, and shifts are few. */
static inline vf upper_entry(const vw_table *t, __m512i x) {
    return _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xaaaaaaaau, x, t->upper_halves));
}
static inline void vw_weights_4(const unsigned char *p, const vw_table *t, vf *w) {
    __m512i x = vw_load(p), y = vw_load(p + 1), xs = _mm512_srli_epi32(x, 4), ys = _mm512_srli_epi32(y, 4);
    w[0] = _mm512_permutexvar_ps(x, t->entries), w[1] = _mm512_permutexvar_ps(xs, t->entries);
    w[2] = _mm512_permutexvar_ps(y, t->entries), w[3] = _mm512_permutexvar_ps(ys, t->entries);
    w[4] = upper_entry(t, x), w[5] = upper_entry(t, xs);
    w[6] = upper_entry(t, y), w[7] = upper_entry(t, ys);
}
static inline vf from_byte(const vw_table *t, __m512i x) {
    __m512i v = _mm512_ternarylogic_epi32(x, _mm512_set1_epi32(0xff), _mm512_set1_epi32(0x4b000000), 0xea);
    return _mm512_sub_ps(_mm512_castsi512_ps(v), t->base);
}
static inline void vw_weights_8(const unsigned char *p, const vw_table *t, vf *w) {
    w[0] = from_byte(t, vw_load(p)), w[1] = from_byte(t, vw_load(p + 1));
    w[2] = from_byte(t, vw_load(p + 2)), w[3] = from_byte(t, _mm512_srli_epi32(vw_load(p), 24));
}

static inline vs vs_bytes(const unsigned char *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)); }
static inline __m512i four_of(const int8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}
typedef struct vw_halves {
    __m512i low, high;
} vw_halves;
static inline vw_halves vw_split(vw x) {
    const __m512i low = _mm512_set1_epi8(15);
    return (vw_halves){_mm512_and_si512(x, low), _mm512_and_si512(_mm512_srli_epi32(x, 4), low)};
}
static inline vs vs_dot_4(vs s, vw_halves q, const int8_t *a) {
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(s, q.low, four_of(a)), q.high, four_of(a + 4));
}
static inline vs vs_dot_8(vs s, vw q, const int8_t *a) { return _mm512_dpbusd_epi32(s, q, four_of(a)); }

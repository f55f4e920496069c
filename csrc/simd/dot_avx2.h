/* Words for products of 8-bit matrices, for AVX2: VPMADDWD on pairs of 16-bit numbers. A left element less its zero
 * point is in [-255, 255] and a right one in [-128, 127], so the sum of a pair is at most 65,280: exact. (VPMADDUBSW
 * would save a widening, but saturates at 32,767.) See dot_portable.h for what each word means. */
#define GROUP 2
#define PANEL_VECTORS 2
#define TILE_ROWS 6
#define LEFT_CENTRED 1

typedef int16_t left;
typedef __m256i vs;
typedef __m256i va;
typedef __m128i vr;
typedef __m256i vq;

static inline vs vs_load(const int32_t *p) { return _mm256_loadu_si256((const void *)p); }
static inline void vs_store(int32_t *p, vs v) { _mm256_storeu_si256((void *)p, v); }
static inline vs vs_set(int32_t v) { return _mm256_set1_epi32(v); }
static inline vs vs_sub(vs a, vs b) { return _mm256_sub_epi32(a, b); }
static inline vs vs_add(vs a, vs b) { return _mm256_add_epi32(a, b); }
static inline vs vs_mul(vs a, vs b) { return _mm256_mullo_epi32(a, b); }

static inline va va_load(const left *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm256_set1_epi32(pair);
}
static inline vr vr_load(const int8_t *p) { return _mm_loadu_si128((const void *)p); }
static inline void vr_store(int8_t *p, vr v) { _mm_storeu_si128((void *)p, v); }
static inline vq vq_of(vr v) { return _mm256_cvtepi8_epi16(v); }
static inline vs vs_dot(vs s, va a, vq b) { return _mm256_add_epi32(s, _mm256_madd_epi16(a, b)); }

static inline void vr_rows(const unsigned char *b, size_t stride, size_t rows, size_t columns, unsigned char flip,
                           vr *out) {
    const unsigned char *next = rows > 1 ? b + stride : b;
    __m128i first, second, mask = _mm_set1_epi8((char)flip);
    if (columns >= 16) {
        first = _mm_loadu_si128((const void *)b);
        second = _mm_loadu_si128((const void *)next);
    } else {
        unsigned char part[2][16] = {{0}, {0}};
        memcpy(part[0], b, columns);
        memcpy(part[1], next, columns);
        first = _mm_loadu_si128((const void *)part[0]);
        second = _mm_loadu_si128((const void *)part[1]);
    }
    first = _mm_xor_si128(first, mask), second = _mm_xor_si128(second, mask);
    out[0] = _mm_unpacklo_epi8(first, second);
    out[1] = _mm_unpackhi_epi8(first, second);
}
static inline void vs_order(vs *s) { (void)s; }

static inline vf vf_of(vs v) { return _mm256_cvtepi32_ps(v); }
static inline vs vs_of(vf v) { return _mm256_cvttps_epi32(v); }
static inline vs vs_load_bytes(const unsigned char *p, int is_signed) {
    __m128i bytes = _mm_loadl_epi64((const void *)p);
    return is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
}
static inline void vs_store_bytes(unsigned char *p, vs v) {
    const __m256i low = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, /* each half */
                                         0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    __m256i bytes = _mm256_shuffle_epi8(v, low);
    int32_t a = _mm256_cvtsi256_si32(bytes), b = _mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1));
    memcpy(p, &a, sizeof a);
    memcpy(p + 4, &b, sizeof b);
}

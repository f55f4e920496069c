/* Words for products of 8-bit matrices, for AVX-512 VNNI: VPDPBUSD multiplies four unsigned by four signed bytes and
 * adds them to a 32-bit sum, modulo 2^32. A signed left element is raised by 128, an unsigned right one lowered; zero
 * points move along. See dot_portable.h for what each word means. */
#define GROUP 4
#define PANEL_VECTORS 4
#define TILE_ROWS 6
#define LEFT_CENTRED 0

typedef uint8_t left;
typedef __m512i vs;
typedef __m512i va;
typedef __m512i vr;
typedef __m512i vq;

static inline vs vs_load(const int32_t *p) { return _mm512_loadu_si512((const void *)p); }
static inline void vs_store(int32_t *p, vs v) { _mm512_storeu_si512((void *)p, v); }
static inline vs vs_set(int32_t v) { return _mm512_set1_epi32(v); }
static inline vs vs_sub(vs a, vs b) { return _mm512_sub_epi32(a, b); }
static inline vs vs_add(vs a, vs b) { return _mm512_add_epi32(a, b); }
static inline vs vs_mul(vs a, vs b) { return _mm512_mullo_epi32(a, b); }

static inline va va_load(const left *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}
static inline vr vr_load(const int8_t *p) { return _mm512_loadu_si512((const void *)p); }
static inline void vr_store(int8_t *p, vr v) { _mm512_storeu_si512((void *)p, v); }
static inline vq vq_of(vr v) { return v; }
static inline vs vs_dot(vs s, va a, vq b) { return _mm512_dpbusd_epi32(s, a, b); }

/* Four rows of 64 columns. The unpacking works within quarters of a vector, so vector j gets columns 4 j to 4 j + 3 of
 * each quarter. */
static inline void vr_rows(const unsigned char *b, size_t stride, size_t rows, size_t columns, unsigned char flip,
                           vr *out) {
    __mmask64 live = columns >= 64 ? UINT64_MAX : ((uint64_t)1 << columns) - 1;
    const __m512i mask = _mm512_set1_epi8((char)flip);
    __m512i r[4];
    for (size_t k = 0; k < 4; k++) {
        const void *row = b + (k < rows ? k : 0) * stride;
        r[k] = _mm512_xor_si512(columns >= 64 ? _mm512_loadu_si512(row) : _mm512_maskz_loadu_epi8(live, row), mask);
    }
    __m512i low01 = _mm512_unpacklo_epi8(r[0], r[1]), high01 = _mm512_unpackhi_epi8(r[0], r[1]);
    __m512i low23 = _mm512_unpacklo_epi8(r[2], r[3]), high23 = _mm512_unpackhi_epi8(r[2], r[3]);
    out[0] = _mm512_unpacklo_epi16(low01, low23);
    out[1] = _mm512_unpackhi_epi16(low01, low23);
    out[2] = _mm512_unpacklo_epi16(high01, high23);
    out[3] = _mm512_unpackhi_epi16(high01, high23);
}
/* A transposition of quarters. */
static inline void vs_order(vs *s) {
    __m512i a = _mm512_shuffle_i32x4(s[0], s[1], 0x44), b = _mm512_shuffle_i32x4(s[0], s[1], 0xee);
    __m512i c = _mm512_shuffle_i32x4(s[2], s[3], 0x44), d = _mm512_shuffle_i32x4(s[2], s[3], 0xee);
    s[0] = _mm512_shuffle_i32x4(a, c, 0x88), s[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    s[2] = _mm512_shuffle_i32x4(b, d, 0x88), s[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
}

static inline vf vf_of(vs v) { return _mm512_cvtepi32_ps(v); }
static inline vs vs_of(vf v) { return _mm512_cvttps_epi32(v); }
static inline vs vs_load_bytes(const unsigned char *p, int is_signed) {
    __m128i bytes = _mm_loadu_si128((const void *)p);
    return is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
}
static inline void vs_store_bytes(unsigned char *p, vs v) { _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8(v)); }

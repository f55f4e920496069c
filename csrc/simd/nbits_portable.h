/* Words for block-quantised weights, in plain C. The other files spell the same ones with intrinsics.
 *
 *   BLOCK_VECTORS  vectors of WIDTH columns that make a panel
 *   CHAIN_ROWS     rows of A, and vectors of columns, of which products take as many at a time as registers hold sums
 *   vw             a word of 32 bits of WIDTH columns; vw_halves: the low and the high halves of its bytes */
#define BLOCK_VECTORS 4
#define CHAIN_ROWS 2
#define CHAIN_VECTORS 2

typedef uint32_t vw;
typedef struct vw_table {
    float zero;
} vw_table;
typedef struct vw_halves {
    vw low, high;
} vw_halves;

/* What the weights of one zero point need; a small integer. */
static inline vw_table vw_table_of(float zero) { return (vw_table){zero}; }
static inline vw vw_load(const unsigned char *p) {
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v |= (uint32_t)p[i] << 8 * i;
    return v;
}
/* q - zero of a word, the lowest bits first: 8 of 4 bits, 4 of 8. Up to 3 bytes behind it may be read. */
static inline void vw_weights_4(const unsigned char *p, const vw_table *t, vf *w) {
    vw x = vw_load(p);
    for (int i = 0; i < 8; i++)
        w[i] = (float)(x >> 4 * i & 15) - t->zero;
}
static inline void vw_weights_8(const unsigned char *p, const vw_table *t, vf *w) {
    for (int i = 0; i < 4; i++)
        w[i] = (float)p[i] - t->zero;
}

static inline vs vs_bytes(const unsigned char *p) { return *p; }
static inline vw_halves vw_split(vw x) { return (vw_halves){x & 0x0f0f0f0fu, x >> 4 & 0x0f0f0f0fu}; }
/* s + products of a word's bytes, unsigned, with signed ones at a, the same for all columns. Exact; sums are modulo
 * 2^32. vs_dot_4: of the low halves with the first four, of the high ones with the next. */
static inline vs vs_dot_8(vs s, vw q, const int8_t *a) {
    for (int i = 0; i < 4; i++)
        s += (vs)((int32_t)(q >> 8 * i & 255) * a[i]);
    return s;
}
static inline vs vs_dot_4(vs s, vw_halves q, const int8_t *a) { return vs_dot_8(vs_dot_8(s, q.low, a), q.high, a + 4); }

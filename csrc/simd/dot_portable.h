/* Words for products of 8-bit matrices, in plain C. The other files spell the same ones with intrinsics. All adds and
 * products are modulo 2^32, so how the words group them does not show in the sums (C7).
 *
 *   left     an element of the left matrix as products take it
 *   GROUP    consecutive k that one product takes up
 *   PANEL    columns of the right matrix that are packed side by side, as PANEL_VECTORS vectors of WIDTH columns
 *   vs       sums of WIDTH columns; va: GROUP left elements, for all columns; vr: right elements as packed,
 *            GROUP k of WIDTH columns, all signed; vq: the same as products take them */
#define GROUP 1
#define PANEL_VECTORS 8
#define TILE_ROWS 2
#define LEFT_CENTRED 1 /* left elements come with their zero point subtracted; otherwise raised to unsigned */

typedef int16_t left;
typedef uint32_t vs;
typedef int16_t va;
typedef int8_t vr, vq;

static inline vs vs_load(const int32_t *p) { return (vs)*p; }
static inline void vs_store(int32_t *p, vs v) { *p = (int32_t)v; }
static inline vs vs_set(int32_t v) { return (vs)v; }
static inline vs vs_sub(vs a, vs b) { return a - b; }
static inline vs vs_add(vs a, vs b) { return a + b; }
static inline vs vs_mul(vs a, vs b) { return a * b; }

static inline va va_load(const left *p) { return *p; }
static inline vr vr_load(const int8_t *p) { return *p; }
static inline void vr_store(int8_t *p, vr v) { *p = v; }
static inline vq vq_of(vr v) { return v; }
static inline vs vs_dot(vs s, va a, vq b) { return s + (vs)((int32_t)a * b); }

/* GROUP rows of PANEL columns, each element flipped by `flip`. What is behind the given numbers of rows and columns is
 * not read; what comes in its place is of no account. */
static inline void vr_rows(const unsigned char *b, size_t stride, size_t rows, size_t columns, unsigned char flip,
                           vr *out) {
    (void)stride;
    for (size_t k = 0; k < PANEL_VECTORS; k++) {
        unsigned char v = rows && k < columns ? (unsigned char)(b[k] ^ flip) : 0;
        memcpy(&out[k], &v, 1);
    }
}
/* vr_rows may deal the columns to its vectors in an order of its own: this brings sums of a panel back to the matrix's. */
static inline void vs_order(vs *s) { (void)s; }

static inline vf vf_of(vs v) { return (float)(int32_t)v; } /* rounded to nearest even */
/* An integral value below 2^31 in magnitude. */
static inline vs vs_of(vf v) { return (vs)(int32_t)v; }
static inline vs vs_load_bytes(const unsigned char *p, int is_signed) {
    return (vs)(is_signed && *p > 127 ? *p - 256 : *p);
}
static inline void vs_store_bytes(unsigned char *p, vs v) { *p = (unsigned char)v; }

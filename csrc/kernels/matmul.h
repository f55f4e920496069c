/* Products of matrices of floats, in the words of simd/; see float_products.h for what they are. */

/* The sums of a tile, F_ROWS x F_VECTORS vectors, fill the registers but for a few. */
#if WIDTH == 1
#define F_VECTORS 2 /* of a panel */
#define F_ROWS 2
#elif WIDTH == 8
#define F_VECTORS 2
#define F_ROWS 6
#else
#define F_VECTORS 2
#define F_ROWS 12
#endif
#define F_PANEL (F_VECTORS * WIDTH)
_Static_assert(F_PANEL <= OW_FLOAT_PANEL_MAX, "a panel fits the buffers that callers have for one");

static inline const unsigned char *bytes_of(const float *p) { return (const unsigned char *)p; }
static inline unsigned char *bytes_at(float *p) { return (unsigned char *)p; }

/* An element of the left matrix, in all lanes. */
INLINED vf left_at(const unsigned char *a, size_t i) {
    float v;
    memcpy(&v, a + i * sizeof v, sizeof v);
    return vf_set(v);
}

/* Packed ahead, B lies in the order in which it is multiplied: so this many bytes before its turn it is asked for, from
 * the second-level cache. Behind its end nothing is read. */
enum { AHEAD = 16384 };
INLINED void fetch(const float *p, size_t bytes) { __builtin_prefetch((const void *)((uintptr_t)p + bytes), 0, 2); }

/* Total of a vector's columns after a block: C6. */
INLINED void add_block(float *total, vf block, int first) {
    vf_store(bytes_at(total), first ? block : vf_add(vf_load(bytes_of(total)), block));
}

INLINED void float_tile(const unsigned char *a, size_t stride, const float *panels, size_t panel_size, size_t k,
                        int first, float *totals, size_t totals_stride, const size_t rows, const size_t count) {
    vf s[F_ROWS][4 * F_VECTORS];
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 32
        for (size_t j = 0; j < count * F_VECTORS; j++)
            s[r][j] = vf_set(0.0f);
    for (size_t i = 0; i < k; i++) {
        vf b[4 * F_VECTORS];
        if (count == 1)
            for (size_t at = 0; at < F_PANEL * sizeof(float); at += 64)
                fetch(panels + i * F_PANEL, AHEAD + at);
#pragma GCC unroll 32
        for (size_t j = 0; j < count * F_VECTORS; j++)
            b[j] = vf_load(bytes_of(panels + j / F_VECTORS * panel_size + i * F_PANEL + j % F_VECTORS * WIDTH));
#pragma GCC unroll 16
        for (size_t r = 0; r < rows; r++) {
            vf x = left_at(a, r * stride + i);
#pragma GCC unroll 32
            for (size_t j = 0; j < count * F_VECTORS; j++)
                s[r][j] = vf_fma(x, b[j], s[r][j]);
        }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 32
        for (size_t j = 0; j < count * F_VECTORS; j++)
            add_block(totals + r * totals_stride + j * WIDTH, s[r][j], first);
}

/* Few rows: groups of panels, whose sums together keep the multipliers busy. */
INLINED void float_few(const unsigned char *a, size_t stride, const float *panels, size_t panel_size, size_t count,
                       size_t k, int first, float *totals, size_t totals_stride, const size_t rows,
                       const size_t group) {
    for (; count >= group; count -= group, panels += group * panel_size, totals += group * F_PANEL)
        float_tile(a, stride, panels, panel_size, k, first, totals, totals_stride, rows, group);
    for (; count; count--, panels += panel_size, totals += F_PANEL)
        float_tile(a, stride, panels, panel_size, k, first, totals, totals_stride, rows, 1);
}

#define F_CASE(rows) \
    case rows: float_tile(a, stride, panel, 0, k, first, totals, totals_stride, rows, 1); break

static void float_column(const unsigned char *a, size_t stride, size_t rows, const float *panel, size_t k, int first,
                         float *totals, size_t totals_stride) {
    for (size_t tiles = (rows + F_ROWS - 1) / F_ROWS; tiles; tiles--) {
        size_t now = rows / tiles; /* tiles of about one height: no thin one is left over */
        switch (now) {
            F_CASE(1);
            F_CASE(2);
#if F_ROWS > 2
            F_CASE(3);
            F_CASE(4);
            F_CASE(5);
            F_CASE(6);
#endif
#if F_ROWS > 6
            F_CASE(7);
            F_CASE(8);
            F_CASE(9);
            F_CASE(10);
            F_CASE(11);
            F_CASE(12);
#endif
        }
        a += now * stride * sizeof(float), totals += now * totals_stride, rows -= now;
    }
}

#define F_FEW_CASE(rows, group) \
    case rows: float_few(a, stride, panels, panel_size, count, k, first, totals, totals_stride, rows, group); break

static void multiply_float(const void *a, size_t stride, size_t rows, const float *panels, size_t panel_size,
                           size_t count, size_t k, int first, float *totals, size_t totals_stride) {
    switch (rows) {
#if WIDTH > 1
        F_FEW_CASE(1, 4);
#endif
#if F_ROWS == 6
        F_FEW_CASE(2, 2);
        F_FEW_CASE(3, 2);
#elif F_ROWS == 12
        F_FEW_CASE(2, 4);
        F_FEW_CASE(3, 2);
        F_FEW_CASE(4, 2);
        F_FEW_CASE(5, 2);
        F_FEW_CASE(6, 2);
#endif
    default:
        for (; count; count--, panels += panel_size, totals += F_PANEL)
            float_column(a, stride, rows, panels, k, first, totals, totals_stride);
    }
}

/* ---- elements of a type, a constant where these are inlined ---- */

INLINED vf load_as(int32_t dtype, const unsigned char *p) {
    return dtype == OW_F16 ? load_f16(p) : dtype == OW_BF16 ? load_bf16(p) : load_f32(p);
}
INLINED vf load_part_as(int32_t dtype, const unsigned char *p, size_t n) {
    return dtype == OW_F16 ? load_part_f16(p, n) : dtype == OW_BF16 ? load_part_bf16(p, n) : load_part_f32(p, n);
}
/* As many of n as fit in a vector, zeros in place of others. */
INLINED vf load_up_to(int32_t dtype, const unsigned char *p, size_t n) {
    return n >= WIDTH ? load_as(dtype, p) : n ? load_part_as(dtype, p, n) : vf_set(0.0f);
}
INLINED void store_up_to(int32_t dtype, unsigned char *p, vf v, size_t n) {
    if (dtype == OW_F16)
        n >= WIDTH ? store_f16(p, v) : store_part_f16(p, v, n);
    else if (dtype == OW_BF16)
        n >= WIDTH ? store_bf16(p, v) : store_part_bf16(p, v, n);
    else
        n >= WIDTH ? store_f32(p, v) : store_part_f32(p, v, n);
}
INLINED size_t size_of(int32_t dtype) { return dtype == OW_F32 ? 4 : 2; }

/* call(OW_F32, ...) and so on, each inlined by itself. */
#define BY_TYPE(dtype, call, ...)                    \
    switch (dtype) {                                 \
    case OW_F16: call(OW_F16, __VA_ARGS__); break;   \
    case OW_BF16: call(OW_BF16, __VA_ARGS__); break; \
    default: call(OW_F32, __VA_ARGS__); break;       \
    }

/* Up to WIDTH rows of up to WIDTH elements each, read and turned: v[j] has element j of every row. A row's part is read
 * at once: rows are often a power of 2 apart, and then the first-level cache keeps few of them. */
INLINED void load_turned(int32_t dtype, const unsigned char *x, size_t stride, size_t rows, size_t n, vf *v) {
    if (rows >= WIDTH && n >= WIDTH)
#pragma GCC unroll 16
        for (size_t r = 0; r < WIDTH; r++)
            v[r] = load_as(dtype, x + r * stride * size_of(dtype));
    else
        for (size_t r = 0; r < WIDTH; r++)
            v[r] = load_up_to(dtype, x + r * stride * size_of(dtype), r < rows ? n : 0);
    vf_turn(v);
}

/* ---- B as it is ---- */

enum { STREAMS = WIDTH == 1 ? 1 : 8 }; /* so many rows of B are read side by side */

/* Part of a block's sums, on their way from STREAMS rows of B to the next. starts, ends: whether the block does here. */
typedef struct passage {
    float *sums, *totals;
    size_t stride;
    int starts, ends, first;
} passage;

INLINED void stream_tile(int32_t dtype, const unsigned char *a, size_t stride, const unsigned char *b, size_t b_stride,
                         size_t k, size_t columns, const passage *p, size_t at, const size_t rows,
                         const size_t vectors) {
    vf s[OW_FLOAT_STREAM_ROWS][4];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            s[r][j] = p->starts ? vf_set(0.0f) : vf_load(bytes_of(p->sums + r * p->stride + at + j * WIDTH));
    for (size_t i = 0; i < k; i++) {
        const unsigned char *row = b + (i * b_stride + at) * size_of(dtype);
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++) {
            vf v = load_up_to(dtype, row + j * WIDTH * size_of(dtype), columns - j * WIDTH);
#pragma GCC unroll 8
            for (size_t r = 0; r < rows; r++)
                s[r][j] = vf_fma(left_at(a, r * stride + i), v, s[r][j]);
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            if (p->ends)
                add_block(p->totals + r * p->stride + at + j * WIDTH, s[r][j], p->first);
            else
                vf_store(bytes_at(p->sums + r * p->stride + at + j * WIDTH), s[r][j]);
}

INLINED void stream_block_rows(int32_t dtype, const unsigned char *a, size_t stride, const unsigned char *b,
                               size_t b_stride, size_t columns, size_t k, passage p, const size_t rows,
                               const size_t vectors) {
    for (size_t g = 0; g < k; g += STREAMS, b += STREAMS * b_stride * size_of(dtype)) {
        size_t height = k - g < STREAMS ? k - g : STREAMS, c = 0;
        p.starts = g == 0;
        p.ends = g + height == k;
        if (height == STREAMS) /* constants to unroll by */
            for (; columns - c >= vectors * WIDTH; c += vectors * WIDTH)
                stream_tile(dtype, a + g * sizeof(float), stride, b, b_stride, STREAMS, vectors * WIDTH, &p, c, rows,
                            vectors);
        for (; c < columns; c += WIDTH)
            stream_tile(dtype, a + g * sizeof(float), stride, b, b_stride, height, columns - c, &p, c, rows, 1);
    }
}

INLINED void stream_as(int32_t dtype, const unsigned char *a, size_t stride, size_t rows, const unsigned char *b,
                       size_t b_stride, size_t columns, size_t k, passage p) {
    switch (rows) {
    case 1: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 1, 4); break;
    case 2: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 2, 4); break;
    case 3: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 3, 2); break;
    case 4: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 4, 2); break;
    case 5: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 5, 2); break;
    case 6: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 6, 2); break;
    case 7: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 7, F_ROWS > 6 ? 2 : 1); break;
    default: stream_block_rows(dtype, a, stride, b, b_stride, columns, k, p, 8, F_ROWS > 6 ? 2 : 1); break;
    }
}

/* B lies as [columns, k]: as many columns as a vector has lanes are turned on their way to the multipliers. */
INLINED void turned_tile(int32_t dtype, const unsigned char *a, size_t stride, const unsigned char *b, size_t b_stride,
                         size_t columns, size_t k, int first, float *totals, size_t totals_stride, const size_t rows) {
    vf s[OW_FLOAT_TURNED_ROWS], v[WIDTH];
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
        s[r] = vf_set(0.0f);
    for (size_t i = 0; i < k; i += WIDTH) {
        load_turned(dtype, b + i * size_of(dtype), b_stride, columns, k - i, v);
        if (k - i >= WIDTH)
#pragma GCC unroll 16
            for (size_t j = 0; j < WIDTH; j++)
#pragma GCC unroll 4
                for (size_t r = 0; r < rows; r++)
                    s[r] = vf_fma(left_at(a, r * stride + i + j), v[j], s[r]);
        else
            for (size_t j = 0; j < k - i; j++)
#pragma GCC unroll 4
                for (size_t r = 0; r < rows; r++)
                    s[r] = vf_fma(left_at(a, r * stride + i + j), v[j], s[r]);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < rows; r++)
        add_block(totals + r * totals_stride, s[r], first);
}

INLINED void turned_as(int32_t dtype, const unsigned char *a, size_t stride, size_t rows, const unsigned char *b,
                       size_t b_stride, size_t columns, size_t k, int first, float *totals, size_t totals_stride) {
    for (size_t c = 0; c < columns; c += WIDTH, b += WIDTH * b_stride * size_of(dtype), totals += WIDTH)
        switch (rows) {
        case 1: turned_tile(dtype, a, stride, b, b_stride, columns - c, k, first, totals, totals_stride, 1); break;
        case 2: turned_tile(dtype, a, stride, b, b_stride, columns - c, k, first, totals, totals_stride, 2); break;
        case 3: turned_tile(dtype, a, stride, b, b_stride, columns - c, k, first, totals, totals_stride, 3); break;
        default: turned_tile(dtype, a, stride, b, b_stride, columns - c, k, first, totals, totals_stride, 4); break;
        }
}

static void stream_float(const void *a, size_t stride, size_t rows, const void *b, int32_t dtype, size_t b_stride,
                         int transposed, size_t columns, size_t k, int first, float *sums, float *totals,
                         size_t totals_stride) {
    const passage p = {sums, totals, totals_stride, 0, 0, first};
    if (transposed)
        BY_TYPE(dtype, turned_as, a, stride, rows, b, b_stride, columns, k, first, totals, totals_stride)
    else
        BY_TYPE(dtype, stream_as, a, stride, rows, b, b_stride, columns, k, p)
}

/* ---- packing ---- */

INLINED void pack_turned(int32_t dtype, const unsigned char *b, size_t stride, size_t k, size_t columns, float *panels,
                         size_t panel_size) {
    vf v[WIDTH];
    for (size_t c = 0; c < columns; c += F_PANEL, panels += panel_size)
        for (size_t i = 0; i < k; i += WIDTH)
            for (size_t j = 0; j < F_VECTORS; j++) {
                size_t height = k - i < WIDTH ? k - i : WIDTH, from = c + j * WIDTH;
                load_turned(dtype, b + (from * stride + i) * size_of(dtype), stride,
                            from < columns ? columns - from : 0, height, v);
                for (size_t h = 0; h < height; h++)
                    vf_store(bytes_at(panels + (i + h) * F_PANEL + j * WIDTH), v[h]);
            }
}

/* By rows, not by panels: so B is read in order. */
INLINED void pack_straight(int32_t dtype, const unsigned char *b, size_t stride, size_t k, size_t columns,
                           float *panels, size_t panel_size) {
    for (size_t i = 0; i < k; i++, b += stride * size_of(dtype), panels += F_PANEL) {
        float *to = panels;
        for (size_t c = 0; c < columns; c += F_PANEL, to += panel_size)
#pragma GCC unroll 8
            for (size_t j = 0; j < F_VECTORS; j++) {
                size_t from = c + j * WIDTH;
                vf_store(bytes_at(to + j * WIDTH),
                         load_up_to(dtype, b + from * size_of(dtype), from < columns ? columns - from : 0));
            }
    }
}

static void pack_float(const void *b, int32_t dtype, size_t stride, int transposed, size_t k, size_t columns,
                       float *panels, size_t panel_size) {
    if (transposed)
        BY_TYPE(dtype, pack_turned, b, stride, k, columns, panels, panel_size)
    else
        BY_TYPE(dtype, pack_straight, b, stride, k, columns, panels, panel_size)
}

INLINED void widen_as(int32_t dtype, const unsigned char *a, size_t stride, size_t rows, size_t k, float *y) {
    for (size_t r = 0; r < rows; r++, a += stride * size_of(dtype), y += k)
        for (size_t i = 0; i < k; i += WIDTH)
            store_up_to(OW_F32, bytes_at(y + i), load_up_to(dtype, a + i * size_of(dtype), k - i), k - i);
}

INLINED void widen_turned(int32_t dtype, const unsigned char *a, size_t stride, size_t rows, size_t k, float *y) {
    vf v[WIDTH];
    for (size_t i = 0; i < k; i += WIDTH)
        for (size_t r = 0; r < rows; r += WIDTH) {
            load_turned(dtype, a + (i * stride + r) * size_of(dtype), stride, k - i, rows - r, v);
            for (size_t h = 0; h < WIDTH && h < rows - r; h++)
                store_up_to(OW_F32, bytes_at(y + (r + h) * k + i), v[h], k - i);
        }
}

static void widen_float(const void *a, int32_t dtype, size_t stride, int transposed, size_t rows, size_t k, float *y) {
    if (transposed)
        BY_TYPE(dtype, widen_turned, a, stride, rows, k, y)
    else
        BY_TYPE(dtype, widen_as, a, stride, rows, k, y)
}

/* ---- what becomes of totals ---- */

INLINED void finish_as(int32_t dtype, const float *totals, size_t stride, const ow_float_finish *f) {
    const size_t size = size_of(dtype);
    const vf alpha = vf_set(f->alpha), beta = vf_set(f->beta);
    const unsigned char *c = f->c;
    unsigned char *y = f->y;
    for (size_t r = 0; r < f->rows; r++, totals += stride, y += f->y_row * size) {
        float one[WIDTH] = {0.0f}; /* of C, where it serves all columns */
        if (c && !f->c_column)
            vf_store(bytes_at(one), load_part_as(dtype, c, 1));
        for (size_t i = 0; i < f->columns; i += WIDTH) {
            size_t rest = f->columns - i;
            vf t = vf_mul(alpha, vf_load(bytes_of(totals + i))); /* by 1 changes nothing but a NaN */
            if (c)
                t = vf_add(t, vf_mul(beta, f->c_column ? load_up_to(dtype, c + i * size, rest) : vf_set(one[0])));
            store_up_to(dtype, y + i * size, or_nan(t, t, t), rest);
        }
        c = c ? c + f->c_row * size : NULL;
    }
}

static void finish_float(const float *totals, size_t stride, const ow_float_finish *f) {
    BY_TYPE(f->dtype, finish_as, totals, stride, f)
}

static const ow_float_products float_products = {
    .panel = F_PANEL,
    .widen = widen_float,
    .pack = pack_float,
    .multiply = multiply_float,
    .stream = stream_float,
    .finish = finish_float,
};

/* Products of 8-bit matrices, in the words of simd/dot_*.h; see products.h for what they are. */

#define PANEL (PANEL_VECTORS * WIDTH)
#define RIGHT_BYTES (GROUP * WIDTH) /* of a packed vector */
#define INLINED static inline __attribute__((always_inline))
_Static_assert(PANEL <= OW_PANEL_MAX, "a panel fits the buffers that callers have for one");

static int32_t pack_left(const void *source, size_t k, int is_signed, int32_t zero_point, void *target) {
    const unsigned char *a = source;
    left *y = target;
    uint32_t total = 0;
    const unsigned flip = is_signed ? 0x80 : 0; /* a signed a, flipped, is a + 128 */
    const int32_t lowered = LEFT_CENTRED ? zero_point + (is_signed ? 128 : 0) : 0;
    for (size_t i = 0; i < k; i++) {
        int32_t v = (int32_t)(a[i] ^ flip) - lowered;
        total += (uint32_t)v;
        y[i] = (left)v;
    }
    for (size_t i = k; i % GROUP; i++)
        y[i] = 0; /* partners of the last elements, which would meet what is not theirs */
    if (!LEFT_CENTRED)
        total -= (uint32_t)k * (uint32_t)(zero_point + (is_signed ? 128 : 0));
    return (int32_t)total;
}

/* One group of rows into each of the panels, which are panel_size bytes apart. */
INLINED void pack_group(const unsigned char *b, size_t stride, size_t rows, size_t columns, unsigned char flip,
                        int8_t *panels, size_t panel_size) {
    vr v[PANEL_VECTORS];
    for (size_t c = 0; c < columns; c += PANEL, panels += panel_size) {
        vr_rows(b + c, stride, rows, columns - c, flip, v);
        for (size_t j = 0; j < PANEL_VECTORS; j++)
            vr_store(panels + j * RIGHT_BYTES, v[j]);
    }
}

/* By rows of B, not by panels: so it is read in order. */
static void pack_right(const void *source, size_t stride, size_t k, size_t columns, unsigned char flip, int8_t *panels,
                       size_t panel_size) {
    const unsigned char *b = source;
    size_t i = 0;
    for (; k - i >= GROUP; i += GROUP)
        pack_group(b + i * stride, stride, GROUP, columns, flip, panels + i * PANEL, panel_size);
    if (i < k) /* what stands for the rows that are not there meets zeros of the left matrix */
        pack_group(b + i * stride, stride, k - i, columns, flip, panels + i * PANEL, panel_size);
}

INLINED void tile(const left *a, size_t stride, const int8_t *panel, size_t groups, int32_t *sums, const size_t rows) {
    vs s[TILE_ROWS][PANEL_VECTORS];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (size_t j = 0; j < PANEL_VECTORS; j++)
            s[r][j] = vs_load(sums + r * PANEL + j * WIDTH);
    for (size_t g = 0; g < groups; g++) {
        vq b[PANEL_VECTORS];
#pragma GCC unroll 16
        for (size_t j = 0; j < PANEL_VECTORS; j++)
            b[j] = vq_of(vr_load(panel + (g * PANEL_VECTORS + j) * RIGHT_BYTES));
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            va x = va_load(a + r * stride + g * GROUP);
#pragma GCC unroll 16
            for (size_t j = 0; j < PANEL_VECTORS; j++)
                s[r][j] = vs_dot(s[r][j], x, b[j]);
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (size_t j = 0; j < PANEL_VECTORS; j++)
            vs_store(sums + r * PANEL + j * WIDTH, s[r][j]);
}

static void multiply(const void *rows_of_left, size_t stride, size_t rows, const int8_t *panel, size_t groups,
                     int32_t *sums) {
    const left *a = rows_of_left;
    for (size_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS; tiles; tiles--) {
        size_t now = rows / tiles; /* tiles of about one height: no thin one is left over */
        switch (now) {
        case 1: tile(a, stride, panel, groups, sums, 1); break;
        case 2: tile(a, stride, panel, groups, sums, 2); break;
#if TILE_ROWS > 2
        case 3: tile(a, stride, panel, groups, sums, 3); break;
        case 4: tile(a, stride, panel, groups, sums, 4); break;
        case 5: tile(a, stride, panel, groups, sums, 5); break;
        default: tile(a, stride, panel, groups, sums, 6); break;
#endif
        }
        a += now * stride, sums += now * PANEL, rows -= now;
    }
}

enum { STREAM_GROUPS = 4 }; /* so many groups of B's rows are read side by side */

INLINED void stream_block(const left *a, size_t stride, const unsigned char *b, size_t b_stride, size_t k,
                          size_t columns, unsigned char flip, int32_t *sums, size_t sums_stride, const size_t rows) {
    vs s[OW_STREAM_ROWS][PANEL_VECTORS];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (size_t j = 0; j < PANEL_VECTORS; j++)
            s[r][j] = vs_load(sums + r * sums_stride + j * WIDTH);
    for (size_t g = 0; g < k; g += GROUP) {
        vr v[PANEL_VECTORS];
        vr_rows(b + g * b_stride, b_stride, k - g, columns, flip, v);
#pragma GCC unroll 16
        for (size_t j = 0; j < PANEL_VECTORS; j++) {
            vq w = vq_of(v[j]);
#pragma GCC unroll 8
            for (size_t r = 0; r < rows; r++)
                s[r][j] = vs_dot(s[r][j], va_load(a + r * stride + g), w);
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 16
        for (size_t j = 0; j < PANEL_VECTORS; j++)
            vs_store(sums + r * sums_stride + j * WIDTH, s[r][j]);
}

INLINED void stream_rows(const left *a, size_t stride, const unsigned char *b, size_t b_stride, size_t k,
                         size_t columns, unsigned char flip, int32_t *sums, size_t sums_stride, const size_t rows) {
    for (size_t g = 0; g < k; g += STREAM_GROUPS * GROUP) {
        size_t height = k - g < STREAM_GROUPS * GROUP ? k - g : STREAM_GROUPS * GROUP, c = 0;
        const unsigned char *from = b + g * b_stride;
        if (height == STREAM_GROUPS * GROUP)
            for (; columns - c >= PANEL; c += PANEL) /* constants for the compiler to unroll by */
                stream_block(a + g, stride, from + c, b_stride, STREAM_GROUPS * GROUP, PANEL, flip, sums + c,
                             sums_stride, rows);
        for (; c < columns; c += PANEL)
            stream_block(a + g, stride, from + c, b_stride, height, columns - c, flip, sums + c, sums_stride, rows);
    }
}

static void stream(const void *rows_of_left, size_t stride, size_t rows, const void *right, size_t b_stride, size_t k,
                   size_t columns, unsigned char flip, int32_t *sums, size_t sums_stride) {
    const left *a = rows_of_left;
    const unsigned char *b = right;
    switch (rows) {
    case 1: stream_rows(a, stride, b, b_stride, k, columns, flip, sums, sums_stride, 1); break;
    case 2: stream_rows(a, stride, b, b_stride, k, columns, flip, sums, sums_stride, 2); break;
    case 3: stream_rows(a, stride, b, b_stride, k, columns, flip, sums, sums_stride, 3); break;
    case 4: stream_rows(a, stride, b, b_stride, k, columns, flip, sums, sums_stride, 4); break;
    default: stream_rows(a, stride, b, b_stride, k, columns, flip, sums, sums_stride, 5); break;
    }
}

static void order(const int32_t *sums, int32_t *ordered) {
    vs s[PANEL_VECTORS];
    for (size_t j = 0; j < PANEL_VECTORS; j++)
        s[j] = vs_load(sums + j * WIDTH);
    vs_order(s);
    for (size_t j = 0; j < PANEL_VECTORS; j++)
        vs_store(ordered + j * WIDTH, s[j]);
}

/* C10f: rint(sum * scale), a NaN counting as 0, then the zero point added, then saturated: the bounds are moved by the
 * zero point instead, which is exact and keeps what is converted small. */
INLINED vs requantised(vf product, const ow_finish *f) {
    vf p = vf_pick(vf_unordered(product, product), vf_set(0.0f), vf_round_even(product));
    p = vf_max(p, vf_set((float)(f->lowest - f->zero_point)));
    p = vf_min(p, vf_set((float)(f->highest - f->zero_point)));
    return vs_add(vs_of(p), vs_set(f->zero_point));
}

static void finish(const int32_t *sums, const ow_finish *f, void *target) {
    const size_t size = f->to == OW_FINISH_BYTES ? 1 : 4;
    unsigned char part[4 * PANEL], *y = f->columns < PANEL ? part : target;
    const vs row_sum = vs_set(f->row_sum), left_zero = vs_set(f->left_zero);
    vs s[PANEL_VECTORS];
    for (size_t j = 0; j < PANEL_VECTORS; j++)
        s[j] = vs_load(sums + j * WIDTH);
    vs_order(s);
    for (size_t j = 0; j < PANEL_VECTORS; j++) {
        s[j] = vs_sub(s[j], vs_mul(row_sum, vs_load(f->right_zeros + j * WIDTH)));
        if (f->column_sums)
            s[j] = vs_sub(s[j], vs_mul(left_zero, vs_load(f->column_sums + j * WIDTH)));
        unsigned char *at = y + j * WIDTH * size;
        if (f->to == OW_FINISH_SUMS) {
            int32_t values[WIDTH];
            vs_store(values, s[j]);
            memcpy(at, values, sizeof values);
            continue;
        }
        vf p = vf_mul(vf_of(s[j]), vf_load((const unsigned char *)(f->scales + j * WIDTH)));
        if (f->to == OW_FINISH_BYTES) {
            vs_store_bytes(at, requantised(p, f));
            continue;
        }
        if (f->bias)
            p = vf_add(p, vf_load((const unsigned char *)(f->bias + j * WIDTH)));
        vf_store(at, or_nan(p, p, p));
    }
    if (y == part)
        memcpy(target, part, f->columns * size);
}

static const ow_products products = {
    .group = GROUP,
    .panel = PANEL,
    .left_size = sizeof(left),
    .centred = LEFT_CENTRED,
    .pack_left = pack_left,
    .pack_right = pack_right,
    .multiply = multiply,
    .stream = stream,
    .finish = finish,
    .order = order,
};

/* Products with a block-quantised matrix, in the words of simd/nbits_*.h; see block_products.h for what they are. */

#define BLOCK_PANEL (BLOCK_VECTORS * WIDTH)
#define WORD_LINE (4 * BLOCK_PANEL) /* bytes of a word of every column of a panel */
_Static_assert(BLOCK_PANEL <= OW_BLOCK_PANEL_MAX, "a panel fits the buffers that callers have for one");
_Static_assert(BLOCK_VECTORS % CHAIN_VECTORS == 0, "tiles fill a panel");

/* One block of a panel. */
typedef struct block_view {
    const unsigned char *scales, *zeros, *words;
    size_t count; /* k that are there */
} block_view;

INLINED block_view view_of(const ow_blocked *b, const unsigned char *panel, size_t index) {
    block_view v;
    size_t from = index * b->block;
    v.scales = panel + index * b->bytes;
    v.zeros = v.scales + 4 * BLOCK_PANEL;
    v.words = v.zeros + b->zero_size * BLOCK_PANEL;
    v.count = b->k - from < b->block ? b->k - from : b->block;
    return v;
}

INLINED size_t blocks_of(const ow_blocked *b) { return b->k / b->block + (b->k % b->block != 0); }

/* ---- level 0: binary32 ---- */

INLINED void weights_of(const unsigned char *p, const vw_table *t, const int bits, vf *w) {
    if (bits == 4)
        vw_weights_4(p, t, w);
    else
        vw_weights_8(p, t, w);
}

INLINED vf broadcast_of(const float *a) { return vf_set(*a); }

/* Some vectors of a panel, all of K. */
INLINED void direct_columns(const float *a, size_t stride, const ow_blocked *b, const unsigned char *panel,
                            const vw_table *table, size_t first, float *totals, const int bits, const int zeros,
                            const size_t rows, const size_t vectors) {
    const size_t per_word = (size_t)(32 / bits), blocks = blocks_of(b);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < vectors; j++)
            vf_store((unsigned char *)(totals + r * BLOCK_PANEL + (first + j) * WIDTH), vf_set(0.0f));
    for (size_t n = 0; n < blocks; n++, a += b->block) {
        const block_view block = view_of(b, panel, n);
        const unsigned char *line = block.words + 4 * WIDTH * first;
        vf s[OW_DIRECT_ROWS][BLOCK_VECTORS], zero[BLOCK_VECTORS];
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++) {
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++)
                s[r][j] = vf_set(0.0f);
            if (zeros)
                zero[j] = vf_of(vs_bytes(block.zeros + (first + j) * WIDTH));
        }
        size_t k = 0;
        for (; block.count - k >= per_word; k += per_word, line += WORD_LINE) {
#pragma GCC unroll 8
            for (size_t j = 0; j < vectors; j++) {
                vf w[8];
                weights_of(line + 4 * WIDTH * j, table, bits, w);
#pragma GCC unroll 8
                for (size_t i = 0; i < per_word; i++) {
                    if (zeros)
                        w[i] = vf_sub(w[i], zero[j]);
#pragma GCC unroll 4
                    for (size_t r = 0; r < rows; r++)
                        s[r][j] = vf_fma(broadcast_of(a + r * stride + k + i), w[i], s[r][j]);
                }
            }
        }
        if (k < block.count) /* what is behind K is not visited */
#pragma GCC unroll 8
            for (size_t j = 0; j < vectors; j++) {
                vf w[8];
                weights_of(line + 4 * WIDTH * j, table, bits, w);
                for (size_t i = 0; i < block.count - k; i++) {
                    vf v = zeros ? vf_sub(w[i], zero[j]) : w[i];
#pragma GCC unroll 4
                    for (size_t r = 0; r < rows; r++)
                        s[r][j] = vf_fma(broadcast_of(a + r * stride + k + i), v, s[r][j]);
                }
            }
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++) {
            vf scale = vf_load(block.scales + 4 * (first + j) * WIDTH);
#pragma GCC unroll 4
            for (size_t r = 0; r < rows; r++) {
                unsigned char *total = (unsigned char *)(totals + r * BLOCK_PANEL + (first + j) * WIDTH);
                vf_store(total, vf_fma(s[r][j], scale, vf_load(total)));
            }
        }
    }
}

INLINED void direct_rows(const float *a, size_t stride, const ow_blocked *b, const unsigned char *panel, float *totals,
                         const int bits, const int zeros, const size_t rows) {
    const vw_table table = vw_table_of(zeros ? 0.0f : (float)b->zero);
    const size_t step = rows == 1 ? BLOCK_VECTORS : CHAIN_VECTORS;
    for (size_t first = 0; first < BLOCK_VECTORS; first += step)
        direct_columns(a, stride, b, panel, &table, first, totals, bits, zeros, rows, step);
}

#define DIRECT(name, bits, zeros)                                                                                 \
    static void name(const float *a, size_t stride, size_t rows, const ow_blocked *b, const unsigned char *panel, \
                     float *totals) {                                                                             \
        switch (rows) {                                                                                           \
        case 1: direct_rows(a, stride, b, panel, totals, bits, zeros, 1); break;                                  \
        case 2: direct_rows(a, stride, b, panel, totals, bits, zeros, 2); break;                                  \
        case 3: direct_rows(a, stride, b, panel, totals, bits, zeros, 3); break;                                  \
        default: direct_rows(a, stride, b, panel, totals, bits, zeros, 4); break;                                 \
        }                                                                                                         \
    }
DIRECT(direct_4, 4, 0)
DIRECT(direct_4_zeros, 4, 1)
DIRECT(direct_8, 8, 0)
DIRECT(direct_8_zeros, 8, 1)

static void block_direct(const float *a, size_t stride, size_t rows, const ow_blocked *b, const unsigned char *panel,
                         float *totals) {
    if (b->bits == 4)
        (b->zero_size ? direct_4_zeros : direct_4)(a, stride, rows, b, panel, totals);
    else
        (b->zero_size ? direct_8_zeros : direct_8)(a, stride, rows, b, panel, totals);
}

INLINED vf zero_of(const ow_blocked *b, const block_view *block, size_t j) {
    return b->zero_size == 4   ? vf_load(block->zeros + 4 * j * WIDTH)
           : b->zero_size == 1 ? vf_of(vs_bytes(block->zeros + j * WIDTH))
                               : vf_set((float)b->zero);
}

INLINED void expand_columns(const ow_blocked *b, const unsigned char *panel, size_t from, size_t count,
                            const int32_t *groups, size_t j, float *weights, const int bits) {
    const size_t per_word = (size_t)(32 / bits);
    const block_view block = view_of(b, panel, from / b->block);
    const vw_table table = vw_table_of(0.0f);
    const unsigned char *line = block.words + from % b->block / per_word * WORD_LINE + 4 * WIDTH * j;
    vf zero = zero_of(b, &block, j), scale = vf_set(1.0f);
    for (size_t k = 0; k < count; k += per_word, line += WORD_LINE) {
        vf w[8];
        weights_of(line, &table, bits, w);
#pragma GCC unroll 8
        for (size_t i = 0; i < per_word; i++) {
            if (k + i >= count)
                break;
            if (groups) {
                const block_view group = view_of(b, panel, (size_t)groups[from + k + i]);
                zero = zero_of(b, &group, j), scale = vf_load(group.scales + 4 * j * WIDTH);
            }
            vf v = vf_sub(w[i], zero);
            vf_store((unsigned char *)(weights + (k + i) * BLOCK_PANEL + j * WIDTH), groups ? vf_mul(v, scale) : v);
        }
    }
}

static void block_expand(const ow_blocked *b, const unsigned char *panel, size_t from, size_t count,
                         const int32_t *groups, float *weights) {
    for (size_t j = 0; j < BLOCK_VECTORS; j++)
        if (b->bits == 4)
            expand_columns(b, panel, from, count, groups, j, weights, 4);
        else
            expand_columns(b, panel, from, count, groups, j, weights, 8);
}

INLINED void chain_tile(const float *a, size_t stride, const float *weights, size_t count, int part,
                        const float *scales, float *sums, float *totals, const size_t rows) {
    vf s[CHAIN_ROWS][CHAIN_VECTORS];
#pragma GCC unroll 8
    for (size_t r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (size_t j = 0; j < CHAIN_VECTORS; j++)
            s[r][j] =
                part & OW_CHAIN_BEGINS ? vf_set(0.0f) : vf_load((unsigned char *)(sums + r * BLOCK_PANEL + j * WIDTH));
    for (size_t k = 0; k < count; k++) {
        vf w[CHAIN_VECTORS];
#pragma GCC unroll 8
        for (size_t j = 0; j < CHAIN_VECTORS; j++)
            w[j] = vf_load((const unsigned char *)(weights + k * BLOCK_PANEL + j * WIDTH));
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            vf x = broadcast_of(a + r * stride + k);
#pragma GCC unroll 8
            for (size_t j = 0; j < CHAIN_VECTORS; j++)
                s[r][j] = vf_fma(x, w[j], s[r][j]);
        }
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < CHAIN_VECTORS; j++) {
        vf scale = vf_load((const unsigned char *)(scales + j * WIDTH));
#pragma GCC unroll 8
        for (size_t r = 0; r < rows; r++) {
            size_t at = r * BLOCK_PANEL + j * WIDTH;
            unsigned char *total = (unsigned char *)(totals + at);
            if (part & OW_CHAIN_ENDS)
                vf_store(total, vf_fma(s[r][j], scale, vf_load(total)));
            else
                vf_store((unsigned char *)(sums + at), s[r][j]);
        }
    }
}

static void block_chain(const float *a, size_t stride, size_t rows, const float *weights, size_t count, int part,
                        const float *scales, float *sums, float *totals) {
    for (size_t tiles = (rows + CHAIN_ROWS - 1) / CHAIN_ROWS; tiles; tiles--) {
        size_t now = rows / tiles; /* tiles of about one height: no thin one is left over */
        for (size_t j = 0; j < BLOCK_PANEL; j += CHAIN_VECTORS * WIDTH) {
#define TILE(rows) chain_tile(a, stride, weights + j, count, part, scales + j, sums + j, totals + j, rows)
            switch (now) {
            case 1: TILE(1); break;
            case 2: TILE(2); break;
#if CHAIN_ROWS > 2
            case 3: TILE(3); break;
            case 4: TILE(4); break;
            case 5: TILE(5); break;
            default: TILE(6); break;
#endif
            }
#undef TILE
        }
        a += now * stride, sums += now * BLOCK_PANEL, totals += now * BLOCK_PANEL, rows -= now;
    }
}

/* ---- level 4: activations as 8-bit integers ---- */

/* A vector of them: rint(a / scale), in [-127, 127]. */
INLINED vs integers_of(vf a, vf scale) {
    vf q = vf_round_even(vf_div(a, scale));
    return vs_of(vf_min(vf_max(q, vf_set(-127.0f)), vf_set(127.0f)));
}

INLINED vf part_of(const unsigned char *a, size_t count, size_t k) {
    return count - k < WIDTH ? vf_load_part(a + 4 * k, count - k) : vf_load(a + 4 * k);
}

/* The largest magnitude; NaN where one is NaN or infinite. */
INLINED float magnitude_of(const unsigned char *a, size_t count) {
    vf most = vf_set(0.0f), bad = most;
    float lanes[2][WIDTH];
    for (size_t k = 0; k < count; k += WIDTH) {
        vf v = part_of(a, count, k);
        most = vf_max(most, vf_abs(v));
        bad = vf_add(bad, vf_sub(v, v)); /* 0 of a finite number, else NaN */
    }
    vf_store((unsigned char *)lanes[0], most), vf_store((unsigned char *)lanes[1], bad);
    float m = lanes[0][0], b = lanes[1][0];
    for (size_t i = 1; i < WIDTH; i++)
        m = lanes[0][i] > m ? lanes[0][i] : m, b += lanes[1][i];
    return m + b;
}

static void block_quantise(const float *row, const ow_blocked *b, int8_t *values, float *scales, int32_t *sums) {
    const size_t blocks = blocks_of(b);
    for (size_t n = 0; n < blocks; n++) {
        const unsigned char *a = (const unsigned char *)(row + n * b->block);
        const size_t count = b->k - n * b->block < b->block ? b->k - n * b->block : b->block;
        int8_t *y = values + n * b->block;
        float scale = magnitude_of(a, count) / 127.0f;
        scales[n] = scale;
        sums[n] = 0;
        if (!(scale > 0.0f)) { /* zeros, or a NaN, which makes every total one */
            memset(y, 0, (count + 7) / 8 * 8);
            continue;
        }
        int32_t lanes[WIDTH];
        vs part = vs_set(0);
        size_t filled = 0;
        for (size_t k = 0; k < count; k += WIDTH) {
            vf v = part_of(a, count, k);
            vs q = integers_of(v, vf_set(scale));
            part = vs_add(part, q);
            vs_store_bytes((unsigned char *)y + k, q);
            filled = k + WIDTH;
        }
        for (size_t k = filled; k % 8; k++)
            y[k] = 0;
        vs_store(lanes, part);
        for (size_t i = 0; i < WIDTH; i++)
            sums[n] += lanes[i];
        if (b->bits == 4)
            for (size_t k = 0; k < count; k += 8) { /* low halves of a word's bytes, then high ones */
                int8_t p[8];
                memcpy(p, y + k, 8);
                y[k] = p[0], y[k + 1] = p[2], y[k + 2] = p[4], y[k + 3] = p[6];
                y[k + 4] = p[1], y[k + 5] = p[3], y[k + 6] = p[5], y[k + 7] = p[7];
            }
    }
}

INLINED void dots_tile(const ow_quantised_row *row, size_t value_stride, size_t block_stride, const ow_blocked *b,
                       const unsigned char *panel, size_t first, float *totals, const int bits, const int zeros,
                       const size_t rows, const size_t vectors) {
    const size_t per_word = (size_t)(32 / bits), blocks = blocks_of(b);
    const vs common = vs_set(b->zero);
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < vectors; j++)
            vf_store((unsigned char *)(totals + r * BLOCK_PANEL + (first + j) * WIDTH), vf_set(0.0f));
    for (size_t n = 0; n < blocks; n++) {
        const block_view block = view_of(b, panel, n);
        const unsigned char *line = block.words + 4 * WIDTH * first;
        const int8_t *a = row->values + n * b->block;
        vs s[CHAIN_ROWS][BLOCK_VECTORS];
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++) {
            vs zero = zeros ? vs_bytes(block.zeros + (first + j) * WIDTH) : common;
#pragma GCC unroll 8
            for (size_t r = 0; r < rows; r++)
                s[r][j] = vs_sub(vs_set(0), vs_mul(zero, vs_set(row->sums[r * block_stride + n])));
        }
        for (size_t k = 0; k < block.count; k += per_word, line += WORD_LINE)
#pragma GCC unroll 8
            for (size_t j = 0; j < vectors; j++) {
                const vw x = vw_load(line + 4 * WIDTH * j);
                const vw_halves halves = vw_split(x);
#pragma GCC unroll 8
                for (size_t r = 0; r < rows; r++)
                    s[r][j] = bits == 4 ? vs_dot_4(s[r][j], halves, a + r * value_stride + k)
                                        : vs_dot_8(s[r][j], x, a + r * value_stride + k);
            }
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++) {
            vf scale = vf_load(block.scales + 4 * (first + j) * WIDTH);
#pragma GCC unroll 8
            for (size_t r = 0; r < rows; r++) {
                unsigned char *total = (unsigned char *)(totals + r * BLOCK_PANEL + (first + j) * WIDTH);
                vf both = vf_mul(vf_set(row->scales[r * block_stride + n]), scale);
                vf_store(total, vf_fma(vf_of(s[r][j]), both, vf_load(total)));
            }
        }
    }
}

INLINED void dots_rows(const ow_quantised_row *row, size_t value_stride, size_t block_stride, const ow_blocked *b,
                       const unsigned char *panel, float *totals, const int bits, const int zeros, const size_t rows) {
    const size_t step = rows == 1 ? BLOCK_VECTORS : CHAIN_VECTORS;
    for (size_t first = 0; first < BLOCK_VECTORS; first += step)
        dots_tile(row, value_stride, block_stride, b, panel, first, totals, bits, zeros, rows, step);
}

#define DOTS(name, bits, zeros)                                                                                  \
    static void name(const ow_quantised_row *row, size_t value_stride, size_t block_stride, const ow_blocked *b, \
                     const unsigned char *panel, float *totals, size_t rows) {                                   \
        switch (rows) {                                                                                          \
        case 1: dots_rows(row, value_stride, block_stride, b, panel, totals, bits, zeros, 1); break;             \
        case 2:                                                                                                  \
            dots_rows(row, value_stride, block_stride, b, panel, totals, bits, zeros, 2);                        \
            break;                                                                                               \
            DOTS_MORE(bits, zeros)                                                                               \
        }                                                                                                        \
    }
#if CHAIN_ROWS > 2
#define DOTS_MORE(bits, zeros)                                                                   \
    case 3: dots_rows(row, value_stride, block_stride, b, panel, totals, bits, zeros, 3); break; \
    case 4: dots_rows(row, value_stride, block_stride, b, panel, totals, bits, zeros, 4); break; \
    case 5: dots_rows(row, value_stride, block_stride, b, panel, totals, bits, zeros, 5); break; \
    default: dots_rows(row, value_stride, block_stride, b, panel, totals, bits, zeros, 6); break;
#else
#define DOTS_MORE(bits, zeros)
#endif
DOTS(dots_4, 4, 0)
DOTS(dots_4_zeros, 4, 1)
DOTS(dots_8, 8, 0)
DOTS(dots_8_zeros, 8, 1)

static void block_dots(const ow_quantised_row *first, size_t value_stride, size_t block_stride, size_t rows,
                       const ow_blocked *b, const unsigned char *panel, float *totals) {
    ow_quantised_row row = *first;
    for (size_t tiles = (rows + CHAIN_ROWS - 1) / CHAIN_ROWS; tiles; tiles--) {
        size_t now = rows / tiles;
        if (b->bits == 4)
            (b->zero_size ? dots_4_zeros : dots_4)(&row, value_stride, block_stride, b, panel, totals, now);
        else
            (b->zero_size ? dots_8_zeros : dots_8)(&row, value_stride, block_stride, b, panel, totals, now);
        row.values += now * value_stride, row.scales += now * block_stride, row.sums += now * block_stride;
        totals += now * BLOCK_PANEL, rows -= now;
    }
}

static void block_finish(const float *totals, const float *bias, size_t n, float *y) {
    for (size_t i = 0; i < n; i += WIDTH) {
        vf v = vf_load((const unsigned char *)(totals + i));
        if (bias)
            v = vf_add(v, vf_load((const unsigned char *)(bias + i)));
        vf_store((unsigned char *)(y + i), or_nan(v, v, v));
    }
}

static const ow_block_products block_products = {
    .panel = BLOCK_PANEL,
    .direct = block_direct,
    .expand = block_expand,
    .chain = block_chain,
    .quantise = block_quantise,
    .dots = block_dots,
    .finish = block_finish,
};

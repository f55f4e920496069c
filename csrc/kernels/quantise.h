/* Steps of quantising, in the words of simd/; see quantisers.h for what they are. */

static const unsigned char *floats_at(const float *p, size_t i) { return (const unsigned char *)(p + i); }

static void quantise_divide(const float *x, const float *scales, size_t step, size_t n, float *q) {
    vf scale = vf_set(scales[0]);
    for (size_t i = 0; i < n; i += WIDTH) {
        if (step)
            scale = vf_load(floats_at(scales, i));
        vf_store((unsigned char *)(q + i), vf_div(vf_load(floats_at(x, i)), scale));
    }
}

/* The bounds are moved by the zero point instead of the number: exact, and what is converted stays small. */
INLINED vs rounded(vf p, vs zero, int32_t lowest, int32_t highest) {
    p = vf_pick(vf_unordered(p, p), vf_set(0.0f), vf_round_even(p));
    p = vf_max(p, vf_of(vs_sub(vs_set(lowest), zero)));
    p = vf_min(p, vf_of(vs_sub(vs_set(highest), zero)));
    return vs_add(vs_of(p), zero);
}

static void quantise_round(const float *q, const int32_t *zeros, size_t step, size_t n, int32_t lowest, int32_t highest,
                           int32_t *y) {
    vs zero = vs_set(zeros[0]);
    for (size_t i = 0; i < n; i += WIDTH) {
        if (step)
            zero = vs_load(zeros + i);
        vs_store(y + i, rounded(vf_load(floats_at(q, i)), zero, lowest, highest));
    }
}

INLINED vf scaled(vs x, vs zero, vf scale) {
    vf p = vf_mul(vf_of(vs_sub(x, zero)), scale);
    return or_nan(p, p, p);
}

static void quantise_scale(const int32_t *x, const int32_t *zeros, const float *scales, size_t step, size_t n,
                           float *y) {
    vf scale = vf_set(scales[0]);
    vs zero = vs_set(zeros[0]);
    for (size_t i = 0; i < n; i += WIDTH) {
        if (step)
            scale = vf_load(floats_at(scales, i)), zero = vs_load(zeros + i);
        vf_store((unsigned char *)(y + i), scaled(vs_load(x + i), zero, scale));
    }
}

/* A tail goes through a buffer, filled up with zeros. */
static void quantise_to_bytes(const void *source, float one_scale, int32_t one_zero, size_t n, int32_t lowest,
                              int32_t highest, void *target) {
    const unsigned char *x = source;
    unsigned char *y = target, end[WIDTH];
    const vf scale = vf_set(one_scale);
    const vs zero = vs_set(one_zero);
    size_t i = 0;
    for (; n - i >= WIDTH; i += WIDTH)
        vs_store_bytes(y + i, rounded(vf_div(vf_load(x + 4 * i), scale), zero, lowest, highest));
    if (i < n) {
        vs_store_bytes(end, rounded(vf_div(vf_load_part(x + 4 * i, n - i), scale), zero, lowest, highest));
        memcpy(y + i, end, n - i);
    }
}

static void quantise_from_bytes(const void *source, int is_signed, int32_t one_zero, float one_scale, size_t n,
                                void *target) {
    const unsigned char *x = source;
    unsigned char *y = target, end[WIDTH] = {0};
    const vf scale = vf_set(one_scale);
    const vs zero = vs_set(one_zero);
    size_t i = 0;
    for (; n - i >= WIDTH; i += WIDTH)
        vf_store(y + 4 * i, scaled(vs_load_bytes(x + i, is_signed), zero, scale));
    if (i < n) {
        memcpy(end, x + i, n - i);
        vf_store_part(y + 4 * i, scaled(vs_load_bytes(end, is_signed), zero, scale), n - i);
    }
}

static void quantise_extent(const void *source, size_t n, float *least, float *most) {
    const unsigned char *x = source;
    const vf nan = vf_from_bits(0x7fc00000u);
    vf low = vf_set(0.0f), high = low, bad = low;
    for (size_t i = 0; i < n; i += WIDTH) {
        vf v = n - i < WIDTH ? vf_load_part(x + 4 * i, n - i) : vf_load(x + 4 * i); /* a part is filled up with zeros */
        low = vf_min(low, v), high = vf_max(high, v);
        bad = vf_pick(vf_unordered(v, v), nan, bad);
    }
    float lows[WIDTH], highs[WIDTH], bads[WIDTH];
    vf_store((unsigned char *)lows, low), vf_store((unsigned char *)highs, high), vf_store((unsigned char *)bads, bad);
    *least = *most = 0.0f;
    for (size_t i = 0; i < WIDTH; i++) {
        *least = lows[i] < *least ? lows[i] : *least;
        *most = highs[i] > *most ? highs[i] : *most;
    }
    for (size_t i = 0; i < WIDTH; i++)
        if (bads[i] != bads[i])
            *least = *most = bads[i];
}

static const ow_quantisers quantisers = {.divide = quantise_divide,
                                         .round = quantise_round,
                                         .scale = quantise_scale,
                                         .to_bytes = quantise_to_bytes,
                                         .from_bytes = quantise_from_bytes,
                                         .extent = quantise_extent};

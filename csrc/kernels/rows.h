/* From the bodies of the unary ops, the loops that run them on x plus a row (a bias), which is added to every row of x;
 * the sum is rounded once, to binary32 (C2), also where both are widened from a half type and the result is narrowed
 * (C5). With the loads and stores of loops.h.
 *
 * A short row is repeated to TILE elements or more first: vectors stay full whatever the width. */
enum { TILE = 128 };

#define BIASED_LOOP(name, type, size)                                                                               \
    static void name##_biased_##type(const void *source, const void *row, void *target, size_t n, size_t width,     \
                                     const ow_params *params) {                                                     \
        unsigned char tile[2 * TILE * size];                                                                        \
        const unsigned char *x = source, *bias = row;                                                               \
        unsigned char *y = target;                                                                                  \
        const vf alpha = vf_set(params->alpha), beta = vf_set(params->beta);                                        \
        if (width < TILE && width < n) {                                                                            \
            size_t period = 0;                                                                                      \
            for (; period < TILE; period += width)                                                                  \
                memcpy(tile + period * size, row, width * size);                                                    \
            bias = tile, width = period;                                                                            \
        }                                                                                                           \
        while (n) {                                                                                                 \
            size_t end = n < width ? n : width, i = 0;                                                              \
            for (; end - i >= WIDTH; i += WIDTH) {                                                                  \
                vf v = vf_add(load_##type(x + i * size), load_##type(bias + i * size));                             \
                store_##type(y + i * size, name##_lanes(v, alpha, beta));                                           \
            }                                                                                                       \
            if (end - i > 0) {                                                                                      \
                vf v = vf_add(load_part_##type(x + i * size, end - i), load_part_##type(bias + i * size, end - i)); \
                store_part_##type(y + i * size, name##_lanes(v, alpha, beta), end - i);                             \
            }                                                                                                       \
            x += end * size, y += end * size, n -= end;                                                             \
        }                                                                                                           \
    }

#define K(name) BIASED_LOOP(name, f32, 4) BIASED_LOOP(name, f16, 2) BIASED_LOOP(name, bf16, 2)
OW_BIASED_KERNELS(K)
#undef K

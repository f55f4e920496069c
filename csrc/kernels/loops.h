/* From the bodies of the unary ops, the loops that run them over a tensor. */

/* Bytes, not floats: a tensor may start at any address. */
#define UNARY_LOOP(name)                                                                                \
    static void name##_f32(const void *source, void *target, size_t n, const ow_params *params) {       \
        const unsigned char *x = source;                                                                \
        unsigned char *y = target;                                                                      \
        const vf alpha = vf_set(params->alpha), beta = vf_set(params->beta);                            \
        size_t i = 0;                                                                                   \
        for (; n - i >= WIDTH * UNROLL; i += WIDTH * UNROLL)                                            \
            for (size_t k = 0; k < UNROLL; k++) {                                                       \
                size_t at = 4 * (i + k * WIDTH);                                                        \
                vf_store(y + at, name##_lanes(vf_load(x + at), alpha, beta));                           \
            }                                                                                           \
        for (; n - i >= WIDTH; i += WIDTH)                                                              \
            vf_store(y + 4 * i, name##_lanes(vf_load(x + 4 * i), alpha, beta));                         \
        if (n - i > 0)                                                                                  \
            vf_store_part(y + 4 * i, name##_lanes(vf_load_part(x + 4 * i, n - i), alpha, beta), n - i); \
    }

#define K(name) UNARY_LOOP(name)
OW_UNARY_KERNELS(K)
#undef K

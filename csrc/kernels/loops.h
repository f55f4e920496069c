/* From the bodies of the unary ops, the loops that run them over a tensor, one for each element type. */

/* What a loop needs of an element type: a vector of binary32 from memory and back. The half types are widened exactly
 * and narrowed once (C5). Bytes, not elements: a tensor may start at any address. */
static inline vf load_f32(const unsigned char *p) { return vf_load(p); }
static inline void store_f32(unsigned char *p, vf v) { vf_store(p, v); }
static inline vf load_part_f32(const unsigned char *p, size_t n) { return vf_load_part(p, n); }
static inline void store_part_f32(unsigned char *p, vf v, size_t n) { vf_store_part(p, v, n); }

#define HALF_ELEMENTS(type)                                                                                            \
    static inline vf load_##type(const unsigned char *p) { return vf_from_##type(vh_load(p)); }                        \
    static inline void store_##type(unsigned char *p, vf v) { vh_store(p, vf_to_##type(v)); }                          \
    static inline vf load_part_##type(const unsigned char *p, size_t n) { return vf_from_##type(vh_load_part(p, n)); } \
    static inline void store_part_##type(unsigned char *p, vf v, size_t n) { vh_store_part(p, vf_to_##type(v), n); }

HALF_ELEMENTS(f16)
HALF_ELEMENTS(bf16)

#define UNARY_LOOP(name, type, size)                                                                 \
    static void name##_##type(const void *source, void *target, size_t n, const ow_params *params) { \
        const unsigned char *x = source;                                                             \
        unsigned char *y = target;                                                                   \
        const vf alpha = vf_set(params->alpha), beta = vf_set(params->beta);                         \
        size_t i = 0;                                                                                \
        for (; n - i >= WIDTH * UNROLL; i += WIDTH * UNROLL)                                         \
            for (size_t k = 0; k < UNROLL; k++) {                                                    \
                size_t at = size * (i + k * WIDTH);                                                  \
                store_##type(y + at, name##_lanes(load_##type(x + at), alpha, beta));                \
            }                                                                                        \
        for (; n - i >= WIDTH; i += WIDTH)                                                           \
            store_##type(y + size * i, name##_lanes(load_##type(x + size * i), alpha, beta));        \
        if (n - i > 0) {                                                                             \
            vf tail = load_part_##type(x + size * i, n - i);                                         \
            store_part_##type(y + size * i, name##_lanes(tail, alpha, beta), n - i);                 \
        }                                                                                            \
    }

#define K(name) UNARY_LOOP(name, f32, 4) UNARY_LOOP(name, f16, 2) UNARY_LOOP(name, bf16, 2)
OW_UNARY_KERNELS(K)
#undef K

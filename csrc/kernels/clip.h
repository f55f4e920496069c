/* Clip on integers (C10d): compared as integers, min(upper, max(x, lower)). No vocabulary needed: the compiler
 * vectorises the loop for the instruction set of the file that includes this, and exact operations leave it no choice
 * of bits. */

#define CLIP_LOOP(suffix, type)                                                                      \
    static void clip_##suffix(const void *source, void *target, size_t n, const ow_params *params) { \
        const unsigned char *x = source;                                                             \
        unsigned char *y = target;                                                                   \
        const type lower = params->lo.suffix, upper = params->hi.suffix;                             \
        for (size_t i = 0; i < n; i++) {                                                             \
            type v;                                                                                  \
            memcpy(&v, x + i * sizeof v, sizeof v);                                                  \
            if (lower > v)                                                                           \
                v = lower;                                                                           \
            if (v > upper)                                                                           \
                v = upper;                                                                           \
            memcpy(y + i * sizeof v, &v, sizeof v);                                                  \
        }                                                                                            \
    }

CLIP_LOOP(i8, int8_t)
CLIP_LOOP(i16, int16_t)
CLIP_LOOP(i32, int32_t)
CLIP_LOOP(i64, int64_t)
CLIP_LOOP(u8, uint8_t)
CLIP_LOOP(u16, uint16_t)
CLIP_LOOP(u32, uint32_t)
CLIP_LOOP(u64, uint64_t)

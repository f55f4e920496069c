/* The half types, one number at a time and by bit operations: IEEE 754 binary16 and bfloat16, to binary32 and back.
 * The words of portable.h, and the bounds of Clip. They need the floating-point state of contract C4. */
#ifndef ORTWIN_SIMD_HALF_H
#define ORTWIN_SIMD_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ow_from_bits(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}
static inline uint32_t ow_bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

/* Exact. Moved into place, exponent and fraction are those of a number 2^-112 times as large, which the product
 * repairs, of a subnormal one too. A NaN keeps its payload, and stays signalling. */
static inline float ow_from_f16(uint16_t h) {
    uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16, moved = magnitude << 13;
    uint32_t u = magnitude < 0x7c00u ? ow_bits(ow_from_bits(moved) * 0x1p112f) : moved | 0x7f800000u;
    return ow_from_bits(u | sign);
}

/* Rounded once, to nearest even; a NaN must be the canonical one, as every NaN result is (C3). */
static inline uint16_t ow_to_f16(float v) {
    uint32_t u = ow_bits(v) & 0x7fffffffu, sign = ow_bits(v) >> 16 & 0x8000u, h;
    if (u >= 0x47800000u) /* 2^16 and above, NaN */
        h = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
    else if (u < 0x38800000u) /* below 2^-14, subnormal: of [1/2, 1) the last place is 2^-24, as theirs */
        h = ow_bits(ow_from_bits(u) + 0.5f) - 0x3f000000u;
    else /* a carry out of the fraction is the next exponent, out of the last exponent infinity */
        h = (u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13;
    return (uint16_t)(h | sign);
}

/* bfloat16 is the upper half of a binary32. As above: exact; rounded once, NaNs canonical, which keeps them NaNs. */
static inline float ow_from_bf16(uint16_t h) { return ow_from_bits((uint32_t)h << 16); }
static inline uint16_t ow_to_bf16(float v) {
    uint32_t u = ow_bits(v);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

#endif

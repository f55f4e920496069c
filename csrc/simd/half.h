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
    uint32_t finite = ow_bits(ow_from_bits(moved) * 0x1p112f);
    return ow_from_bits((magnitude < 0x7c00u ? finite : moved | 0x7f800000u) | sign);
}

/* Rounded once, to nearest even; a NaN must be the canonical one, as every NaN result is (C3). All cases are computed
 * and one is chosen, which a compiler can do for many numbers at a time. */
static inline uint16_t ow_to_f16(float v) {
    uint32_t u = ow_bits(v) & 0x7fffffffu, sign = ow_bits(v) >> 16 & 0x8000u;
    uint32_t large = u > 0x7f800000u ? 0x7e00u : 0x7c00u;
    /* A carry out of the fraction is the next exponent, out of the last exponent infinity. */
    uint32_t normal = (u - 0x38000000u + 0xfffu + (u >> 13 & 1u)) >> 13;
    /* The last place of [1/2, 1) is 2^-24, as that of subnormals. */
    uint32_t subnormal = ow_bits(ow_from_bits(u) + 0.5f) - 0x3f000000u;
    uint32_t h = u < 0x38800000u ? subnormal : normal;       /* 2^-14 */
    return (uint16_t)((u < 0x47800000u ? h : large) | sign); /* 2^16 */
}

/* bfloat16 is the upper half of a binary32. As above: exact; rounded once, NaNs canonical, which keeps them NaNs. */
static inline float ow_from_bf16(uint16_t h) { return ow_from_bits((uint32_t)h << 16); }
static inline uint16_t ow_to_bf16(float v) {
    uint32_t u = ow_bits(v);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

#endif

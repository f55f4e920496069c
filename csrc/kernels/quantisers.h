/* What the kernels of csrc/kernels/quantise.h are to their callers: steps of quantising, over buffers.
 *
 * Buffers of numbers are as long as n rounded up to a multiple of 16, and their ends initialised. A step is 1, or 0
 * where element 0 of an operand serves all. */
#ifndef ORTWIN_QUANTISERS_H
#define ORTWIN_QUANTISERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ow_quantisers {
    /* q = x / scale */
    void (*divide)(const float *x, const float *scales, size_t step, size_t n, float *q);
    /* y = saturate(rint(q) + zero), a NaN counting as 0 (C10f) */
    void (*round)(const float *q, const int32_t *zeros, size_t step, size_t n, int32_t lowest, int32_t highest,
                  int32_t *y);
    /* y = float(x - zero) * scale; the difference fits an int32 */
    void (*scale)(const int32_t *x, const int32_t *zeros, const float *scales, size_t step, size_t n, float *y);
    /* Both steps, and the other way, of n floats and 8-bit numbers at any address, with one scale and zero point. */
    void (*to_bytes)(const void *x, float scale, int32_t zero, size_t n, int32_t lowest, int32_t highest, void *y);
    void (*from_bytes)(const void *x, int is_signed, int32_t zero, float scale, size_t n, void *y);
    /* The smallest and largest of 0 and n floats at any address; NaN, both, where one of them is. */
    void (*extent)(const void *x, size_t n, float *least, float *most);
} ow_quantisers;

#endif

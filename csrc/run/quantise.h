/* QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. */
#ifndef ORTWIN_RUN_QUANTISE_H
#define ORTWIN_RUN_QUANTISE_H

#include "kernels/quantisers.h"
#include "ortwin.h"

/* The scale that belongs to each element of x: x is `outer` times `size` times `inner` elements, and along the axis in
 * the middle each `block` of them share their scales. */
typedef struct ow_granularity {
    enum { OW_PER_TENSOR, OW_PER_AXIS, OW_BLOCKED } form;
    size_t outer, size, inner, block;
} ow_granularity;

/* What the shapes say, as known when a node is claimed or as they are at Run; the rule they break, if any. zero: type 0
 * where there is none. only_whole: one scale for all is the only form (version 10). found may be NULL, and is not
 * filled in where shapes are unknown. */
ortwin_status ow_granularity_of(const ortwin_operand *x, const ortwin_operand *scale, const ortwin_operand *zero,
                                int64_t axis, int64_t block_size, int only_whole, ow_granularity *found,
                                ortwin_error *error);

/* y = saturate(rint(x / scale) + zero). zero may be NULL; precision is the type that the division is done in. */
void ow_quantise(const ow_quantisers *kernels, const ow_granularity *g, const ortwin_tensor *x,
                 const ortwin_tensor *scale, const ortwin_tensor *zero, int32_t precision, const ortwin_tensor *y);
/* y = (x - zero) * scale. */
void ow_dequantise(const ow_quantisers *kernels, const ow_granularity *g, const ortwin_tensor *x,
                   const ortwin_tensor *scale, const ortwin_tensor *zero, const ortwin_tensor *y);

/* Scale and zero point of DynamicQuantizeLinear for n floats; then x as uint8 with them. */
void ow_dynamic_scale(const ow_quantisers *kernels, const void *x, size_t n, float *scale, uint8_t *zero);
void ow_quantise_bytes(const ow_quantisers *kernels, const void *x, size_t n, float scale, uint8_t zero, void *y);

#endif

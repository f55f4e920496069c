/* The kernel table: what the executor may call, per instruction set.
 *
 * Kernels know nothing of plans, sessions or hosts. They run with the floating-point state of contract C4 (round to
 * nearest even, subnormals kept), which the executor sets; they take any pointer alignment and allow y == x.
 */
#ifndef ORTWIN_KERNELS_H
#define ORTWIN_KERNELS_H

#include "kernels/block_products.h"
#include "kernels/float_products.h"
#include "kernels/products.h"
#include "kernels/quantisers.h"
#include "run/dtype.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Everything a kernel needs besides its tensors. alpha and beta are the op's float attributes (Selu: alpha, gamma);
 * for Clip they are the lower and upper bound (both NaN when either is). Integer Clip takes its bounds from lo and
 * hi. */
typedef struct ow_params {
    float alpha, beta;
    union {
        unsigned char raw[8];
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } lo, hi;
} ow_params;

/* y[i] = f(x[i]), 0 <= i < n. The parameters are binary32 for every float type. */
typedef void ow_unary_fn(const void *x, void *y, size_t n, const ow_params *params);

/* y[i] = f(a[i * a_step], b[i * b_step]), 0 <= i < n, n > 0; a step is 1, or 0 for one operand of which one element is
 * used throughout. y may be an operand whose step is 1. */
typedef void ow_binary_fn(const void *a, size_t a_step, const void *b, size_t b_step, void *y, size_t n);

/* y[i] = f(x[i] + row[i mod width]), 0 <= i < n. */
typedef void ow_biased_fn(const void *x, const void *row, void *y, size_t n, size_t width, const ow_params *params);

/* sums[r * columns + c] += a[r * stride + i] * b[i * columns + c] over i < k, modulo 2^32 or 2^64, of integers of as many
 * bits, aligned as such. */
typedef void ow_modular_fn(const void *a, size_t stride, size_t rows, const void *b, size_t k, size_t columns,
                           void *sums);

/* clang-format off */
#define OW_UNARY_KERNELS(K) \
    K(relu) K(leaky_relu) K(thresholded_relu) K(hard_sigmoid) K(hard_swish) K(clip) K(abs) K(neg) K(reciprocal) \
    K(sqrt) K(floor) K(ceil) K(round) K(sign) K(softsign) \
    K(exp) K(log) K(tanh) K(sigmoid) K(erf) K(elu) K(selu) K(celu) K(swish) K(gelu_tanh) \
    K(gelu) K(softplus) K(mish)
#define OW_BIASED_KERNELS(K) K(gelu_tanh) K(gelu) /* those of them that an op with a bias runs */
#define OW_BINARY_KERNELS(K) K(add) K(sub) K(mul) K(div)
/* Executed as a whole, by run/whole.c; of DynamicQuantizeLinear each output by itself. */
#define OW_WHOLE_KERNELS(K) \
    K(quantize_linear) K(dequantize_linear) \
    K(dynamic_quantize_linear) K(dynamic_quantize_scale) K(dynamic_quantize_zero) \
    K(matmul) K(gemm) K(matmul_integer) K(qlinear_matmul) K(matmul_integer_to_float) K(dynamic_quantize_matmul) \
    K(matmul_nbits_level_0) K(matmul_nbits_level_4) /* levels 0 to 3; 4 */
/* clang-format on */

typedef enum ow_kernel_id {
#define K(name) OW_KERNEL_##name,
    OW_UNARY_KERNELS(K) OW_BINARY_KERNELS(K) OW_WHOLE_KERNELS(K)
#undef K
        OW_KERNEL_copy, /* no arithmetic: the executor moves the bytes */
    OW_KERNEL_COUNT
} ow_kernel_id;

typedef struct ow_kernels {
    const char *isa; /* as the file that compiled them calls itself: what is reported is what runs */
    ow_unary_fn *unary[OW_KERNEL_COUNT][OW_DTYPES];
    ow_binary_fn *binary[OW_KERNEL_COUNT][OW_DTYPES];
    const ow_products *products;
    const ow_block_products *block_products;
    const ow_float_products *float_products;
    ow_modular_fn *modular_32, *modular_64;
    const ow_quantisers *quantisers;
    ow_biased_fn *biased[OW_KERNEL_COUNT][OW_DTYPES];
} ow_kernels;

extern const ow_kernels ow_kernels_portable;
#if defined(__x86_64__)
extern const ow_kernels ow_kernels_avx2;
extern const ow_kernels ow_kernels_avx512;
#endif

#endif

/* Kernels for AVX2, FMA and F16C. The whole file is one target region; run/cpu.c decides whether it may be entered. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "simd/avx2.h"
#include "simd/dot_avx2.h"
#include "simd/nbits_avx2.h"

#include "kernels/clip.h"
#include "kernels/unary.h"

#include "kernels/error_function.h"
#include "kernels/exponential.h"
#include "kernels/logarithm.h"
#include "kernels/smooth.h"

#include "kernels/integer_matmul.h"
#include "kernels/loops.h"
#include "kernels/matmul.h"
#include "kernels/modular.h"
#include "kernels/nbits.h"
#include "kernels/quantise.h"
#include "kernels/rows.h"

#include "kernels/binary.h"

#include "kernels/table.h"

const ow_kernels ow_kernels_avx2 = OW_KERNEL_TABLE;

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
typedef int ow_no_avx2; /* ISO C wants a declaration in every file */
#endif

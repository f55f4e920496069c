/* Kernels in plain C, for any CPU. */
#include "simd/portable.h"
#include "simd/dot_portable.h"
#include "simd/nbits_portable.h"

#include "kernels/kernels.h"

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

const ow_kernels ow_kernels_portable = OW_KERNEL_TABLE;

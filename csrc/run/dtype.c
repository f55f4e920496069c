#include "run/dtype.h"

static const struct {
    const char *name;
    size_t size;
} types[OW_DTYPES] = {
    [OW_F32] = {"float32", 4},
    [OW_U8] = {"uint8", 1},
    [OW_I8] = {"int8", 1},
    [OW_U16] = {"uint16", 2},
    [OW_I16] = {"int16", 2},
    [OW_I32] = {"int32", 4},
    [OW_I64] = {"int64", 8},
    [8] = {"string", 0},
    [OW_BOOL] = {"bool", 1},
    [OW_F16] = {"float16", 2},
    [OW_F64] = {"float64", 8},
    [OW_U32] = {"uint32", 4},
    [OW_U64] = {"uint64", 8},
    [OW_C64] = {"complex64", 8},
    [OW_C128] = {"complex128", 16},
    [OW_BF16] = {"bfloat16", 2},
    [OW_F8E4M3FN] = {"float8_e4m3fn", 1},
    [OW_F8E4M3FNUZ] = {"float8_e4m3fnuz", 1},
    [OW_F8E5M2] = {"float8_e5m2", 1},
    [OW_F8E5M2FNUZ] = {"float8_e5m2fnuz", 1},
    [OW_U4] = {"uint4", 0},
    [OW_I4] = {"int4", 0},
    [23] = {"float4_e2m1fn", 0},
    [OW_F8E8M0] = {"float8_e8m0fnu", 1},
};

size_t ow_item_size(int32_t dtype) { return dtype > 0 && dtype < OW_DTYPES ? types[dtype].size : 0; }

int ow_is_held(int32_t dtype) { return ow_item_size(dtype) || dtype == OW_U4 || dtype == OW_I4; }

const char *ow_dtype_name(int32_t dtype) {
    return dtype > 0 && dtype < OW_DTYPES && types[dtype].name ? types[dtype].name : "unknown type";
}

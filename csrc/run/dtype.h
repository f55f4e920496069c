/* ONNX element types: numbers and sizes. */
#ifndef ORTWIN_RUN_DTYPE_H
#define ORTWIN_RUN_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* TensorProto.DataType */
enum {
    OW_F32 = 1,
    OW_U8 = 2,
    OW_I8 = 3,
    OW_U16 = 4,
    OW_I16 = 5,
    OW_I32 = 6,
    OW_I64 = 7,
    OW_BOOL = 9,
    OW_F16 = 10,
    OW_F64 = 11,
    OW_U32 = 12,
    OW_U64 = 13,
    OW_C64 = 14,
    OW_C128 = 15,
    OW_BF16 = 16,
    OW_F8E4M3FN = 17,
    OW_F8E4M3FNUZ = 18,
    OW_F8E5M2 = 19,
    OW_F8E5M2FNUZ = 20,
    OW_U4 = 21,
    OW_I4 = 22,
    OW_SHARED_DTYPES = 24, /* from here on ONNX and ONNX Runtime number differently */
    OW_F8E8M0 = 24,
    OW_DTYPES = 25
};

/* Bytes of one element; 0 for what has no fixed whole-byte size (string, 2- and 4-bit types, unknown numbers). */
size_t ow_item_size(int32_t dtype);
/* Whether tensors of it can be held: elements of whole bytes, or of 4 bits. */
int ow_is_held(int32_t dtype);
const char *ow_dtype_name(int32_t dtype);

static inline int ow_is_float(int32_t dtype) { return dtype == OW_F32 || dtype == OW_F16 || dtype == OW_BF16; }

#endif

#include "run/numbers.h"

#include "run/dtype.h"
#include "simd/half.h"

#include <string.h>

#define AT(type) const unsigned char *p = (const unsigned char *)data + from * sizeof(type)
#define LOAD(type, value)                           \
    {                                               \
        AT(type);                                   \
        for (size_t i = 0; i < n; i++) {            \
            type v;                                 \
            memcpy(&v, p + i * sizeof v, sizeof v); \
            out[i] = value;                         \
        }                                           \
        break;                                      \
    }
#define STORE(type, value)                                              \
    {                                                                   \
        unsigned char *p = (unsigned char *)data + from * sizeof(type); \
        for (size_t i = 0; i < n; i++) {                                \
            type v = value;                                             \
            memcpy(p + i * sizeof v, &v, sizeof v);                     \
        }                                                               \
        break;                                                          \
    }

void ow_load_floats(const void *data, int32_t dtype, size_t from, size_t n, float *out) {
    switch (dtype) {
    case OW_F16: LOAD(uint16_t, ow_from_f16(v))
    case OW_BF16: LOAD(uint16_t, ow_from_bf16(v))
    case OW_I32: LOAD(int32_t, (float)v)
    default: memcpy(out, (const float *)data + from, n * sizeof *out);
    }
}

void ow_store_floats(void *data, int32_t dtype, size_t from, size_t n, const float *values) {
    switch (dtype) {
    case OW_F16: STORE(uint16_t, ow_to_f16(values[i]))
    case OW_BF16: STORE(uint16_t, ow_to_bf16(values[i]))
    default: memcpy((float *)data + from, values, n * sizeof *values);
    }
}

void ow_round_floats(int32_t dtype, size_t n, float *values) {
    for (size_t i = 0; i < n && dtype != OW_F32; i++) {
        float v = values[i] == values[i] ? values[i] : ow_from_bits(0x7fc00000u);
        values[i] = dtype == OW_F16 ? ow_from_f16(ow_to_f16(v)) : ow_from_bf16(ow_to_bf16(v));
    }
}

static int is_nibble(int32_t dtype) { return dtype == OW_I4 || dtype == OW_U4; }

void ow_load_integers(const void *data, int32_t dtype, size_t from, size_t n, int32_t *out) {
    if (is_nibble(dtype)) {
        const unsigned char *p = data;
        for (size_t i = 0; i < n; i++) {
            int32_t v = p[(from + i) / 2] >> 4 * ((from + i) & 1) & 15;
            out[i] = dtype == OW_I4 && v > 7 ? v - 16 : v;
        }
        return;
    }
    switch (dtype) {
    case OW_I8: LOAD(int8_t, v)
    case OW_U8: LOAD(uint8_t, v)
    case OW_I16: LOAD(int16_t, v)
    case OW_U16: LOAD(uint16_t, v)
    default: LOAD(int32_t, v)
    }
}

void ow_store_integers(void *data, int32_t dtype, size_t from, size_t n, const int32_t *values) {
    if (is_nibble(dtype)) {
        unsigned char *p = data;
        for (size_t i = 0; i < n; i++) {
            unsigned char *byte = p + (from + i) / 2;
            unsigned v = (unsigned)values[i] & 15u;
            *byte = (unsigned char)((from + i) & 1 ? (*byte & 15u) | v << 4 : v);
        }
        return;
    }
    switch (dtype) {
    case OW_I8:
    case OW_U8: STORE(uint8_t, (uint8_t)values[i])
    case OW_I16:
    case OW_U16: STORE(uint16_t, (uint16_t)values[i])
    default: STORE(int32_t, values[i])
    }
}

int32_t ow_lowest(int32_t dtype) {
    switch (dtype) {
    case OW_I4: return -8;
    case OW_I8: return INT8_MIN;
    case OW_I16: return INT16_MIN;
    case OW_I32: return INT32_MIN;
    default: return 0;
    }
}

int32_t ow_highest(int32_t dtype) {
    switch (dtype) {
    case OW_I4: return 7;
    case OW_U4: return 15;
    case OW_I8: return INT8_MAX;
    case OW_U8: return UINT8_MAX;
    case OW_I16: return INT16_MAX;
    case OW_U16: return UINT16_MAX;
    default: return INT32_MAX;
    }
}

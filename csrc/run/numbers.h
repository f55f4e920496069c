/* Runs of tensor elements as numbers to compute with, and back. `from` counts elements; 4-bit ones lie two to a byte,
 * the first in the low half. Needs the floating-point state of contract C4. */
#ifndef ORTWIN_RUN_NUMBERS_H
#define ORTWIN_RUN_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* float32, float16, bfloat16: exact; int32: rounded to nearest even. */
void ow_load_floats(const void *data, int32_t dtype, size_t from, size_t n, float *out);
/* float32, float16, bfloat16: rounded once, to nearest even; a NaN must be canonical. */
void ow_store_floats(void *data, int32_t dtype, size_t from, size_t n, const float *values);
/* Each rounded to float16 or bfloat16, as which it would be stored; NaNs made canonical first. */
void ow_round_floats(int32_t dtype, size_t n, float *values);

/* int8, uint8, int16, uint16, int32, int4, uint4. */
void ow_load_integers(const void *data, int32_t dtype, size_t from, size_t n, int32_t *out);
/* The same; every value is in the range of the type. 4-bit elements must be written in ascending order. */
void ow_store_integers(void *data, int32_t dtype, size_t from, size_t n, const int32_t *values);
/* The range of those types. */
int32_t ow_lowest(int32_t dtype);
int32_t ow_highest(int32_t dtype);

#endif

/* Add, Sub, Mul, Div, with the loads and stores of loops.h. On binary32 one correctly rounded operation (C2), its NaN
 * canonical (C3), in the vocabulary of simd/; on the half types that, rounded once more (C5). On integers the result modulo 2^32 or 2^64 (C7); the compiler vectorises those loops by itself, and exact
 * operations leave it no choice of bits. */

#include "simd/half.h"

#define BINARY(name) static inline vf name##_pair(vf a, vf b)

BINARY(add) { return vf_add(a, b); }
BINARY(sub) { return vf_sub(a, b); }
BINARY(mul) { return vf_mul(a, b); }
BINARY(div) { return vf_div(a, b); }

/* C10h: toward zero; 0 by a divisor of 0, and what wrapping gives for the smallest integer by -1. Neither traps. */
#define INTEGER_OPS(suffix, type, utype)                                                           \
    static inline type add_##suffix##_pair(type a, type b) { return (type)((utype)a + (utype)b); } \
    static inline type sub_##suffix##_pair(type a, type b) { return (type)((utype)a - (utype)b); } \
    static inline type mul_##suffix##_pair(type a, type b) { return (type)((utype)a * (utype)b); } \
    static inline type div_##suffix##_pair(type a, type b) {                                       \
        return b == 0 ? 0 : b == -1 ? (type)((utype)0 - (utype)a) : (type)(a / b);                 \
    }
INTEGER_OPS(i32, int32_t, uint32_t)
INTEGER_OPS(i64, int64_t, uint64_t)

static inline vf float_result(vf y) { return or_nan(y, y, y); }

/* The one element that an operand has for all, in every lane. */
static inline vf first_f32(const unsigned char *p) {
    float v;
    memcpy(&v, p, sizeof v);
    return vf_set(v);
}
#define FIRST_HALF(type)                                    \
    static inline vf first_##type(const unsigned char *p) { \
        uint16_t h;                                         \
        memcpy(&h, p, sizeof h);                            \
        return vf_set(ow_from_##type(h));                   \
    }
FIRST_HALF(f16)
FIRST_HALF(bf16)

/* One loop over vectors; A and B are what stands for the operands at byte `at`, of whole vectors and of a part. */
#define FLOAT_PASS(name, type, size, A, B, A_PART, B_PART)                              \
    do {                                                                                \
        size_t i = 0;                                                                   \
        for (; n - i >= WIDTH; i += WIDTH) {                                            \
            size_t at = size * i;                                                       \
            store_##type(y + at, float_result(name##_pair(A, B)));                      \
        }                                                                               \
        if (n - i > 0) {                                                                \
            size_t at = size * i, part = n - i;                                         \
            store_part_##type(y + at, float_result(name##_pair(A_PART, B_PART)), part); \
        }                                                                               \
    } while (0)

#define FLOAT_LOOP(name, type, size)                                                                                   \
    static void name##_pairs_##type(const void *first, size_t a_step, const void *second, size_t b_step, void *target, \
                                    size_t n) {                                                                        \
        const unsigned char *a = first, *b = second;                                                                   \
        unsigned char *y = target;                                                                                     \
        if (a_step && b_step) {                                                                                        \
            FLOAT_PASS(name, type, size, load_##type(a + at), load_##type(b + at), load_part_##type(a + at, part),     \
                       load_part_##type(b + at, part));                                                                \
        } else if (a_step) {                                                                                           \
            const vf same = first_##type(b);                                                                           \
            FLOAT_PASS(name, type, size, load_##type(a + at), same, load_part_##type(a + at, part), same);             \
        } else {                                                                                                       \
            const vf same = first_##type(a);                                                                           \
            FLOAT_PASS(name, type, size, same, load_##type(b + at), same, load_part_##type(b + at, part));             \
        }                                                                                                              \
    }

#define INTEGER_PASS(name, suffix, type, A_AT, B_AT) \
    for (size_t i = 0; i < n; i++) {                 \
        type u, v;                                   \
        memcpy(&u, a + (A_AT) * sizeof u, sizeof u); \
        memcpy(&v, b + (B_AT) * sizeof v, sizeof v); \
        u = name##_##suffix##_pair(u, v);            \
        memcpy(y + i * sizeof u, &u, sizeof u);      \
    }
#define INTEGER_LOOP(name, suffix, type)                                                                   \
    static void name##_pairs_##suffix(const void *first, size_t a_step, const void *second, size_t b_step, \
                                      void *target, size_t n) {                                            \
        const unsigned char *a = first, *b = second;                                                       \
        unsigned char *y = target;                                                                         \
        if (a_step && b_step) {                                                                            \
            INTEGER_PASS(name, suffix, type, i, i)                                                         \
        } else {                                                                                           \
            INTEGER_PASS(name, suffix, type, i * a_step, i * b_step)                                       \
        }                                                                                                  \
    }

#define K(name)              \
    FLOAT_LOOP(name, f32, 4) \
    FLOAT_LOOP(name, f16, 2) FLOAT_LOOP(name, bf16, 2) INTEGER_LOOP(name, i32, int32_t) INTEGER_LOOP(name, i64, int64_t)
OW_BINARY_KERNELS(K)
#undef K

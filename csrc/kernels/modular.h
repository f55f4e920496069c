/* Products of matrices of integers modulo 2^32 and 2^64, signed or not: the bits are the same (C7). Plain C, which the
 * compiler turns into vectors: sums modulo a power of two may be grouped in any way. */

#define MODULAR(bits)                                                                                              \
    static void modular_##bits(const void *x, size_t stride, size_t rows, const void *z, size_t k, size_t columns, \
                               void *sums) {                                                                       \
        const uint##bits##_t *a = x;                                                                               \
        for (size_t r = 0; r < rows; r++, a += stride) {                                                           \
            const uint##bits##_t *b = z;                                                                           \
            uint##bits##_t *y = (uint##bits##_t *)sums + r * columns;                                              \
            size_t i = 0;                                                                                          \
            for (; k - i >= 4; i += 4, b += 4 * columns)                                                           \
                for (size_t c = 0; c < columns; c++)                                                               \
                    y[c] += a[i] * b[c] + a[i + 1] * b[c + columns] + a[i + 2] * b[c + 2 * columns] +              \
                            a[i + 3] * b[c + 3 * columns];                                                         \
            for (; i < k; i++, b += columns)                                                                       \
                for (size_t c = 0; c < columns; c++)                                                               \
                    y[c] += a[i] * b[c];                                                                           \
        }                                                                                                          \
    }

MODULAR(32)
MODULAR(64)

#include "run/nbits.h"

#include "run/dtype.h"
#include "run/numbers.h"

#include <string.h>

/* Weights of 2 bits are packed as 4, so that kernels know two kinds of words. */
static int packed_bits(int bits) { return bits == 2 ? 4 : bits; }

int ow_nbits_weights_of(const ow_whole *node, const ow_block_products *kernels,
                        const ortwin_tensor *const inputs[OW_WHOLE_INPUTS], ow_nbits_weights *w) {
    const ortwin_tensor *zeros = inputs[OW_NBITS_ZEROS];
    int bits = (int)node->bits;
    size_t k = (size_t)node->inner, block = (size_t)node->block_size, packed = block, head, words, line;
    *w = (ow_nbits_weights){.columns = (size_t)node->columns,
                            .bits = bits,
                            .panel = kernels->panel,
                            .b = inputs[OW_NBITS_B]->data,
                            .scales = inputs[OW_NBITS_SCALES]->data,
                            .scales_dtype = inputs[OW_NBITS_SCALES]->dtype,
                            .zeros = zeros ? zeros->data : NULL,
                            .zeros_dtype = zeros ? zeros->dtype : 0};
    while (packed / 2 >= k && packed > 16) /* padding of a block that is the only one is not packed */
        packed /= 2;
    w->layout = (ow_blocked){.k = k,
                             .block = packed,
                             .bits = packed_bits(bits),
                             .zero_size = !zeros                  ? 0
                                          : zeros->dtype == OW_U8 ? 1
                                                                  : 4,
                             .zero = 1 << (bits - 1)};
    w->blocks = k / block + (k % block != 0);
    w->panels = w->columns / w->panel + (w->columns % w->panel != 0);
    if (__builtin_mul_overflow(block, (size_t)bits, &w->blob))
        return 0;
    w->blob /= 8;
    words = packed / (32 / (size_t)w->layout.bits);
    head = kernels->panel * (sizeof(float) + w->layout.zero_size);
    return !__builtin_mul_overflow(words, 4 * kernels->panel, &line) &&
           !__builtin_add_overflow(line, head, &w->layout.bytes) &&
           !__builtin_mul_overflow(w->layout.bytes, w->blocks, &line);
}

size_t ow_nbits_panel_bytes(const ow_nbits_weights *w) { return w->layout.bytes * w->blocks; }

static float float_at(const void *data, int32_t dtype, size_t index) {
    float v;
    ow_load_floats(data, dtype, index, 1, &v);
    return v;
}

/* Zero points of a column begin at a byte of its own, the low bits of a byte first. */
static unsigned char zero_at(const ow_nbits_weights *w, size_t column, size_t block) {
    const unsigned char *zeros = w->zeros;
    size_t bits = (size_t)w->bits, row = w->blocks / (8 / bits) + (w->blocks % (8 / bits) != 0), at = block * bits;
    return (unsigned char)((unsigned)zeros[column * row + at / 8] >> at % 8 & ((1u << bits) - 1));
}

/* Eight numbers of 2 bits, as 4. */
static uint32_t widened(uint32_t x) {
    x = (x | x << 8) & 0x00ff00ffu;
    x = (x | x << 4) & 0x0f0f0f0fu;
    return (x | x << 2) & 0x33333333u;
}

static uint32_t word_at(const ow_nbits_weights *w, const unsigned char *blob, size_t index) {
    uint32_t word;
    if (w->bits == 2) {
        uint16_t half;
        memcpy(&half, blob + 2 * index, sizeof half);
        return widened(half);
    }
    memcpy(&word, blob + 4 * index, sizeof word);
    return word;
}

void ow_nbits_pack_panel(const ow_nbits_weights *w, size_t index, unsigned char *target) {
    const size_t first = index * w->panel, left = w->columns - first, columns = left < w->panel ? left : w->panel;
    const size_t zero_size = w->layout.zero_size, per_word = 32 / (size_t)w->layout.bits;
    for (size_t n = 0; n < w->blocks; n++, target += w->layout.bytes) {
        unsigned char *zeros = target + w->panel * sizeof(float), *words = zeros + w->panel * zero_size;
        size_t count =
            w->layout.k - n * w->layout.block < w->layout.block ? w->layout.k - n * w->layout.block : w->layout.block;
        count = count / per_word + (count % per_word != 0);
        for (size_t c = 0; c < columns; c++) {
            const size_t at = (first + c) * w->blocks + n;
            const unsigned char *blob = w->b + at * w->blob;
            float scale = float_at(w->scales, w->scales_dtype, at);
            memcpy(target + c * sizeof scale, &scale, sizeof scale);
            if (zero_size == 1)
                zeros[c] = zero_at(w, first + c, n);
            else if (zero_size) {
                float zero = float_at(w->zeros, w->zeros_dtype, at);
                memcpy(zeros + c * sizeof zero, &zero, sizeof zero);
            }
            for (size_t i = 0; i < count; i++) {
                uint32_t word = word_at(w, blob, i);
                memcpy(words + (i * w->panel + c) * sizeof word, &word, sizeof word);
            }
        }
    }
}

/* ---- packed ahead ---- */

enum { COLUMNS, INNER, BLOCK_SIZE, BITS, SCALES_DTYPE, ZEROS_DTYPE }; /* the parameters of a recipe */

static int build(const ow_pack_recipe *recipe, void *target) {
    const size_t *p = recipe->parameters;
    ow_whole node = {.inner = (int64_t)p[INNER],
                     .columns = (int64_t)p[COLUMNS],
                     .block_size = (int64_t)p[BLOCK_SIZE],
                     .bits = (int64_t)p[BITS]};
    ortwin_tensor tensors[3];
    const ortwin_tensor *inputs[OW_WHOLE_INPUTS] = {NULL};
    const int32_t dtypes[3] = {OW_U8, (int32_t)p[SCALES_DTYPE], (int32_t)p[ZEROS_DTYPE]};
    for (size_t k = 0; k < 3; k++) {
        tensors[k] =
            (ortwin_tensor){(void *)(uintptr_t)recipe->sources[k].data, NULL, 0, recipe->sources[k].bytes, dtypes[k]};
        inputs[OW_NBITS_B + k] = dtypes[k] ? &tensors[k] : NULL;
    }
    ow_nbits_weights w;
    if (!ow_nbits_weights_of(&node, recipe->form, inputs, &w))
        return 0;
    for (size_t index = 0; index < w.panels; index++)
        ow_nbits_pack_panel(&w, index, (unsigned char *)target + index * ow_nbits_panel_bytes(&w));
    return 1;
}

const ow_pack *ow_nbits_pack(const ow_kernels *kernels, const ow_whole *node,
                             const ortwin_tensor *const constants[OW_WHOLE_INPUTS], uint32_t *replaced,
                             ow_tally *tally) {
    const uint32_t own = 1u << OW_NBITS_B | 1u << OW_NBITS_SCALES | 1u << OW_NBITS_ZEROS;
    const ortwin_tensor *b = constants[OW_NBITS_B], *zeros = constants[OW_NBITS_ZEROS];
    uint32_t present = 0;
    for (size_t k = OW_NBITS_B; k <= OW_NBITS_ZEROS; k++)
        present |= constants[k] ? 1u << k : 0;
    if (present != (node->operands & own) || !b->bytes)
        return NULL;
    ow_nbits_weights w;
    ow_pack_recipe recipe = {.form = kernels->block_products, .bytes = SIZE_MAX, .build = build};
    int fits = ow_nbits_weights_of(node, kernels->block_products, constants, &w);
    if (fits && (__builtin_mul_overflow(ow_nbits_panel_bytes(&w), w.panels, &recipe.bytes) ||
                 __builtin_add_overflow(recipe.bytes, (size_t)OW_BLOCK_SLACK, &recipe.bytes)))
        recipe.bytes = SIZE_MAX;
    recipe.parameters[COLUMNS] = (size_t)node->columns;
    recipe.parameters[INNER] = (size_t)node->inner;
    recipe.parameters[BLOCK_SIZE] = (size_t)node->block_size;
    recipe.parameters[BITS] = (size_t)node->bits;
    recipe.parameters[SCALES_DTYPE] = (size_t)constants[OW_NBITS_SCALES]->dtype;
    recipe.parameters[ZEROS_DTYPE] = zeros ? (size_t)zeros->dtype : 0;
    for (size_t k = 0; k < 3; k++) {
        const ortwin_tensor *source = constants[OW_NBITS_B + k];
        recipe.sources[k].data = source ? source->data : NULL;
        recipe.sources[k].bytes = source ? source->bytes : 0;
    }
    *replaced = present;
    return ow_pack_take(&recipe, tally);
}

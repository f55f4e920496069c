#include "run/integer_pack.h"

#include "run/dtype.h"

#include <stdlib.h>
#include <string.h>

enum { MATRICES, ROWS, COLUMNS, FLIP }; /* the parameters of a recipe */

/* Sizes of one matrix's pack, and of all; 0 where they do not fit. */
static int sizes(const ow_products *kernels, size_t matrices, size_t k, size_t n, ow_integer_pack *pack,
                 size_t *bytes) {
    size_t depth, panels, sums, each;
    if (__builtin_add_overflow(k, kernels->group - 1, &depth) || __builtin_add_overflow(n, kernels->panel - 1, &panels))
        return 0;
    depth = depth / kernels->group * kernels->group;
    panels = panels / kernels->panel;
    return !__builtin_mul_overflow(panels, kernels->panel, &pack->sums_count) &&
           !__builtin_mul_overflow(pack->sums_count, depth, &pack->panels_size) &&
           !__builtin_mul_overflow(pack->sums_count, sizeof(int32_t), &sums) &&
           !__builtin_add_overflow(pack->panels_size, sums, &each) && !__builtin_mul_overflow(each, matrices, bytes);
}

/* Packs one matrix of k rows and n columns. ones: a left row of ones. */
static void pack_matrix(const ow_products *kernels, const unsigned char *b, size_t k, size_t n, unsigned char flip,
                        const void *ones, int8_t *panels, int32_t *sums) {
    size_t groups = (k + kernels->group - 1) / kernels->group, size = kernels->panel * groups * kernels->group;
    if (k)
        kernels->pack_right(b, n, k, n, flip, panels, size);
    for (size_t c = 0; c < n; c += kernels->panel, panels += size, sums += kernels->panel)
        kernels->multiply(ones, 0, 1, panels, groups, sums); /* sums of zeros that are there */
}

static int build(const ow_pack_recipe *recipe, void *target) {
    const ow_products *kernels = recipe->form;
    const size_t *p = recipe->parameters;
    const unsigned char *b = recipe->sources[0].data;
    ow_integer_pack pack;
    size_t total;
    if (!sizes(kernels, p[MATRICES], p[ROWS], p[COLUMNS], &pack, &total))
        return 0;
    unsigned char *bytes = malloc(p[ROWS] ? p[ROWS] : 1);
    void *ones = malloc((p[ROWS] + kernels->group) * kernels->left_size);
    if (bytes && ones) {
        memset(bytes, 1, p[ROWS]);
        kernels->pack_left(bytes, p[ROWS], 0, 0, ones);
        int8_t *panels = target;
        int32_t *sums = (int32_t *)(void *)(panels + p[MATRICES] * pack.panels_size);
        for (size_t m = 0; m < p[MATRICES]; m++)
            pack_matrix(kernels, b + m * p[ROWS] * p[COLUMNS], p[ROWS], p[COLUMNS], (unsigned char)p[FLIP], ones,
                        panels + m * pack.panels_size, sums + m * pack.sums_count);
    }
    free(bytes);
    free(ones);
    return bytes && ones;
}

const ow_pack *ow_integer_pack_take(const ow_products *kernels, const ortwin_tensor *b, ow_tally *tally) {
    const ow_matrices matrices = ow_matrices_of(b, 0);
    ow_pack_recipe recipe = {.form = kernels, .build = build};
    ow_integer_pack pack;
    recipe.parameters[MATRICES] = ow_matrix_count(&matrices);
    recipe.parameters[ROWS] = matrices.rows;
    recipe.parameters[COLUMNS] = matrices.columns;
    recipe.parameters[FLIP] = b->dtype == OW_U8 ? 0x80 : 0;
    recipe.sources[0].data = b->data;
    recipe.sources[0].bytes = b->bytes;
    if (!sizes(kernels, recipe.parameters[MATRICES], matrices.rows, matrices.columns, &pack, &recipe.bytes))
        recipe.bytes = SIZE_MAX;
    return ow_pack_take(&recipe, tally);
}

ow_integer_pack ow_integer_pack_of(const ow_products *kernels, const ow_matrices *b, const ow_pack *pack) {
    ow_integer_pack found;
    size_t matrices = ow_matrix_count(b), bytes;
    sizes(kernels, matrices, b->rows, b->columns, &found, &bytes); /* they fit: the pack is there */
    found.panels = pack->data;
    found.column_sums = (const int32_t *)(const void *)(found.panels + matrices * found.panels_size);
    return found;
}

/* Entry points for tests, into parts of the library that it does not export. */
#include "kernels/kernels.h"
#include "run/integer_matmul.h"
#include "run/integer_pack.h"
#include "run/quantise.h"

#include <pthread.h>
#include <stdlib.h>

static ow_tally *tally(void) {
    static ow_tally counts;
    return &counts;
}

#define EXPORTED __attribute__((visibility("default")))

static const ow_kernels *const all[] = {
    &ow_kernels_portable,
#if defined(__x86_64__)
    &ow_kernels_avx2,
    &ow_kernels_avx512,
#endif
};

/* Pieces of a product on so many threads, thread t taking every threads-th from the t-th, the last one first. */
typedef struct share {
    void (*task)(void *user, size_t index);
    void *user;
    size_t count, first, step;
} share;

static void *run_share(void *shared) {
    const share *s = shared;
    for (size_t k = (s->count + s->step - 1) / s->step; k-- > 0;)
        if (k * s->step + s->first < s->count)
            s->task(s->user, k * s->step + s->first);
    return NULL;
}

static _Atomic size_t pieces; /* that were fanned out */

static int fan_out(void *context, size_t count, void (*task)(void *user, size_t index), void *user) {
    enum { MOST = 8 };
    const int *threads = context;
    pthread_t ids[MOST];
    share shares[MOST];
    for (int t = 0; t < *threads; t++) {
        shares[t] = (share){task, user, count, (size_t)t, (size_t)*threads};
        if (pthread_create(&ids[t], NULL, run_share, &shares[t]))
            abort();
    }
    for (int t = 0; t < *threads; t++)
        pthread_join(ids[t], NULL);
    pieces += count;
    return 1;
}

EXPORTED size_t driver_pieces(void);
EXPORTED size_t driver_pieces(void) { return pieces; }

EXPORTED int driver_product(int isa, int kind, const ow_product_operands *operands, int packed, int threads,
                            ortwin_tensor *y, ortwin_error *error);
EXPORTED int driver_product(int isa, int kind, const ow_product_operands *operands, int packed, int threads,
                            ortwin_tensor *y, ortwin_error *error) {
    const ow_products *kernels = all[isa]->products;
    const ortwin_tensor *b = operands->b;
    const ow_pack *pack = NULL;
    if (packed) {
        pack = ow_integer_pack_take(kernels, b, tally());
        if (!pack)
            return -1;
    }
    ow_fan fan = {.run = threads > 1 ? fan_out : NULL, .context = &threads};
    int status = (int)ow_product_run(kernels, (ow_product_kind)kind, operands, pack, &fan, y, error);
    ow_pack_give(pack, tally());
    return status;
}

EXPORTED const ow_pack *driver_take(int isa, const ortwin_tensor *b);
EXPORTED const ow_pack *driver_take(int isa, const ortwin_tensor *b) {
    return ow_integer_pack_take(all[isa]->products, b, tally());
}
EXPORTED int driver_run(int isa, int kind, const ow_product_operands *operands, const ow_pack *pack, ortwin_tensor *y,
                        ortwin_error *error);
EXPORTED int driver_run(int isa, int kind, const ow_product_operands *operands, const ow_pack *pack, ortwin_tensor *y,
                        ortwin_error *error) {
    return (int)ow_product_run(all[isa]->products, (ow_product_kind)kind, operands, pack, &(ow_fan){0}, y, error);
}
EXPORTED void driver_give(const ow_pack *pack);
EXPORTED void driver_give(const ow_pack *pack) { ow_pack_give(pack, tally()); }
EXPORTED void driver_budget(uint64_t bytes);
EXPORTED void driver_budget(uint64_t bytes) { ow_pack_budget(bytes); }
EXPORTED void driver_totals(uint64_t *totals);
EXPORTED void driver_totals(uint64_t *totals) {
    static const ow_counter which[] = {OW_pack_bytes, OW_packs_freed, OW_packs_built, OW_packs_shared,
                                       OW_packs_declined};
    for (size_t k = 0; k < sizeof which / sizeof which[0]; k++)
        totals[k] = tally()->counts[which[k]];
    totals[1] = totals[2] - totals[1]; /* there are now */
}

static ortwin_operand known(const ortwin_tensor *t) {
    return t ? (ortwin_operand){t->dtype, (int32_t)t->rank, t->dims} : (ortwin_operand){0, -1, NULL};
}

/* QuantizeLinear to y, or, with precision 0, DequantizeLinear. */
EXPORTED int driver_quantise(int isa, const ortwin_tensor *x, const ortwin_tensor *scale, const ortwin_tensor *zero,
                             int64_t axis, int64_t block_size, int32_t precision, ortwin_tensor *y,
                             ortwin_error *error);
EXPORTED int driver_quantise(int isa, const ortwin_tensor *x, const ortwin_tensor *scale, const ortwin_tensor *zero,
                             int64_t axis, int64_t block_size, int32_t precision, ortwin_tensor *y,
                             ortwin_error *error) {
    ortwin_operand a = known(x), b = known(scale), c = known(zero);
    ow_granularity g;
    ortwin_status status = ow_granularity_of(&a, &b, &c, axis, block_size, 0, &g, error);
    if (!status && precision)
        ow_quantise(all[isa]->quantisers, &g, x, scale, zero, precision, y);
    else if (!status)
        ow_dequantise(all[isa]->quantisers, &g, x, scale, zero, y);
    return (int)status;
}

EXPORTED void driver_dynamic(int isa, const void *x, size_t n, float *scale, uint8_t *zero, void *y);
EXPORTED void driver_dynamic(int isa, const void *x, size_t n, float *scale, uint8_t *zero, void *y) {
    ow_dynamic_scale(all[isa]->quantisers, x, n, scale, zero);
    ow_quantise_bytes(all[isa]->quantisers, x, n, *scale, *zero, y);
}

EXPORTED int driver_shape(const ow_product_shapes *shapes, int64_t *dims, int32_t *rank, ortwin_error *error);
EXPORTED int driver_shape(const ow_product_shapes *shapes, int64_t *dims, int32_t *rank, ortwin_error *error) {
    return (int)ow_product_shape(shapes, dims, rank, error);
}

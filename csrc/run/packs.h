/* Constant right matrices, packed once for an instruction set and shared by all plans that hold the same bytes. */
#ifndef ORTWIN_RUN_PACKS_H
#define ORTWIN_RUN_PACKS_H

#include "kernels/products.h"
#include "ortwin.h"
#include "run/counters.h"

/* Matrices of k rows and n columns, one after the other. Per matrix: its panels, each panel * (k up to a multiple of
 * the group) bytes, and the sums of its columns, in the order of `panels`. */
typedef struct ow_pack {
    const int8_t *panels;
    const int32_t *column_sums;
    size_t panels_size, sums_count; /* of one matrix: bytes; numbers */
} ow_pack;

/* A pack of these matrices, to be given back; NULL if it was declined, for the budget or for want of memory: products
 * then pack as they go, with the same bits. The verdict falls before anything is built. */
const ow_pack *ow_pack_take(const ow_products *kernels, const void *b, size_t matrices, size_t k, size_t n,
                            unsigned char flip, ow_tally *tally);
/* Gives it back; with its last user it is freed. NULL is allowed. */
void ow_pack_give(const ow_pack *pack, ow_tally *tally);

/* Bytes that all packs together may take. At first that of the environment variable ORTWIN_PACK_BYTES, else 1 GiB. */
void ow_pack_budget(uint64_t bytes);

#endif

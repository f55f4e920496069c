/* Constant right matrices of 8-bit elements as products take them. */
#ifndef ORTWIN_RUN_INTEGER_PACK_H
#define ORTWIN_RUN_INTEGER_PACK_H

#include "kernels/products.h"
#include "ortwin.h"
#include "run/matrices.h"
#include "run/packs.h"

/* Per matrix: its panels, each panel * (k up to a multiple of the group) bytes, and the sums of its columns, in the
 * order of the panels. */
typedef struct ow_integer_pack {
    const int8_t *panels;
    const int32_t *column_sums;
    size_t panels_size, sums_count; /* of one matrix: bytes; numbers */
} ow_integer_pack;

/* The matrices in b packed for these kernels, as ow_pack_take. */
const ow_pack *ow_integer_pack_take(const ow_products *kernels, const ortwin_tensor *b, ow_tally *tally);
/* What is in a pack of such matrices. */
ow_integer_pack ow_integer_pack_of(const ow_products *kernels, const ow_matrices *b, const ow_pack *pack);

#endif

/* A matrix of results cut for several threads: by its shape alone (C1). */
#ifndef ORTWIN_RUN_TILES_H
#define ORTWIN_RUN_TILES_H

#include "run/whole.h"

enum { OW_TILE_ROWS = 128 }; /* of a tile, at most */

/* Computes rows [row, row + rows) and columns [from, until). False when there is no memory. */
typedef int ow_tile_fn(const void *user, size_t row, size_t rows, size_t from, size_t until);

/* A matrix of results in y, rows of `columns` elements of `item` bytes. */
typedef struct ow_tiling {
    ow_tile_fn *tile;
    const void *user;
    const unsigned char *y;
    size_t item, rows, columns, least;
} ow_tiling;

/* Calls tile(user, ...) for tiles that cover the matrix: at most 64 (or as many as there are OW_TILE_ROWS rows), which
 * begin at multiples of `least` columns, or bands of whole rows where this thread works alone; and what follows for
 * each tile. False when a tile was. */
int ow_run_tiles(const ow_fan *fan, const ow_tiling *tiling);

static inline size_t ow_least(size_t m, size_t n) { return m < n ? m : n; }

#endif

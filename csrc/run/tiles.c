#include "run/tiles.h"

#include "run/split.h"

#include <stdatomic.h>

typedef struct cut {
    ow_tile_fn *tile;
    const void *user;
    size_t rows, columns, heights, width; /* how many tiles are on top of one another; columns of each */
    atomic_int failed;
} cut;

static void run_task(void *user, size_t index) {
    cut *c = user;
    size_t row = index % c->heights * OW_TILE_ROWS, from = index / c->heights * c->width;
    size_t rows = c->rows - row < OW_TILE_ROWS ? c->rows - row : OW_TILE_ROWS;
    size_t until = c->columns - from < c->width ? c->columns : from + c->width;
    if (!c->tile(c->user, row, rows, from, until))
        atomic_store_explicit(&c->failed, 1, memory_order_relaxed);
}

int ow_run_tiles(const ow_fan *fan, size_t rows, size_t columns, size_t least, ow_tile_fn *tile, const void *user) {
    cut c = {.tile = tile, .user = user, .rows = rows, .columns = columns};
    c.heights = (rows - 1) / OW_TILE_ROWS + 1;
    size_t widths = c.heights >= OW_MAX_PIECES ? 1 : OW_MAX_PIECES / c.heights;
    c.width = ((columns - 1) / widths / least + 1) * least;
    size_t count = ((columns - 1) / c.width + 1) * c.heights;
    if (fan && count > 1 && fan->run(fan->context, count, run_task, &c))
        return !atomic_load(&c.failed);
    c.width = columns;
    for (size_t k = 0; k < c.heights; k++)
        run_task(&c, k);
    return !atomic_load(&c.failed);
}

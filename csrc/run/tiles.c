#include "run/tiles.h"

#include "run/split.h"

#include <stdatomic.h>

typedef struct cut {
    const ow_tiling *of;
    const ow_fan *fan;
    size_t heights, width; /* how many tiles are on top of one another; columns of each */
    atomic_int failed;
} cut;

/* What follows the op, on a tile: its rows are one range only where they are whole. */
static void follow(const cut *c, size_t row, size_t rows, size_t from, size_t until) {
    const ow_tiling *t = c->of;
    size_t count = until - from;
    if (count == t->columns)
        count *= rows, rows = 1;
    for (size_t r = row; r < row + rows; r++)
        c->fan->follow(c->fan->context, t->y + (r * t->columns + from) * t->item, count);
}

static void run_task(void *user, size_t index) {
    cut *c = user;
    const ow_tiling *t = c->of;
    size_t row = index % c->heights * OW_TILE_ROWS, from = index / c->heights * c->width;
    size_t rows = ow_least(t->rows - row, OW_TILE_ROWS), until = from + ow_least(t->columns - from, c->width);
    if (!t->tile(t->user, row, rows, from, until))
        atomic_store_explicit(&c->failed, 1, memory_order_relaxed);
    else if (c->fan->follow)
        follow(c, row, rows, from, until);
}

int ow_run_tiles(const ow_fan *fan, const ow_tiling *tiling) {
    cut c = {.of = tiling, .fan = fan};
    c.heights = (tiling->rows - 1) / OW_TILE_ROWS + 1;
    size_t widths = c.heights >= OW_MAX_PIECES ? 1 : OW_MAX_PIECES / c.heights;
    c.width = ((tiling->columns - 1) / widths / tiling->least + 1) * tiling->least;
    size_t count = ((tiling->columns - 1) / c.width + 1) * c.heights;
    if (fan->run && count > 1 && fan->run(fan->context, count, run_task, &c))
        return !atomic_load(&c.failed);
    c.width = tiling->columns;
    for (size_t k = 0; k < c.heights; k++)
        run_task(&c, k);
    return !atomic_load(&c.failed);
}

#include "run/packs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    ow_pack pack; /* first, so that the pointers convert */
    struct entry *next;
    const ow_products *kernels;
    size_t matrices, k, n, bytes, users;
    uint64_t hash;
    unsigned char flip;
    void *memory;
} entry;

/* One per process: sessions of different threads and hosts share it, and the budget is the process's. */
static struct {
    pthread_mutex_t mutex;
    entry *entries;
    uint64_t budget;
    int budget_known;
    uint64_t live_bytes;
} cache = {.mutex = PTHREAD_MUTEX_INITIALIZER};

enum { ALIGNMENT = 64 };

static uint64_t budget(void) {
    if (!cache.budget_known) {
        const char *text = getenv("ORTWIN_PACK_BYTES");
        char *end = NULL;
        unsigned long long given = text ? strtoull(text, &end, 10) : 0;
        cache.budget = text && end != text && *end == '\0' && *text != '-' ? given : (uint64_t)1 << 30;
        cache.budget_known = 1;
    }
    return cache.budget;
}

void ow_pack_budget(uint64_t bytes) {
    pthread_mutex_lock(&cache.mutex);
    cache.budget = bytes;
    cache.budget_known = 1;
    pthread_mutex_unlock(&cache.mutex);
}

/* FNV-1a over words of 8 bytes: only to find candidates, which are then compared. */
static uint64_t hash_of(const unsigned char *p, size_t bytes) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
        hash ^= hash >> 32;
    }
    for (; bytes; p++, bytes--)
        hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

/* Sizes of one matrix's pack, and of all; 0 where they do not fit. */
static int sizes(const ow_products *kernels, size_t matrices, size_t k, size_t n, ow_pack *pack, size_t *bytes) {
    size_t depth, panels, sums, each;
    if (__builtin_add_overflow(k, kernels->group - 1, &depth) || __builtin_add_overflow(n, kernels->panel - 1, &panels))
        return 0;
    depth = depth / kernels->group * kernels->group;
    panels = panels / kernels->panel;
    if (__builtin_mul_overflow(panels, kernels->panel, &pack->sums_count) ||
        __builtin_mul_overflow(pack->sums_count, depth, &pack->panels_size) ||
        __builtin_mul_overflow(pack->sums_count, sizeof(int32_t), &sums) ||
        __builtin_add_overflow(pack->panels_size, sums, &each) || __builtin_mul_overflow(each, matrices, bytes))
        return 0;
    return *bytes <= PTRDIFF_MAX - 2 * ALIGNMENT;
}

/* Packs one matrix. ones: a left row of ones. */
static void pack_matrix(const entry *e, const unsigned char *b, const void *ones, int8_t *panels, int32_t *sums) {
    const ow_products *kernels = e->kernels;
    size_t groups = (e->k + kernels->group - 1) / kernels->group, size = kernels->panel * groups * kernels->group;
    if (e->k)
        kernels->pack_right(b, e->n, e->k, e->n, e->flip, panels, size);
    memset(sums, 0, e->pack.sums_count * sizeof *sums);
    for (size_t c = 0; c < e->n; c += kernels->panel, panels += size, sums += kernels->panel)
        kernels->multiply(ones, 0, 1, panels, groups, sums);
}

static int build(entry *e, const unsigned char *b) {
    const ow_products *kernels = e->kernels;
    unsigned char *bytes = malloc(e->k ? e->k : 1);
    void *ones = malloc((e->k + kernels->group) * kernels->left_size);
    e->memory = malloc(e->bytes + ALIGNMENT);
    if (bytes && ones && e->memory) {
        memset(bytes, 1, e->k);
        kernels->pack_left(bytes, e->k, 0, 0, ones);
        int8_t *panels = (int8_t *)(((uintptr_t)e->memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        int32_t *sums = (int32_t *)(void *)(panels + e->matrices * e->pack.panels_size);
        e->pack.panels = panels;
        e->pack.column_sums = sums;
        for (size_t m = 0; m < e->matrices; m++)
            pack_matrix(e, b + m * e->k * e->n, ones, panels + m * e->pack.panels_size, sums + m * e->pack.sums_count);
    }
    free(bytes);
    free(ones);
    return bytes && ones && e->memory;
}

/* Two packs of the same shape and form hold the same matrices exactly if they hold the same bytes. */
static int same(const entry *a, const entry *b) {
    return a->kernels == b->kernels && a->matrices == b->matrices && a->k == b->k && a->n == b->n &&
           a->flip == b->flip && a->hash == b->hash;
}

static entry *find(const entry *wanted) {
    for (entry *e = cache.entries; e; e = e->next)
        if (same(e, wanted))
            return e;
    return NULL;
}

static void drop(entry *e) {
    if (e)
        free(e->memory);
    free(e);
}

static const ow_pack *decline(entry *e, ow_tally *tally) {
    ow_count(tally, OW_packs_declined, 1);
    drop(e);
    return NULL;
}

static const ow_pack *take(entry *e, const unsigned char *b, ow_tally *tally) {
    entry *twin = find(e);
    uint64_t live = cache.live_bytes;
    if (!twin && (live > budget() || e->bytes > budget() - live))
        return decline(e, tally);
    if (!build(e, b))
        return decline(e, tally);
    while (twin && memcmp(twin->pack.panels, e->pack.panels, e->matrices * e->pack.panels_size) != 0) {
        do
            twin = twin->next;
        while (twin && !same(twin, e));
    }
    if (twin) {
        twin->users++;
        ow_count(tally, OW_packs_shared, 1);
        drop(e);
        return &twin->pack;
    }
    e->next = cache.entries;
    cache.entries = e;
    cache.live_bytes += e->bytes;
    ow_count(tally, OW_packs_built, 1);
    ow_count(tally, OW_pack_bytes, e->bytes);
    return &e->pack;
}

const ow_pack *ow_pack_take(const ow_products *kernels, const void *b, size_t matrices, size_t k, size_t n,
                            unsigned char flip, ow_tally *tally) {
    entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    *e = (entry){.kernels = kernels, .matrices = matrices, .k = k, .n = n, .users = 1, .flip = flip};
    int fits = sizes(kernels, matrices, k, n, &e->pack, &e->bytes);
    e->hash = fits ? hash_of(b, matrices * k * n) : 0;
    pthread_mutex_lock(&cache.mutex);
    const ow_pack *pack = fits ? take(e, b, tally) : decline(e, tally);
    pthread_mutex_unlock(&cache.mutex);
    return pack;
}

void ow_pack_give(const ow_pack *pack, ow_tally *tally) {
    if (!pack)
        return;
    pthread_mutex_lock(&cache.mutex);
    entry **at = &cache.entries;
    while (*at && &(*at)->pack != pack)
        at = &(*at)->next;
    entry *e = *at;
    if (e && --e->users == 0) {
        *at = e->next;
        cache.live_bytes -= e->bytes;
        ow_count(tally, OW_packs_freed, 1);
        ow_count(tally, OW_pack_bytes, 0 - (uint64_t)e->bytes); /* the totals are modulo 2^64 */
        drop(e);
    }
    pthread_mutex_unlock(&cache.mutex);
}

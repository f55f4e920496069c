#define _DEFAULT_SOURCE /* madvise */
#include "run/packs.h"

#include "run/fpstate.h"
#include "run/ops.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct entry {
    ow_pack pack; /* first, so that the pointers convert */
    struct entry *next;
    ow_pack_recipe recipe; /* its sources may be gone: their sizes and hash stay */
    uint64_t hash;
    size_t users;
} entry;

/* One per process: sessions of different threads and hosts share it, and the budget is the process's. */
static struct {
    pthread_mutex_t mutex;
    entry *entries;
    uint64_t budget;
    int budget_known; /* it was said, or the environment has been asked */
    uint64_t live_bytes;
} cache = {.mutex = PTHREAD_MUTEX_INITIALIZER, .budget = (uint64_t)1 << 30};

enum { ALIGNMENT = 64, LARGE = 2 << 20 };

int ow_read_bytes(const char *text, uint64_t *bytes) {
    *bytes = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(*bytes, (uint64_t)10, bytes) ||
            __builtin_add_overflow(*bytes, (uint64_t)(*c - '0'), bytes))
            return 0;
    return c != text && !*c;
}

ortwin_status ow_pack_environment(ortwin_error *error) {
    ortwin_status status = ORTWIN_OK;
    pthread_mutex_lock(&cache.mutex);
    const char *text = cache.budget_known ? NULL : getenv("ORTWIN_PACK_BYTES");
    uint64_t bytes;
    if (text && *text && ow_read_bytes(text, &bytes))
        cache.budget = bytes;
    else if (text && *text)
        status = ow_fail(error, ORTWIN_MISUSE, "pack_bytes '%.64s' (from ORTWIN_PACK_BYTES): %s", text, OW_BYTES_RULE);
    cache.budget_known = status == ORTWIN_OK;
    pthread_mutex_unlock(&cache.mutex);
    return status;
}

void ow_pack_budget(uint64_t bytes) {
    pthread_mutex_lock(&cache.mutex);
    cache.budget = bytes;
    cache.budget_known = 1;
    pthread_mutex_unlock(&cache.mutex);
}

/* FNV-1a over words of 8 bytes: only to find candidates, which are then compared. */
static uint64_t hash_more(uint64_t hash, const unsigned char *p, size_t bytes) {
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

static uint64_t hash_of(const ow_pack_recipe *recipe) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t k = 0; k < OW_PACK_SOURCES; k++)
        hash = hash_more(hash, recipe->sources[k].data, recipe->sources[k].bytes);
    return hash;
}

/* Zeros, also where the layout has gaps, since packs are compared; NULL for none. A large pack is read front to back by
 * every Run, so it is asked for in large pages: otherwise translating addresses costs a tenth of a product's time. */
static void *new_memory(size_t bytes) {
    size_t alignment = bytes < LARGE ? ALIGNMENT : LARGE, whole = (bytes + alignment) / alignment * alignment;
    void *memory = aligned_alloc(alignment, whole);
#if defined(MADV_HUGEPAGE)
    if (memory && alignment == LARGE)
        madvise(memory, whole, MADV_HUGEPAGE); /* advice: what comes of it changes nothing else */
#endif
    return memory ? memset(memory, 0, whole) : NULL;
}

static int build(entry *e) {
    void *target = new_memory(e->recipe.bytes);
    e->pack = (ow_pack){target, e->recipe.bytes};
    return target && e->recipe.build(&e->recipe, target);
}

/* Candidates: two packs of the same layout are of the same sources exactly if they hold the same bytes. */
static int same(const entry *a, const entry *b) {
    const ow_pack_recipe *p = &a->recipe, *q = &b->recipe;
    int sizes = 1;
    for (size_t k = 0; k < OW_PACK_SOURCES; k++)
        sizes &= p->sources[k].bytes == q->sources[k].bytes;
    return sizes && p->form == q->form && p->build == q->build && p->bytes == q->bytes && a->hash == b->hash &&
           memcmp(p->parameters, q->parameters, sizeof p->parameters) == 0;
}

static entry *find(const entry *wanted) {
    for (entry *e = cache.entries; e; e = e->next)
        if (same(e, wanted))
            return e;
    return NULL;
}

static void drop(entry *e) {
    if (e)
        free((void *)(uintptr_t)e->pack.data);
    free(e);
}

static const ow_pack *decline(entry *e, ow_tally *tally) {
    ow_count(tally, OW_packs_declined, 1);
    drop(e);
    return NULL;
}

static const ow_pack *take(entry *e, ow_tally *tally) {
    entry *twin = find(e);
    uint64_t live = cache.live_bytes;
    if (!twin && (live > cache.budget || e->recipe.bytes > cache.budget - live))
        return decline(e, tally);
    if (!build(e))
        return decline(e, tally);
    while (twin && memcmp(twin->pack.data, e->pack.data, e->pack.bytes) != 0) {
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
    cache.live_bytes += e->pack.bytes;
    ow_count(tally, OW_packs_built, 1);
    ow_count(tally, OW_pack_bytes, e->pack.bytes);
    return &e->pack;
}

const ow_pack *ow_pack_take(const ow_pack_recipe *recipe, ow_tally *tally) {
    entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->recipe = *recipe;
    e->users = 1;
    int fits = recipe->bytes <= PTRDIFF_MAX - 2 * LARGE;
    if (fits)
        e->hash = hash_of(recipe);
    ow_fpstate caller = ow_fpstate_enter();
    pthread_mutex_lock(&cache.mutex);
    const ow_pack *pack = fits ? take(e, tally) : decline(e, tally);
    pthread_mutex_unlock(&cache.mutex);
    ow_fpstate_leave(caller);
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
        cache.live_bytes -= e->pack.bytes;
        ow_count(tally, OW_packs_freed, 1);
        ow_count(tally, OW_pack_bytes, 0 - (uint64_t)e->pack.bytes); /* the totals are modulo 2^64 */
        drop(e);
    }
    pthread_mutex_unlock(&cache.mutex);
}

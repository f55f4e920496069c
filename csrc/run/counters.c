#include "run/counters.h"

#include "ortwin.h"

#include <pthread.h>
#include <stdlib.h>

/* The library's only mutable globals. The lock is taken to open, close and read, never to count. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ow_tally *alive;
static uint64_t left[OW_COUNTERS]; /* by tallies that were closed */

void ow_lock_counters(void) { pthread_mutex_lock(&lock); }
void ow_unlock_counters(void) { pthread_mutex_unlock(&lock); }

void ow_tally_open(ow_tally *tally, int shared) {
    for (size_t k = 0; k < OW_COUNTERS; k++)
        atomic_init(&tally->counts[k], 0);
    tally->shared = shared;
    pthread_mutex_lock(&lock);
    tally->next = alive;
    tally->link = &alive;
    if (alive)
        alive->link = &tally->next;
    alive = tally;
    pthread_mutex_unlock(&lock);
}

void ow_tally_close(ow_tally *tally) {
    pthread_mutex_lock(&lock);
    for (size_t k = 0; k < OW_COUNTERS; k++)
        left[k] += atomic_load_explicit(&tally->counts[k], memory_order_relaxed);
    *tally->link = tally->next;
    if (tally->next)
        tally->next->link = tally->link;
    pthread_mutex_unlock(&lock);
}

int ortwin_counter(size_t index, const char **name, uint64_t *value) {
    static const char *const names[] = {
#define C(name) #name,
#include "counters.def"
#undef C
    };
    if (index >= OW_COUNTERS || !name || !value)
        return 0;
    *name = names[index];
    pthread_mutex_lock(&lock);
    uint64_t total = left[index];
    for (const ow_tally *tally = alive; tally; tally = tally->next)
        total += atomic_load_explicit(&tally->counts[index], memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    *value = total;
    return 1;
}

void *ow_alloc(ow_tally *tally, ow_counter phase, size_t count, size_t size) {
    ow_count(tally, phase, 1);
    return calloc(count ? count : 1, size);
}

void *ow_grown(ow_tally *tally, ow_counter phase, void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    size_t wanted = *room ? *room * 2 : 8;
    if (wanted > SIZE_MAX / size)
        return NULL;
    ow_count(tally, phase, 1);
    void *larger = realloc(array, wanted * size);
    if (larger)
        *room = wanted;
    return larger;
}

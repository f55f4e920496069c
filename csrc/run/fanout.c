#define _GNU_SOURCE /* clock_gettime */
#include "run/fanout.h"

#include "run/fpstate.h"
#include "run/ops.h"
#include "run/pool.h"
#include "run/split.h"

#include <time.h>

/* > 0: this thread runs a task, or its user asked for no more threads. */
static _Thread_local unsigned serial_depth;

void ortwin_serial_begin(void) { serial_depth++; }
void ortwin_serial_end(void) {
    if (serial_depth)
        serial_depth--;
}

void ow_relax(void) {
#if defined(__x86_64__)
    _mm_pause();
#else
    __asm__ volatile("yield");
#endif
}

int64_t ow_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void ow_work_on(ow_job *job) {
    size_t done = 0;
    ow_fpstate found = ow_fpstate_enter();
    serial_depth++;
    for (;;) {
        size_t k = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (k >= job->count)
            break;
        job->task(job->user, k);
        done++;
    }
    serial_depth--;
    ow_fpstate_leave(found);
    if (done && !pthread_equal(pthread_self(), job->caller))
        atomic_fetch_add_explicit(&job->elsewhere, done, memory_order_relaxed);
}

/* ---- the host's pool ---- */

/* A host has workers, or runs everything on the thread that asks; nothing but trying tells. Trying costs up to
 * PROBE_NS, so it is done less and less often, and never with work in it: a worker that comes late must not hold up
 * the caller's own work, which is done serially until one has come in time. */
static const uint32_t HAS_WORKERS = UINT32_MAX;
enum { PROBE_TASKS = 8, PROBE_NS = 400000 };
enum { BURST = 8, FIRST_GAP = 64, LAST_GAP = 1024 };

uint32_t ow_probe_step(uint32_t state, int *probe) {
    uint32_t call = state + 1, due = BURST, gap = FIRST_GAP;
    while (due < call && gap <= LAST_GAP) {
        due += gap;
        gap *= 2;
    }
    *probe = call <= BURST || call == due;
    /* With the last gap the schedule repeats, and so does the state: it never grows to anything that wraps. */
    return call == due && gap > LAST_GAP ? due - LAST_GAP : call;
}

typedef struct probe {
    pthread_t caller;
    int held;
    _Atomic int met; /* another thread was here */
} probe;

static void probe_task(void *user, size_t index) {
    probe *p = user;
    (void)index;
    if (!pthread_equal(pthread_self(), p->caller)) {
        atomic_store_explicit(&p->met, 1, memory_order_relaxed);
        return;
    }
    if (p->held)
        return;
    p->held = 1; /* the first index of the caller waits, so that it does not take all of them before anyone is awake */
    for (int64_t end = ow_now() + PROBE_NS; !atomic_load_explicit(&p->met, memory_order_relaxed) && ow_now() < end;)
        ow_relax();
}

static int host_has_workers(const ortwin_host *host, ow_tally *tally) {
    uint32_t state = atomic_load_explicit(host->state, memory_order_relaxed), next;
    int asked;
    do {
        if (state == HAS_WORKERS)
            return 1;
        next = ow_probe_step(state, &asked);
    } while (
        !atomic_compare_exchange_weak_explicit(host->state, &state, next, memory_order_relaxed, memory_order_relaxed));
    if (!asked)
        return 0;
    ow_count(tally, OW_probes, 1);
    probe p = {.caller = pthread_self()};
    if (host->dispatch(host->context, probe_task, PROBE_TASKS, &p) != 0 || !atomic_load(&p.met))
        return 0;
    if (atomic_exchange(host->state, HAS_WORKERS) != HAS_WORKERS)
        ow_count(tally, OW_latches, 1);
    return 1;
}

static void host_task(void *job, size_t index) {
    (void)index; /* an index of the host is a thread's turn, not a task */
    ow_work_on(job);
}

static int run_on_host(const ow_team *team, ow_job *job, ow_tally *tally) {
    if (!host_has_workers(team->host, tally))
        return 0;
    size_t turns = team->threads ? (size_t)team->threads : OW_MAX_PIECES;
    ow_count(tally, OW_host_dispatches, 1);
    if (team->host->dispatch(team->host->context, host_task, turns < job->count ? turns : job->count, job) != 0)
        ow_count(tally, OW_refusals, 1);
    ow_work_on(job); /* whatever is left: all of it when the host refused, else nothing */
    return 1;
}

/* ---- */

int ow_fan_out(const ow_team *team, size_t count, ortwin_task_fn task, void *user, ow_tally *tally) {
    if (team->threads == 1 || count < 2 || serial_depth)
        return 0;
    ow_job job = {.task = task, .user = user, .count = count, .caller = pthread_self()};
    if (!(team->host ? run_on_host(team, &job, tally) : ow_pool_run(team->threads, &job, tally)))
        return 0;
    ow_count(tally, OW_splits, 1);
    ow_count(tally, OW_pieces, count);
    ow_count(tally, OW_pieces_elsewhere, atomic_load(&job.elsewhere));
    return 1;
}

ortwin_status ortwin_parallel(const ortwin_host *host, int32_t threads, size_t count, ortwin_task_fn task, void *user,
                              ortwin_error *error) {
    if (!task || (host && (!host->dispatch || !host->state)))
        return ow_fail(error, ORTWIN_NULL_POINTER, "%s is NULL", task ? "a member of the host" : "task");
    if (threads < 0 || threads > ORTWIN_MAX_THREADS)
        return ow_fail(error, ORTWIN_MISUSE, "threads must be 0 to %d, not %d", ORTWIN_MAX_THREADS, (int)threads);
    ow_tally tally;
    ow_tally_open(&tally, 0);
    ow_fpstate caller = ow_fpstate_enter();
    if (!ow_fan_out(&(ow_team){threads, host}, count, task, user, &tally))
        for (size_t k = 0; k < count; k++)
            task(user, k);
    ow_fpstate_leave(caller);
    ow_tally_close(&tally);
    return ORTWIN_OK;
}

/* Threads of our own. A caller posts its job, works on it, and waits for those who joined; threads look for jobs with
 * free places, spin a little when there is none, and then sleep. One lock guards everything but the counters that are
 * drawn from, since it is taken a few times per job of 20 us or more. */
#define _GNU_SOURCE /* pthread_sigmask */
#include "run/pool.h"

#include "run/affinity.h"
#include "run/split.h"

#include <signal.h>

enum { SPIN_NS = 50000 };                  /* how long a thread stays awake for what may come next */
enum { MOST_WORKERS = OW_MAX_PIECES - 1 }; /* besides the caller */

/* A job that is being worked on, in the frame of its caller. */
typedef struct posting {
    ow_job *job;
    size_t places;          /* how many more threads may join */
    _Atomic size_t present; /* how many have joined and not left */
    struct posting *next;
} posting;

static struct pool {
    pthread_mutex_t lock;
    pthread_cond_t posted, left;
    _Atomic unsigned postings; /* counts them, for those who spin */
    posting *first;
    pthread_t workers[MOST_WORKERS];
    size_t count, asleep;
    int cpus;       /* this process may use, 0 when not asked yet */
    int spin;       /* whether threads may stay awake: no more of them than CPUs */
    int forks_seen; /* fork handlers are registered */
    unsigned forks; /* above this process since the library was loaded */
    int closed;     /* the library is being unloaded */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER, .left = PTHREAD_COND_INITIALIZER};

static void lock(void) { pthread_mutex_lock(&pool.lock); }
static void unlock(void) { pthread_mutex_unlock(&pool.lock); }

static posting *find_place(void) {
    posting *p = pool.first;
    while (p && !p->places)
        p = p->next;
    return p;
}

/* With the lock held, which is given away meanwhile: until something is posted. */
static void await_posting(void) {
    unsigned seen = atomic_load_explicit(&pool.postings, memory_order_relaxed);
    if (pool.spin) {
        unlock();
        for (int64_t end = ow_now() + SPIN_NS; ow_now() < end; ow_relax())
            if (atomic_load_explicit(&pool.postings, memory_order_relaxed) != seen)
                break;
        lock();
    }
    if (seen != atomic_load_explicit(&pool.postings, memory_order_relaxed))
        return;
    pool.asleep++;
    pthread_cond_wait(&pool.posted, &pool.lock);
    pool.asleep--;
}

static void *worker(void *unused) {
    (void)unused;
    lock();
    while (!pool.closed) {
        posting *p = find_place();
        if (!p) {
            await_posting();
            continue;
        }
        p->places--;
        atomic_fetch_add_explicit(&p->present, 1, memory_order_relaxed);
        unlock();
        ow_work_on(p->job);
        lock();
        if (atomic_fetch_sub_explicit(&p->present, 1, memory_order_release) == 1)
            pthread_cond_broadcast(&pool.left); /* p may be gone from here on */
    }
    unlock();
    return NULL;
}

/* fork copies the thread that forks and no other: the child starts again with no threads, and with locks that nobody
 * held at that moment. */
static void before_fork(void) {
    lock();
    ow_lock_counters();
}
static void after_fork_in_parent(void) {
    ow_unlock_counters();
    unlock();
}
static void after_fork_in_child(void) {
    pool.posted = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    pool.first = NULL;
    pool.count = pool.asleep = 0;
    pool.cpus = 0;
    pool.forks++;
    ow_unlock_counters();
    unlock();
}

/* With the lock held: makes the threads that are missing, as many as can be had. */
static void make_workers(size_t wanted, ow_tally *tally) {
    if (pool.count >= wanted)
        return;
    if (!pool.forks_seen) {
        if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
            return;
        pool.forks_seen = 1;
    }
    size_t had = pool.count;
    sigset_t all, before; /* signals are the program's business, and so its threads' */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.count < wanted && pthread_create(&pool.workers[pool.count], NULL, worker, NULL) == 0) {
        pool.count++;
        ow_count(tally, OW_threads_created, 1);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    ow_count(tally, OW_pools_built, !had && pool.count);
    pool.spin = pool.count < (size_t)pool.cpus;
}

/* With the lock held: how many threads besides the caller shall work on a job. */
static size_t workers_for(int32_t threads, size_t tasks, ow_tally *tally) {
    if (!pool.cpus)
        pool.cpus = ow_usable_cpus();
    size_t wanted = (size_t)(threads ? threads : pool.cpus) - 1;
    if (wanted > MOST_WORKERS)
        wanted = MOST_WORKERS;
    make_workers(wanted, tally);
    if (wanted > pool.count)
        wanted = pool.count;
    return wanted < tasks - 1 ? wanted : tasks - 1;
}

static void withdraw(posting *mine) {
    posting **at = &pool.first;
    while (*at && *at != mine) /* not there any more in a forked child */
        at = &(*at)->next;
    if (*at)
        *at = mine->next;
}

/* Until those who joined have left: they are finishing their last tasks, so mostly a moment. */
static void await_workers(posting *mine, int spin, unsigned forks) {
    for (int64_t end = spin ? ow_now() + SPIN_NS : 0; spin && ow_now() < end; ow_relax())
        if (!atomic_load_explicit(&mine->present, memory_order_acquire))
            return;
    lock();
    while (atomic_load_explicit(&mine->present, memory_order_acquire) && pool.forks == forks)
        pthread_cond_wait(&pool.left, &pool.lock);
    unlock();
}

int ow_pool_run(int32_t threads, ow_job *job, ow_tally *tally) {
    lock();
    size_t helpers = pool.closed ? 0 : workers_for(threads, job->count, tally);
    if (!helpers) {
        unlock();
        return 0;
    }
    posting mine = {.job = job, .places = helpers, .next = pool.first};
    unsigned forks = pool.forks;
    pool.first = &mine;
    atomic_fetch_add_explicit(&pool.postings, 1, memory_order_relaxed);
    for (size_t k = 0; k < helpers && k < pool.asleep; k++)
        pthread_cond_signal(&pool.posted);
    unlock();
    ow_count(tally, OW_own_pool_fanouts, 1);

    ow_work_on(job);

    lock();
    withdraw(&mine);
    int spin = pool.spin;
    unlock();
    await_workers(&mine, spin, forks);
    return 1;
}

/* At exit and at dlclose, whose destructors run before the code is unmapped. */
__attribute__((destructor)) static void close_pool(void) {
    lock();
    pool.closed = 1;
    atomic_fetch_add_explicit(&pool.postings, 1, memory_order_relaxed);
    pthread_cond_broadcast(&pool.posted);
    unlock();
    for (size_t k = 0; k < pool.count; k++)
        pthread_join(pool.workers[k], NULL);
}

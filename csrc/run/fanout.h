/* Fanning work out: the one function that does, and the serial scope. */
#ifndef ORTWIN_RUN_FANOUT_H
#define ORTWIN_RUN_FANOUT_H

#include "ortwin.h"
#include "run/counters.h"

#include <pthread.h>
#include <stdatomic.h>

/* Who may work on a call. host: the pool of the program that called, NULL for the library's own. */
typedef struct ow_team {
    int32_t threads; /* the budget: 1 is the caller alone, 0 whatever the host, or else the machine, has */
    const ortwin_host *host;
} ow_team;

/* Tasks that several threads draw from, on the stack of the thread that waits for them. */
typedef struct ow_job {
    ortwin_task_fn task;
    void *user;
    size_t count;
    pthread_t caller;
    _Atomic size_t next;      /* the first that nobody has taken */
    _Atomic size_t elsewhere; /* how many ran on other threads than the caller */
} ow_job;

/* Runs task(user, 0) to task(user, count - 1), each once, on several threads, and returns when all have ended. False
 * when the call is to be serial, and then nothing was run: a budget of 1, a single task, a thread that is running a
 * task or is in a serial scope, a host whose pool has shown no other thread, or no thread to be had. */
int ow_fan_out(const ow_team *team, size_t count, ortwin_task_fn task, void *user, ow_tally *tally);

/* Draws tasks until none is left, under the floating-point state of C4; what they fan out themselves is serial. */
void ow_work_on(ow_job *job);

/* A moment of a loop that waits; ow_now is in ns. */
void ow_relax(void);
int64_t ow_now(void);

/* How a session learns whether its host's pool has other threads. state counts the calls so far, 0 at first; *probe:
 * whether this call is one that asks. The first 8 do, then the 64th after them, and the gap doubles up to 1024. */
uint32_t ow_probe_step(uint32_t state, int *probe);

#endif

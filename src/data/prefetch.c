// SPDX-License-Identifier: Apache-2.0
// prefetch.c - see prefetch.h.
//
// Sleeping follows one pattern on both sides: raise the own `asleep` flag, look at the other side's
// counter again, then wait; the other side moves its counter, then looks at the flag. With
// sequentially consistent order at least one of the two sees the other, so no wake-up is missed.
// The mutex guards nothing but the condition variables.
#include "data/prefetch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { WAIT_MS = 100 };

struct mu_prefetch {
    int              n_slots;
    int              group;             // a starved consumer sleeps until this many are filled
    mu_prefetch_fill fill;
    void            *ctx;
    mu_prefetch_patience patience;
    pthread_t        thread;
    bool             running;           // a thread is to be joined; owner thread only
    bool             lost;              // a thread was left behind
    int64_t          held;              // slots handed out and not given back, 0 or 1; consumer only
    double           wait_s;            // consumer only
    mu_err           err;               // of the producer; read after `done`
    pthread_mutex_t  lock;
    pthread_cond_t   filled, freed;
    atomic_bool      stop, done;        // done: the producer will fill no more
    // The counters that both sides watch lie on cache lines of their own.
    MU_ALIGNED(MU_CACHE_LINE) _Atomic int64_t head;
    atomic_bool      producer_asleep;
    MU_ALIGNED(MU_CACHE_LINE) _Atomic int64_t tail;
    atomic_bool      consumer_asleep;
};

// True when woken, false when the time was up.
static bool sleep_on(mu_prefetch *p, pthread_cond_t *cond) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_nsec -= 1000000000L, until.tv_sec++;
    return pthread_cond_timedwait(cond, &p->lock, &until) == 0;
}

static void wake(mu_prefetch *p, pthread_cond_t *cond) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(cond);
    pthread_mutex_unlock(&p->lock);
}

// ---- producer ----

static int64_t n_filled(mu_prefetch *p) { return atomic_load(&p->head) - atomic_load(&p->tail); }
static int64_t n_free(mu_prefetch *p) { return p->n_slots - n_filled(p); }

static void wait_for_room(mu_prefetch *p) {
    int64_t enough = (p->n_slots + 1) / 2;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->producer_asleep, true);
    while (!atomic_load(&p->stop) && n_free(p) < enough) (void)sleep_on(p, &p->freed);
    atomic_store(&p->producer_asleep, false);
    pthread_mutex_unlock(&p->lock);
}

static void *produce(void *arg) {
    mu_prefetch *p = arg;
    bool end = false;
    while (!atomic_load(&p->stop) && !end && p->err.status == MU_OK) {
        if (n_free(p) == 0) {
            wait_for_room(p);
            continue;
        }
        int64_t head = atomic_load_explicit(&p->head, memory_order_relaxed);
        mu_status st = p->fill(p->ctx, (int)(head % p->n_slots), &end, &p->err);
        if (st != MU_OK && p->err.status == MU_OK) p->err.status = st;
        if (end || st != MU_OK) break;
        atomic_store(&p->head, head + 1);
        if (atomic_load(&p->consumer_asleep) && n_filled(p) >= p->group) wake(p, &p->filled);
    }
    atomic_store(&p->done, true);
    wake(p, &p->filled);
    return NULL;
}

// ---- consumer ----

static mu_status wait_for_slot(mu_prefetch *p, mu_err *err) {
    double since = mu_clock_s(), now = since;
    bool warned = false;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->consumer_asleep, true);
    bool woken = true;
    while (n_filled(p) < (woken ? p->group : 1) && !atomic_load(&p->done)) {
        now = mu_clock_s();
        if (now - since > p->patience.give_up_s) break;
        if (now - since > p->patience.slow_s && !warned) {
            warned = true;
            mu_warn("no data for %g s: the reader is still busy with one batch", p->patience.slow_s);
        }
        woken = sleep_on(p, &p->filled);
    }
    atomic_store(&p->consumer_asleep, false);
    pthread_mutex_unlock(&p->lock);
    p->wait_s += mu_clock_s() - since;
    if (now - since <= p->patience.give_up_s) return MU_OK;
    return MU_FAIL(err, MU_EIO, "the reader gave no data for %g s", p->patience.give_up_s);
}

mu_status mu_prefetch_next(mu_prefetch *p, int *slot, mu_err *err) {
    int64_t tail = atomic_load_explicit(&p->tail, memory_order_relaxed) + p->held;
    if (p->held) {
        p->held = 0;
        atomic_store(&p->tail, tail);
        if (n_free(p) >= (p->n_slots + 1) / 2 && atomic_load(&p->producer_asleep)) wake(p, &p->freed);
    }
    if (atomic_load(&p->head) == tail && !atomic_load(&p->done)) MU_TRY(wait_for_slot(p, err));
    if (atomic_load(&p->head) == tail) {        // done: head is final
        *slot = -1;
        return p->err.status == MU_OK ? MU_OK : mu_err_pass(p->err.status, &p->err, err);
    }
    p->held = 1;
    *slot = (int)(tail % p->n_slots);
    return MU_OK;
}

// ---- life ----

mu_status mu_prefetch_create(int n_slots, mu_prefetch_fill fill, void *ctx, mu_prefetch **out, mu_err *err) {
    mu_prefetch *p = mu_alloc(sizeof *p, "data/prefetch");
    if (!p) return MU_FAIL_NOMEM(err, "the prefetcher");
    p->n_slots = n_slots;
    p->group = n_slots / 4 > 1 ? n_slots / 4 : 1;
    p->fill = fill;
    p->ctx = ctx;
    p->patience = MU_PREFETCH_PATIENCE;
    pthread_condattr_t attr;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->filled, &attr);
    pthread_cond_init(&p->freed, &attr);
    pthread_condattr_destroy(&attr);
    *out = p;
    return MU_OK;
}

void mu_prefetch_set_patience(mu_prefetch *p, mu_prefetch_patience patience) { p->patience = patience; }

bool mu_prefetch_destroy(mu_prefetch *p) {
    if (!p) return true;
    if (!mu_prefetch_stop(p)) return false;
    pthread_cond_destroy(&p->freed);
    pthread_cond_destroy(&p->filled);
    pthread_mutex_destroy(&p->lock);
    mu_free(p);
    return true;
}

mu_status mu_prefetch_start(mu_prefetch *p, mu_err *err) {
    if (p->running || p->lost) return MU_FAIL(err, MU_EUSAGE, "the prefetcher runs already");
    atomic_store(&p->head, 0);
    atomic_store(&p->tail, 0);
    atomic_store(&p->stop, false);
    atomic_store(&p->done, false);
    mu_err_clear(&p->err);
    p->held = 0;
    sigset_t all, before;       // signals belong to the main thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&p->thread, NULL, produce, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) return MU_FAIL(err, MU_EIO, "cannot start the prefetch thread: %s", strerror(rc));
    (void)pthread_setname_np(p->thread, "muster-data");
    p->running = true;
    return MU_OK;
}

bool mu_prefetch_stop(mu_prefetch *p) {
    if (!p->running) return !p->lost;
    atomic_store(&p->stop, true);
    wake(p, &p->freed);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t ns = until.tv_nsec + (int64_t)(p->patience.join_s * 1e9);
    until.tv_sec += (time_t)(ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    p->running = false;
    if (pthread_timedjoin_np(p->thread, NULL, &until) == 0) return true;
    mu_log(MU_LOG_ERROR, "the data reader did not stop within %g s; its memory is left behind",
           p->patience.join_s);
    (void)pthread_detach(p->thread);
    p->lost = true;
    return false;
}

bool mu_prefetch_running(const mu_prefetch *p) { return p->running; }
bool mu_prefetch_stopping(const mu_prefetch *p) {
    return atomic_load_explicit(&p->stop, memory_order_relaxed);
}
double mu_prefetch_wait_s(const mu_prefetch *p) { return p->wait_s; }

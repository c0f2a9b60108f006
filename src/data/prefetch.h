// SPDX-License-Identifier: Apache-2.0
// prefetch.h - a ring of slots filled by one thread ahead of the one that uses them.
//
// One producer, one consumer. `head` counts slots filled, `tail` slots given back; each is written by
// one side only, so a hand-over is one atomic store and no system call. A side sleeps only when it
// cannot go on: the consumer when nothing is filled, the producer when all slots are full. It is then
// woken for a group: a quarter of the slots filled, or half of them free, so that at small batches
// (many slots) a wake-up pays for many batches.
// Every sleep is bounded (WAIT_MS) and rechecks, so no lost signal can hang a run.
#ifndef MU_DATA_PREFETCH_H
#define MU_DATA_PREFETCH_H

#include "base/err.h"

typedef struct mu_prefetch mu_prefetch;

// Fills one slot on the producer thread. *end = true: nothing was filled and nothing follows. The
// callback should look at mu_prefetch_stopping now and then and may return MU_EINTERRUPTED.
typedef mu_status (*mu_prefetch_fill)(void *ctx, int slot, bool *end, mu_err *err);

MU_MUST_CHECK mu_status mu_prefetch_create(int n_slots, mu_prefetch_fill fill, void *ctx, mu_prefetch **out,
                                           mu_err *err);
typedef struct mu_prefetch_patience {   // in seconds; a new ring has MU_PREFETCH_PATIENCE
    double slow_s;              // next() without data warns after this
    double give_up_s;           // and fails after this
    double join_s;              // stop() leaves a thread behind after this
} mu_prefetch_patience;
#define MU_PREFETCH_PATIENCE ((mu_prefetch_patience){.slow_s = 10, .give_up_s = 300, .join_s = 10})
void mu_prefetch_set_patience(mu_prefetch *p, mu_prefetch_patience patience);   // not while started

// Stops first. False when the thread could not be stopped: what it may still touch must be leaked.
bool mu_prefetch_destroy(mu_prefetch *p);       // NULL is fine
MU_MUST_CHECK mu_status mu_prefetch_start(mu_prefetch *p, mu_err *err);
// Joins the thread; what was filled and not taken is dropped. False after join_s without an answer (a
// read stuck in the kernel): the thread is left behind and logged.
bool mu_prefetch_stop(mu_prefetch *p);
bool mu_prefetch_running(const mu_prefetch *p);
bool mu_prefetch_stopping(const mu_prefetch *p);

// Gives the slot of the call before back and takes the oldest filled one; -1 at the end. An error of
// the fill callback is delivered in its place, after all slots filled before it. MU_EIO after
// give_up_s without data.
MU_MUST_CHECK mu_status mu_prefetch_next(mu_prefetch *p, int *slot, mu_err *err);
double mu_prefetch_wait_s(const mu_prefetch *p);        // time spent waiting in next, so far

#endif

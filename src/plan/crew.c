// SPDX-License-Identifier: Apache-2.0
// crew.c - see crew.h.
//
//   region   | head | windows x n results | shared bytes |
//
// The last process to arrive opens the next window, a little later, so that all see it before it begins. On a
// machine that is so busy that this takes far too long it is the last window. No wait is without an end: a
// process that gives up says so in the head, and the parent watches the clock.
#include "plan/crew.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/cores.h"
#include "comm/futex.h"
#include "comm/process.h"
#include "comm/region.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define TAG "crew"

enum { HEAD_START_NS = 100000, LOOKS = 2000, NAP_NS = 500000, NO_MEMORY = 3, GAVE_UP = 4 };
static const double limit_s = 30, patience_s = 0.3;
enum { FEW_WINDOWS = 3 };

typedef struct head {
    _Alignas(64) _Atomic int32_t arrived;
    _Alignas(64) _Atomic int32_t window; // open; 0 = none yet
    _Atomic int32_t failed;              // and why; 0 = it has not
    _Atomic int32_t windows;             // there are no more
    _Atomic int64_t begin_ns;
    int64_t patient_ns, until_ns; // new windows begin until then; the whole crew has ended by then
} head;

typedef struct member { // what a child is forked with
    const mu_crew *c;
    head *h;
    mu_crew_window *result;
    void *shared;
    int who;
} member;

// ---- in the child -------------------------------------------------------------------------------

static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Waits until all are there and window k is open.
static bool arrive(const member *m, int k) {
    head *h = m->h;
    if (atomic_fetch_add(&h->arrived, 1) + 1 == m->c->n * k) {
        const int64_t now = mu_clock_ns();
        if (k > FEW_WINDOWS && now > h->patient_ns) atomic_store(&h->windows, k - 1);
        atomic_store(&h->begin_ns, now + HEAD_START_NS);
        atomic_store(&h->window, k);
    }
    for (unsigned looks = 1; atomic_load_explicit(&h->window, memory_order_acquire) < k; looks++) {
        mu_pause();
        if (looks % LOOKS) continue;
        if (atomic_load(&h->failed) || mu_clock_ns() > h->until_ns) return false;
        sched_yield();
    }
    while (mu_clock_ns() < atomic_load(&h->begin_ns)) mu_pause();
    return true;
}

static int live(void *ctx) {
    const member *m = ctx;
    const mu_crew *c = m->c;
    (void)mu_cores_pin(m->who); // where that is not allowed, the scheduler finds a core
    if (c->prepare && !c->prepare(c->ctx, m->who)) {
        atomic_store(&m->h->failed, NO_MEMORY);
        return NO_MEMORY;
    }
    for (int k = 1; k <= c->windows; k++) {
        if (!arrive(m, k)) return GAVE_UP;
        if (k > atomic_load(&m->h->windows)) break;
        mu_crew_turn t = {.who = m->who, .n = c->n, .shared = m->shared};
        t.end_ns = atomic_load(&m->h->begin_ns) + (int64_t)(1e9 * c->window_s);
        const double cpu = cpu_s(), begin = mu_clock_s();
        mu_crew_window w = {.amount = c->work(c->ctx, &t)};
        w.cpu_s = cpu_s() - cpu;
        const double wall = mu_clock_s() - begin;
        w.lost = wall > w.cpu_s ? 1 - w.cpu_s / wall : 0;
        m->result[(k - 1) * c->n + m->who] = w;
    }
    return 0;
}

// ---- in the parent ------------------------------------------------------------------------------

// Until all have ended well, or one has not.
static mu_status watch(const mu_crew *c, pid_t *pid, head *h, mu_err *err) {
    int left = c->n, code = 0;
    while (left && !code && mu_clock_ns() < h->until_ns) {
        for (int i = 0; i < c->n; i++) {
            mu_process_end end;
            if (!pid[i] || !mu_process_reap(pid[i], &end)) continue;
            pid[i] = 0;
            left--;
            if (end.exit_code != 0) code = end.exit_code > 0 ? end.exit_code : GAVE_UP;
        }
        if (left) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    if (!left && !code) return MU_OK;
    const int why = atomic_exchange(&h->failed, GAVE_UP); // who ends first may be one that was told
    mu_process_end_all(pid, c->n, 0.2);
    if (why == NO_MEMORY) return MU_FAIL_NOMEM(err, c->name);
    return mu_err_hinted(MU_FAIL(err, MU_EBACKEND, "%d processes could not work at once (%s)", c->n, c->name),
                         err,
                         "Is the machine very busy? Try again, or allow this program fewer cores (taskset).");
}

static mu_status start_all(member *m, pid_t *pid, mu_err *err) {
    const mu_crew *c = m->c;
    mu_status st = MU_OK;
    for (m->who = 0; m->who < c->n && st == MU_OK; m->who++)
        st = mu_process_start(c->name, live, m, &pid[m->who], err);
    if (st == MU_OK) return watch(c, pid, m->h, err);
    atomic_store(&m->h->failed, GAVE_UP);
    mu_process_end_all(pid, c->n, 0.2);
    return st;
}

static void take(const mu_crew_window *from, mu_crew_result *out) {
    const int all = out->n * out->windows;
    memcpy(out->w, from, (size_t)all * sizeof *from);
    for (int i = 0; i < all; i++) out->lost += from[i].lost / all;
}

mu_status mu_crew_run(const mu_crew *c, mu_crew_result *out, mu_err *err) {
    const size_t results = (size_t)c->n * (size_t)c->windows * sizeof(mu_crew_window);
    const size_t at_shared = (sizeof(head) + results + 63) / 64 * 64;
    mu_region r = {.fd = -1};
    *out = (mu_crew_result){.n = c->n, .windows = c->windows};
    (void)mu_cores_count(); // the list of cores, before a child is pinned
    MU_TRY(mu_region_create("profile", at_shared + c->shared_bytes, &r, err));
    member m = {.c = c, .h = (head *)(void *)r.base, .shared = r.base + at_shared};
    m.result = (mu_crew_window *)(void *)(r.base + sizeof(head));
    atomic_store(&m.h->windows, c->windows);
    m.h->patient_ns = mu_clock_ns() + (int64_t)(1e9 * (patience_s + 2 * c->windows * c->window_s));
    m.h->until_ns = mu_clock_ns() + (int64_t)(1e9 * (limit_s + 4 * c->windows * c->window_s));
    pid_t *pid = mu_alloc_array((size_t)c->n, sizeof *pid, TAG);
    out->w = mu_alloc(results, TAG);
    mu_status st = pid && out->w ? MU_OK : MU_FAIL_NOMEM(err, TAG);
    if (st == MU_OK && c->furnish) st = c->furnish(c->ctx, m.shared, err);
    if (st == MU_OK) st = start_all(&m, pid, err);
    out->windows = atomic_load(&m.h->windows);
    if (st == MU_OK) take(m.result, out);
    else mu_crew_fini(out);
    mu_free(pid);
    mu_region_close(&r);
    return st;
}

void mu_crew_fini(mu_crew_result *r) {
    mu_free(r->w);
    *r = (mu_crew_result){0};
}

// ---- what comes of it ---------------------------------------------------------------------------

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double mu_median(double *v, int n) {
    if (n < 1) return 0;
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

double mu_typical(double *v, int n) {
    const double most = 3 * mu_median(v, n);
    double sum = 0;
    int k = 0;
    while (k < n && v[k] <= most) sum += v[k++]; // they are sorted now
    return k ? sum / k : 0;
}

static double lost_in(const mu_crew_result *r, int window) {
    double most = 0;
    for (int i = 0; i < r->n; i++) {
        const double lost = r->w[window * r->n + i].lost;
        if (lost > most) most = lost;
    }
    return most;
}

double mu_crew_best_rate(const mu_crew_result *r) {
    double lost[MU_CREW_WINDOWS], best = 0;
    for (int k = 0; k < r->windows; k++) lost[k] = lost_in(r, k);
    qsort(lost, (size_t)r->windows, sizeof *lost, ascending);
    const double limit = lost[(r->windows - 1) / 3]; // a third of them, at least one
    for (int k = 0; k < r->windows; k++) {
        double rate = 0;
        for (int i = 0; i < r->n; i++) {
            const mu_crew_window *w = &r->w[k * r->n + i];
            if (w->cpu_s > 0) rate += w->amount / w->cpu_s / r->n;
        }
        if (lost_in(r, k) <= limit && rate > best) best = rate;
    }
    return best;
}

static int measures(const mu_crew_result *r, int who, double v[MU_CREW_WINDOWS]) {
    int n = 0;
    for (int k = 0; k < r->windows; k++) {
        const double x = r->w[k * r->n + who].amount;
        if (x > 0) v[n++] = x;
    }
    return n;
}

double mu_crew_median(const mu_crew_result *r, int who) {
    double v[MU_CREW_WINDOWS];
    return mu_median(v, measures(r, who, v));
}

double mu_crew_least(const mu_crew_result *r, int who) {
    double v[MU_CREW_WINDOWS];
    const int n = measures(r, who, v);
    (void)mu_median(v, n); // sorts them
    return n ? v[0] : 0;
}

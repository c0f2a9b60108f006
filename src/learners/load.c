// SPDX-License-Identifier: Apache-2.0
// load.c - see load.h.
#include "learners/load.h"

#include "base/clock.h"
#include "comm/cores.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#define WINDOW_S 5.0

// Seconds that all threads of a process had of the cores; NaN = not known.
static double process_seconds(pid_t pid) {
    clockid_t clock;
    struct timespec t;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t)) return NAN;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// The same of its first thread, which computes, and how long that stood in a queue.
static void thread_seconds(pid_t pid, double *had, double *queued) {
    char path[64];
    unsigned long long run = 0, delay = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
    FILE *f = fopen(path, "re");
    const bool got = f && fscanf(f, "%llu %llu", &run, &delay) == 2 && run > 0;
    if (f) fclose(f);
    *had = got ? 1e-9 * (double)run : NAN;
    *queued = got ? 1e-9 * (double)delay : NAN;
}

static void add_process(mu_learners_load *t, pid_t pid) {
    double had = NAN, queued = NAN;
    if (pid) thread_seconds(pid, &had, &queued);
    t->cpu_s += had;
    t->queue_s += queued;
    t->data_s += pid ? fmax(0, process_seconds(pid) - had) : NAN;
}

static mu_learners_load total_of(const mu_shared *g, int64_t *losses) {
    const mu_shared_head *h = g->head;
    mu_learners_load t = {.learners = h->n_learners,
                          .workers = h->n_workers,
                          .cores = mu_cores_count(),
                          .samples = atomic_load(&h->samples),
                          .updates = atomic_load(&h->version),
                          .global_batch = h->global_batch};
    *losses = 0;
    for (int i = 0; i < h->n_processes; i++) {
        const mu_shared_learner *l = &g->learner[i];
        t.compute_s += 1e-9 * (double)atomic_load(&l->compute_ns);
        t.apply_s += 1e-9 * (double)atomic_load(&l->apply_ns);
        add_process(&t, atomic_load(&l->pid));
        *losses += atomic_load(&l->losses);
    }
    return t;
}

static void begin_window(mu_load *l, const mu_learners_load *total, int64_t losses, double now) {
    l->total = *total;
    l->losses = losses;
    l->began_s = now;
    l->next_s = now + WINDOW_S;
}

bool mu_load_look(mu_load *l, const mu_shared *g, mu_learners_load *out) {
    const double now = mu_clock_s();
    if (now < l->next_s) return false;
    int64_t losses;
    const mu_learners_load total = total_of(g, &losses), *was = &l->total;
    const bool whole = l->n_windows++ >= 2 && losses == l->losses; // 0: nothing measured; 1: learners set up
    *out = total;
    out->seconds = now - l->began_s;
    out->samples -= was->samples;
    out->updates -= was->updates;
    out->compute_s -= was->compute_s;
    out->apply_s -= was->apply_s;
    out->cpu_s -= was->cpu_s;
    out->queue_s -= was->queue_s;
    out->data_s = fmax(0, out->data_s - was->data_s);
    begin_window(l, &total, losses, now);
    return whole && isfinite(out->cpu_s) && isfinite(out->queue_s) && isfinite(out->data_s);
}

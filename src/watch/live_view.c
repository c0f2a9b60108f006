// SPDX-License-Identifier: Apache-2.0
// live_view.c - see live_view.h.
//
// Words are copied first and rates, means and shares made from the copies: the run goes on meanwhile. The
// number of learners is read once, at init, so nothing that changes later leads a look outside its arrays.
#include "watch/live_view.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "ps/moved.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define TAG "live view"
#define QUIET_TRIES 200

#define LOAD(x) atomic_load_explicit(&(x), memory_order_relaxed)

mu_status mu_live_view_init(mu_live_view *v, const mu_shared *g, mu_err *err) {
    *v = (mu_live_view){.n_processes = mu_shared_all_processes(g), .n_ranks = g->head->n_ranks};
    v->n_learners = v->n_processes / g->head->n_workers;
    v->core_bytes = mu_core_size(g->head->n_learners); // all groups have as many
    v->learner = mu_alloc_array((size_t)v->n_processes, sizeof *v->learner, TAG);
    v->rank = mu_alloc_array((size_t)v->n_ranks + 1, sizeof *v->rank, TAG);
    v->core = mu_alloc(v->core_bytes, TAG);
    if (v->learner && v->rank && v->core) return MU_OK;
    mu_live_view_fini(v);
    return MU_FAIL_NOMEM(err, "a view of the run");
}

void mu_live_view_fini(mu_live_view *v) {
    mu_free(v->learner);
    mu_free(v->rank);
    mu_free(v->core);
    *v = (mu_live_view){0};
}

// The good core is never written, only left behind by a switch and then overwritten by the change after
// next. So a copy that is equal to what lies there after it, with no switch seen, is of one moment: the
// counters in a core only grow, two different states never compare equal.
static bool copy_core(mu_live_view *v, const mu_shared *g) {
    if (v->core_bytes > g->head->core_bytes) return false;
    for (int i = 0; i < QUIET_TRIES; i++) {
        int at = atomic_load_explicit(&g->head->core_at, memory_order_acquire);
        const char *core = g->region.base + g->head->at_core + (uint64_t)(at & 1) * g->head->core_bytes;
        memcpy(v->core, core, v->core_bytes);
        atomic_thread_fence(memory_order_seq_cst);
        if (!memcmp(v->core, core, v->core_bytes) && atomic_load(&g->head->core_at) == at)
            return mu_core_size(v->core->config.learners) == v->core_bytes;
        sched_yield();
    }
    return false;
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

static void look_learner(mu_live_learner *o, const mu_shared_learner *l, int64_t now_ns, double elapsed_s) {
    int64_t pulse = LOAD(l->pulse_ns);
    *o = (mu_live_learner){
        .pid = LOAD(l->pid),
        .incarnation = LOAD(l->incarnation),
        .doing = (mu_doing)LOAD(l->doing),
        .samples = LOAD(l->samples),
        .records = LOAD(l->records),
        .gradients = LOAD(l->gradients),
        .version = LOAD(l->version),
        .compute_s = 1e-9 * (double)LOAD(l->compute_ns),
        .wait_s = 1e-9 * (double)LOAD(l->wait_ns),
        .apply_s = 1e-9 * (double)LOAD(l->apply_ns),
        .quiet_s = pulse ? 1e-9 * (double)(now_ns - pulse) : -1,
        .loss = LOAD(l->loss),
        .accuracy = LOAD(l->accuracy),
        .n_stale = LOAD(l->n_stale),
        .stale_sum = LOAD(l->stale_sum),
        .stale_max = LOAD(l->stale_max),
        .losses = LOAD(l->losses),
        .slow_us = LOAD(l->slow_us),
    };
    if (!o->gradients) o->loss = o->accuracy = NAN;
    double all = o->compute_s + o->wait_s + o->apply_s;
    o->samples_per_s = ratio((double)o->samples, elapsed_s);
    o->compute_share = ratio(o->compute_s, all);
    o->wait_share = ratio(o->wait_s, all);
}

static void add_learner(mu_live_view *v, const mu_live_learner *l, const mu_shared_learner *row, int *n_loss,
                        int64_t *stale_sum) {
    v->compute_s += l->compute_s;
    v->wait_s += l->wait_s;
    v->losses += l->losses;
    v->n_stale += l->n_stale;
    *stale_sum += l->stale_sum;
    if (l->stale_max > v->stale_max) v->stale_max = l->stale_max;
    for (int b = 0; b < MU_STALENESS_BINS; b++) v->stale_hist[b] += LOAD(row->stale_hist[b]);
    if (isfinite(l->loss)) v->loss += l->loss, ++*n_loss;
}

// Of several ranks: what each has told of itself counts, rank 0's own rows are a part of it.
static void look_ranks(mu_live_view *v, const mu_shared *g) {
    if (v->n_ranks) v->compute_s = v->wait_s = 0;
    for (int i = 0; i < v->n_ranks; i++) {
        v->rank[i] = (mu_rank_times){1e-9 * (double)LOAD(g->rank[i].compute_ns),
                                     1e-9 * (double)LOAD(g->rank[i].wait_ns)};
        v->compute_s += v->rank[i].compute_s;
        v->wait_s += v->rank[i].wait_s;
    }
}

static void look_learners(mu_live_view *v, const mu_shared *g) {
    int n_loss = 0;
    int64_t stale_sum = 0;
    v->compute_s = v->wait_s = v->loss = 0;
    v->losses = v->n_stale = v->stale_max = 0;
    memset(v->stale_hist, 0, sizeof v->stale_hist);
    for (int i = 0; i < v->n_processes; i++) {
        const mu_shared_learner *row = mu_shared_row(g, i);
        look_learner(&v->learner[i], row, v->now_ns, v->elapsed_s);
        v->learner[i].rank = mu_shared_far_rank(g, i);
        add_learner(v, &v->learner[i], row, &n_loss, &stale_sum);
    }
    v->loss = n_loss ? v->loss / n_loss : NAN;
    v->stale_mean = v->n_stale ? (double)stale_sum / (double)v->n_stale : NAN;
    look_ranks(v, g);
    v->overlap = v->compute_s + v->wait_s > 0 ? mu_overlap(v->compute_s, v->wait_s) : NAN;
}

static void copy_text(char *out, const char *from, size_t size) {
    memcpy(out, from, size);
    out[size - 1] = '\0';
}

// The one in force; before a warm start is over, the one that it prepares.
static void look_protocol(mu_live_view *v, const mu_shared_head *h) {
    const mu_setup *p = &h->setup;
    const bool warm = LOAD(h->version) < h->warm_end;
    const char *name = h->protocol;
    v->warming = warm && !p->in_turn;
    if (p->in_turn && warm) name = mu_warm_protocol->name;
    else if (p->in_turn) name = mu_protocol_at(p->phase[LOAD(h->phase)].protocol)->name;
    snprintf(v->protocol, sizeof v->protocol, "%.*s", (int)sizeof h->protocol - 1, name);
}

// What all server groups have done together.
static void look_group(mu_live_view *v, const mu_shared_head *h) {
    v->version += LOAD(h->version);
    v->samples += LOAD(h->samples) - (v->server_groups ? h->first_sample : 0);
    v->server_groups++;
    v->global_batch += h->global_batch;
    v->waiting += LOAD(h->waiting);
    v->server_losses += LOAD(h->server_losses);
    v->skipped_updates += LOAD(h->skipped_updates);
    v->lock_repairs += LOAD(h->lock_repairs);
    v->merges += LOAD(h->merges);
    v->merged_bytes += LOAD(h->merged_bytes);
    v->apply_s += 1e-9 * (double)LOAD(h->apply_ns);
}

static void look_moved(mu_live_view *v, const mu_shared *g) {
    mu_traffic one;
    v->counts_moved &= mu_moved(g, &one);
    if (v->counts_moved) mu_traffic_add(&v->moved, &one);
}

static void look_groups(mu_live_view *v, const mu_shared *g) {
    v->counts_moved = true;
    v->moved = (mu_traffic){0};
    v->version = v->samples = v->global_batch = v->server_losses = v->skipped_updates = v->lock_repairs = 0;
    v->merges = v->merged_bytes = 0;
    v->waiting = v->server_groups = 0;
    v->apply_s = 0;
    for (; g; g = g->next) {
        look_group(v, g->head);
        look_moved(v, g);
    }
}

static void look_ledger(mu_live_view *v, const mu_shared *g) {
    v->alone = g->head->alone != 0;
    v->ledger = (mu_ledger){0};
    v->ledger_known = true;
    if (v->alone) {
        const int64_t applied = v->learner[0].gradients, skipped = v->skipped_updates;
        v->ledger = (mu_ledger){.produced = applied + skipped, .applied = applied, .rejected = skipped};
        return;
    }
    for (; g && v->ledger_known; g = g->next) {
        v->ledger_known = copy_core(v, g);
        const mu_ledger one = v->ledger_known ? mu_core_ledger(v->core) : (mu_ledger){0};
        v->ledger.produced += one.produced;
        v->ledger.applied += one.applied;
        v->ledger.rejected += one.rejected;
        v->ledger.lost += one.lost;
        v->ledger.in_flight += one.in_flight;
    }
}

void mu_live_look(mu_live_view *v, const mu_shared *g) {
    const mu_shared_head *h = g->head;
    v->now_ns = mu_clock_ns();
    copy_text(v->run_id, h->run_id, sizeof v->run_id);
    copy_text(v->job_name, h->job_name, sizeof v->job_name);
    copy_text(v->run_dir, h->run_dir, sizeof v->run_dir);
    v->state = (mu_run_state)LOAD(h->state);
    v->stop_asked = LOAD(h->stop_asked) != 0;
    v->parent_pid = LOAD(h->parent_pid);
    v->server_pid = LOAD(h->server_pid);
    v->evaluator_pid = LOAD(h->evaluator_pid);
    v->elapsed_s = 1e-9 * (double)(v->now_ns - h->start_ns);
    look_protocol(v, h);
    look_groups(v, g);
    v->step = v->global_batch > 0 ? v->samples / v->global_batch : 0;
    v->end_steps = h->end_steps;
    v->epoch = ratio((double)v->samples, (double)h->n_records);
    v->end_epochs = h->end_epochs;
    v->rows = h->rows;
    v->rate = LOAD(h->rate);
    v->run_steps = ratio((double)(v->samples - h->first_sample), (double)v->global_batch);
    look_learners(v, g);
    v->samples_per_s = 0; // not samples / elapsed: a resumed run did not make the earlier ones
    for (int i = 0; i < v->n_processes; i++) v->samples_per_s += v->learner[i].samples_per_s;
    look_ledger(v, g);
}

void mu_live_rates(mu_live_view *now, const mu_live_view *before) {
    double s = 1e-9 * (double)(now->now_ns - before->now_ns);
    if (!(s > 0) || now->n_processes != before->n_processes) return;
    now->samples_per_s = fmax(0, (double)(now->samples - before->samples) / s);
    for (int i = 0; i < now->n_processes; i++) {
        mu_live_learner *n = &now->learner[i];
        const mu_live_learner *b = &before->learner[i];
        n->samples_per_s = fmax(0, (double)(n->samples - b->samples) / s);
        double compute = n->compute_s - b->compute_s, wait = n->wait_s - b->wait_s;
        double all = compute + wait + n->apply_s - b->apply_s;
        if (!(all > 0) || n->gradients == b->gradients) continue;
        n->compute_share = ratio(compute, all);
        n->wait_share = ratio(wait, all);
    }
}

const char *mu_run_state_name(mu_run_state s) {
    static const char *const names[] = {"starting", "training", "ending", "ended"};
    return (unsigned)s < MU_COUNT(names) ? names[s] : "?";
}

const char *mu_doing_name(mu_doing d) {
    static const char *const names[] = {"nothing", "wait", "compute", "apply"};
    return (unsigned)d < MU_COUNT(names) ? names[d] : "?";
}

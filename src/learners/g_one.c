// SPDX-License-Identifier: Apache-2.0
// g_one.c - one learner in this process: an advance is a step, and the weights are the session's own.
//
// So that `status`, `top` and `stop` work as for several learners, a run with a folder has the same region in
// shared memory, with one row and without weights: the learner writes down there what it has done.
#include "learners/gradients.h"

#include "base/clock.h"
#include "ps/shared.h"
#include "store/live.h"
#include "store/rundir.h"
#include "train/worker.h"

#include <math.h>
#include <unistd.h>

typedef struct one {
    mu_training *t;
    mu_worker    w;
    mu_facts     facts;
    int64_t      produced, skipped;     // gradients
    int64_t      read_before;           // records, by who opened the data
    mu_shared    shared;                // head NULL = not to be looked at
    int64_t      next, rest;            // for the prefetch thread: next sample; left of a step under way
} one;

static bool wants(MU_UNUSED const mu_session *s, MU_UNUSED const mu_run_opts *o) { return true; }

// ---- to be looked at ----

static void show(one *r) {
    const mu_worker *w = &r->w;
    mu_shared_head *h = r->shared.head;
    if (!h) return;
    mu_shared_learner *l = r->shared.learner;
    atomic_store_explicit(&h->version, w->at.step + w->at.extra_updates, memory_order_relaxed);
    atomic_store_explicit(&h->samples, w->at.samples, memory_order_relaxed);
    atomic_store_explicit(&h->rate, w->step_rate.rate, memory_order_relaxed);
    atomic_store_explicit(&h->skipped_updates, r->skipped, memory_order_relaxed);
    atomic_store_explicit(&l->samples, w->at.samples - r->t->start_samples, memory_order_relaxed);
    atomic_store_explicit(&l->gradients, r->produced - r->skipped, memory_order_relaxed);
    atomic_store_explicit(&l->n_stale, r->produced - r->skipped, memory_order_relaxed);
    atomic_store_explicit(&l->stale_hist[0], r->produced - r->skipped, memory_order_relaxed);
    atomic_store_explicit(&l->version, w->at.step + w->at.extra_updates, memory_order_relaxed);
    atomic_store_explicit(&l->compute_ns, (int64_t)(1e9 * w->compute_s), memory_order_relaxed);
    atomic_store_explicit(&l->wait_ns, (int64_t)(1e9 * w->wait_s), memory_order_relaxed);
    atomic_store_explicit(&l->loss, w->loss, memory_order_relaxed);
    atomic_store_explicit(&l->accuracy, w->accuracy, memory_order_relaxed);
    atomic_store_explicit(&l->doing, MU_DOING_NOTHING, memory_order_relaxed);
}

static void show_step_begins(one *r) {
    if (!r->shared.head) return;
    atomic_store_explicit(&r->shared.learner->pulse_ns, mu_clock_ns(), memory_order_relaxed);
    atomic_store_explicit(&r->shared.learner->doing, MU_DOING_COMPUTE, memory_order_relaxed);
}

static mu_status open_view(one *r, mu_err *err) {
    static float none[1];
    const mu_training *t = r->t;
    const mu_setup *p = &t->s->setup;
    mu_params nothing = {.value = none};
    const mu_core_config cfg = {.learners = 1, .splits = 1, .lease_batches = 1, .rows = p->rows,
                                .protocol = mu_protocol_index(p->protocol->name),
                                .global_batch = p->global_batch, .end_sample = INT64_MAX};
    char id[MU_RUN_ID];
    mu_rundir_id(t->dir.path, id);
    mu_shared_opts o = {
        .run_id = id, .job_name = t->s->job->name, .run_dir = t->dir.path, .setup = p, .core = &cfg,
        .params = &nothing, .n_records = mu_source_n_records(t->s->train.source),
        .end_steps = (int64_t)t->end.steps, .end_epochs = t->end.epochs, .alone = true,
    };
    MU_TRY(mu_shared_create(&o, &r->shared, err));
    mu_shared_head *h = r->shared.head;
    h->global_batch = p->global_batch * t->s->job->train.accumulate;
    atomic_store(&h->parent_pid, (int32_t)getpid());
    atomic_store(&r->shared.learner->pid, (int32_t)getpid());
    atomic_store(&r->shared.learner->incarnation, 1);
    atomic_store(&h->state, MU_RUN_TRAINING);
    show(r);
    atomic_store(&h->rate, t->rate);
    return mu_live_write(t->dir.path, getpid(), r->shared.region.fd, id, err);
}

static void close_view(one *r) {
    if (!r->shared.head) return;
    atomic_store(&r->shared.head->state, MU_RUN_ENDED);
    mu_live_remove(r->t->dir.path);
    mu_shared_close(&r->shared);
}

// ---- training ----

// Learners that went before may have left a step under way: the first batch is the rest of it.
static bool next_samples(void *ctx, int64_t *first, int64_t *rows) {
    one *r = ctx;
    *first = r->next;
    *rows = r->rest > 0 ? r->rest : mu_samples_per_step(r->t->s);
    r->next += *rows;
    r->rest = 0;
    return true;
}

static mu_status start(void *state, mu_training *t, bool hold, mu_err *err) {
    one *r = state;
    mu_err own = {0};
    (void)hold; // nothing happens between two advances
    r->t = t;
    r->read_before = mu_source_get_stats(t->s->train.source).n_read;
    mu_worker_init(&r->w, t->s);
    mu_facts_begin(&r->facts, t->s);
    r->w.facts = t->advisor.facts = &r->facts;
    r->w.at = t->at;
    if (t->at.partial > 0 && t->s->job->train.accumulate == 1) {
        r->next = t->at.samples;
        r->rest = mu_samples_per_step(t->s) - t->at.partial;
        mu_source_set_lease(t->s->train.source, next_samples, r);
    }
    if (!t->o->no_files && open_view(r, &own) != MU_OK)
        mu_training_say(t, "`muster top` cannot show this run: %s", own.msg);
    return mu_source_start(t->s->train.source, err);
}

static mu_status advance(void *state, mu_advance *out, mu_err *err) {
    one *r = state;
    *out = (mu_advance){.learners = 1};
    show_step_begins(r);
    r->w.at.time_share = mu_training_time_share(r->t);
    mu_status st = mu_worker_step(&r->w, err);
    r->produced += st == MU_OK || st == MU_EDIVERGED;
    if (st == MU_EDIVERGED && mu_worker_may_skip(&r->w)) {
        mu_training_say(r->t, "step %lld skipped: %s", (long long)r->w.at.step, err->msg);
        mu_err_clear(err);
        r->t->ps.skipped++;
        r->skipped++;
        mu_worker_count_step(&r->w); // the batch is used up; the weights are as before
        st = MU_OK;
    } else if (st == MU_OK) {
        out->loss_sum = r->w.loss;
        out->accuracy_sum = r->w.accuracy;
        out->n = 1;
    }
    r->t->at = r->w.at;
    r->t->rate = r->w.step_rate.rate;
    show(r);
    const mu_shared_head *h = r->shared.head;
    if (h && !r->t->why && atomic_load_explicit(&h->stop_asked, memory_order_relaxed)) r->t->why = "stop";
    return st;
}

// Every gradient is computed on the weights it is applied to: its staleness is 0.
static mu_status stop(void *state, mu_status how, mu_learners_result *out, MU_UNUSED mu_err *err) {
    one *r = state;
    const mu_session *s = r->t->s;
    mu_source_stop(s->train.source);
    close_view(r);
    mu_source_set_lease(s->train.source, NULL, NULL);
    if (how != MU_OK) return MU_OK;
    *out = (mu_learners_result){.count = 1,
                                .protocol = s->setup.protocol->name,
                                .rows = s->setup.rows,
                                .global_batch = s->setup.global_batch,
                                .versions = r->produced - r->skipped,
                                .rate_effective = r->w.step_rate.rate,
                                .produced = r->produced,
                                .applied = r->produced - r->skipped,
                                .rejected = r->skipped,
                                .counts_moved = true, // nothing moves
                                .records_read = mu_source_get_stats(s->train.source).n_read - r->read_before,
                                .bad_records = mu_source_get_stats(s->train.source).n_bad,
                                .compute_s = r->w.compute_s,
                                .wait_s = r->w.wait_s,
                                .replace_p50_s = NAN,
                                .replace_p99_s = NAN};
    out->overlap = mu_overlap(out->compute_s, out->wait_s);
    return MU_OK;
}

const mu_gradient_source mu_gradients_one = {
    .name = "one",
    .help = "one learner in this process",
    .state_size = sizeof(one),
    .wants = wants,
    .start = start,
    .advance = advance,
    .stop = stop,
};

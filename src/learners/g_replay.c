// SPDX-License-Identifier: Apache-2.0
// g_replay.c - a recorded run again, bit for bit, in one process: an advance is an update.
//
// Every gradient of a recorded run is a function of the weights of one version, of its samples and of its
// number. So the replay walks through the updates in order and, whenever it has made a version, computes all
// gradients that the run computed on it; each waits in a buffer until the update that takes it. At no time is
// more than one version of the weights needed. Gradients that never came into an update (their learner died,
// or they were too stale) are not in the log and are not computed. What the log says of each gradient (its
// loss) and of the end (the sum of all weights) is compared on the way, so a replay that ends well was exact.
//
// The order of computing is made at the start: gradients sorted by the version of their weights. The prefetch
// thread walks through the same list. A buffer is taken when a gradient is computed and given back when its
// update is applied; how many are needed at most is counted at the start, too.
//
// Applying goes through mu_apply_slice with an undo piece, though no process will restore it: the code, and
// so the rounding, is the one of the recorded run.
#include "learners/gradients.h"
#include "learners/learner.h"
#include "learners/record.h"
#include "ps/slices.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TAG "replay"

typedef struct piece {
    mu_undo undo;
    _Atomic size_t done;
} piece; // done lies within undo's reach

typedef struct replay {
    mu_training *t;
    mu_runlog *log;
    mu_worker w; // computes; its counters are those of one gradient
    mu_message_layout message;
    mu_slice_list slices;
    size_t made;           // updates
    mu_position begin;     // where the training began
    mu_learners_result result;  // counted on the way; staleness_mean is a sum until the end
    mu_advance advanced;   // by the update in hand
    bool first;            // it is the first under its protocol
    size_t *order, *begin_of; // parts by version of their weights: order[begin_of[v] .. begin_of[v + 1])
    size_t fetched;        // of order, by the prefetch thread
    int32_t *slot;         // (n_parts) where a computed gradient waits
    int32_t *free_slot;    // (n_slots) stack of those not in use
    int n_slots, n_free;
    char *slots;
    char *now;      // slot of the gradient in hand
    mu_grad *grads; // (mu_core_most_parts) of the slice in hand
    const mu_grad **grad_at; // (mu_core_most_parts) the same by address
    float *weights; // (mu_core_most_parts)
    piece *piece;
} replay;

// ---- is it the same run? ----

static mu_status check_head(const replay *r, mu_err *err) {
    const mu_runlog_head *h = &r->log->head;
    const mu_session *s = r->t->s;
    const mu_setup *p = &s->setup;
    if (!mu_setup_is(p, h->protocol, h->learners, h->rows, h->global_batch)) {
        MU_FAIL(err, MU_EUSAGE, "the log is of %d learners, %s, batch %lld; the job has %d, %s, batch %lld",
                h->learners, h->protocol, (long long)h->global_batch, p->learners, p->protocol->name,
                (long long)p->global_batch);
        mu_err_hint(err, "Leave `--learners`, `--protocol` and `--batch-size` out: the log knows them.");
        return MU_EUSAGE;
    }
    uint64_t start[2];
    mu_runlog_sum(s->params, start);
    bool same_layout = mu_runlog_layout(s->params, &r->message, r->slices.n) == h->layout;
    if (same_layout && !memcmp(start, h->start, sizeof start) && r->t->at.samples == h->first_sample)
        return MU_OK;
    MU_FAIL(err, MU_EUSAGE, "the job does not begin with the weights of the recorded run");
    if (s->job->seed != h->seed)
        mu_err_hint(err, "The seed was %lld, now it is %lld.", (long long)h->seed, (long long)s->job->seed);
    else mu_err_hint(err, "Its net, its updater or `train.init_from` has changed since.");
    return MU_EUSAGE;
}

// ---- the order of computing ----

// A gradient of an update that was skipped left no trace in the weights.
static bool is_needed(const mu_runlog_update *u) { return !u->u.skip; }

static void sort_by_version(replay *r) {
    const mu_runlog *log = r->log;
    size_t n = log->n_updates;
    for (size_t u = 0; u < n; u++)
        for (int i = 0; i < log->updates[u].u.n_parts && is_needed(&log->updates[u]); i++)
            r->begin_of[log->parts[log->updates[u].first_part + (size_t)i].id.version -
                        log->head.first_version + 1]++;
    for (size_t v = 0; v < n; v++) r->begin_of[v + 1] += r->begin_of[v];
    // begin_of[v] is now where version v begins; filling moves it to where v ends, so all is shifted back
    // after.
    for (size_t u = 0; u < n; u++)
        for (int i = 0; i < log->updates[u].u.n_parts && is_needed(&log->updates[u]); i++) {
            size_t part = log->updates[u].first_part + (size_t)i;
            r->order[r->begin_of[log->parts[part].id.version - log->head.first_version]++] = part;
        }
    memmove(r->begin_of + 1, r->begin_of, n * sizeof *r->begin_of);
    r->begin_of[0] = 0;
}

static size_t count_slots(const replay *r) {
    size_t waiting = 0, most = 1;
    for (size_t u = 0; u < r->log->n_updates; u++) {
        waiting += r->begin_of[u + 1] - r->begin_of[u];
        most = waiting > most ? waiting : most;
        if (is_needed(&r->log->updates[u])) waiting -= (size_t)r->log->updates[u].u.n_parts;
    }
    return most;
}

static mu_status make_order(replay *r, mu_err *err) {
    const mu_runlog *log = r->log;
    r->order = mu_alloc_array(log->n_parts + 1, sizeof *r->order, TAG);
    r->begin_of = mu_alloc_array(log->n_updates + 2, sizeof *r->begin_of, TAG);
    r->slot = mu_alloc_array(log->n_parts + 1, sizeof *r->slot, TAG);
    if (!r->order || !r->begin_of || !r->slot) return MU_FAIL_NOMEM(err, "the order of the replay");
    sort_by_version(r);
    size_t n = count_slots(r), most = (size_t)log->head.learners * (MU_CORE_SLOTS + 1);
    if (n > most)
        return MU_FAIL(err, MU_EDATA, "`%s`: %zu gradients wait at once, %d learners have at most %zu",
                       r->t->o->replay, n, log->head.learners, most);
    r->n_slots = r->n_free = (int)n;
    r->free_slot = mu_alloc_array(n, sizeof *r->free_slot, TAG);
    r->slots = mu_alloc_block(n * r->message.bytes + 1, TAG);
    if (!r->free_slot || !r->slots) return MU_FAIL_NOMEM(err, "waiting gradients");
    for (int i = 0; i < r->n_slots; i++) r->free_slot[i] = i;
    return MU_OK;
}

static char *slot_at(const replay *r, size_t part) {
    return r->slots + (size_t)r->slot[part] * r->message.bytes;
}

// ---- computing ----

static bool next_samples(void *ctx, int64_t *first, int64_t *rows) {
    replay *r = ctx;
    if (r->fetched >= r->begin_of[r->log->n_updates]) return false;
    const mu_gradient_id *id = &r->log->parts[r->order[r->fetched++]].id;
    *first = id->first;
    *rows = id->rows;
    return true;
}

static void after_backward(void *ctx, mu_layer *layer) {
    replay *r = ctx;
    for (int i = 0; i < layer->n_param; i++) {
        if (!mu_grad_done_in_layer(layer->param[i])) continue;
        mu_worker_check_finite(&r->w, layer->param[i]);
        mu_message_put(&r->message, r->now, layer->param[i]->index, layer->param[i]);
    }
}

static mu_status differs(const replay *r, const mu_journal_part *p, float scale, mu_err *err) {
    MU_FAIL(err, MU_EBACKEND,
            "gradient %lld of learner %d, samples from %lld on version %lld, has loss %.17g and scale %.9g; "
            "recorded were %.17g and %.9g",
            (long long)p->id.step, p->id.learner, (long long)p->id.first, (long long)p->id.version, r->w.loss,
            (double)scale, p->loss, (double)p->scale);
    if (mu_job_hash(r->t->s->job) != r->log->head.job_hash)
        mu_err_hint(err, "The job is not the one that was recorded.");
    else mu_err_hint(err, "Another processor, another build or changed data: the job is the same.");
    return MU_EBACKEND;
}

// Exactly the number of the log: values that compare equal (0 and -0) are not, and a NaN may be.
static bool same_bits(const void *a, const void *b, size_t bytes) { return !memcmp(a, b, bytes); }

static mu_status compute(replay *r, size_t part, mu_err *err) {
    const mu_journal_part *p = &r->log->parts[part];
    const mu_step_hooks hooks = {.ctx = r, .after_backward = after_backward};
    mu_worker *w = &r->w;
    mu_step s = {.phase = MU_TRAIN, .step = p->id.step, .global_rows = p->global_rows, .hooks = &hooks};
    float scale = 1;
    r->slot[part] = r->free_slot[--r->n_free];
    r->now = slot_at(r, part);
    w->at.step = p->id.step;
    mu_worker_save_stats(w);
    MU_TRY(mu_worker_gradient(w, &s, p->id.first, &scale, err));
    for (int i = 0; i < w->params->n; i++)
        if (!mu_grad_done_in_layer(w->params->list[i]))
            mu_message_put(&r->message, r->now, i, w->params->list[i]);
    mu_worker_restore_stats(w);
    if (!same_bits(&w->loss, &p->loss, sizeof p->loss) || !same_bits(&scale, &p->scale, sizeof scale))
        return differs(r, p, scale, err);
    r->advanced.loss_sum += w->loss;
    r->advanced.accuracy_sum += w->accuracy;
    r->advanced.n++;
    return MU_OK;
}

// ---- applying ----

static void apply_slice(replay *r, const mu_runlog_update *u, const mu_slice_range *range) {
    mu_params *ps = r->w.params;
    const mu_step_rate now = // the rate itself is in the log
        mu_update_rate_at(r->t->s, &(mu_update_place){&r->begin, u->u.version - 1, r->first}, &r->t->at,
                          &r->t->end);
    for (int j = 0; j < u->u.n_parts; j++) {
        size_t part = u->first_part + (size_t)j;
        r->grads[j] = mu_message_get(&r->message, slot_at(r, part), range->param, ps->list[range->param]);
        r->grad_at[j] = &r->grads[j];
        r->weights[j] = r->log->parts[part].weight;
    }
    const mu_rule_step step = {u->u.version - 1, now.young, now.stale};
    const mu_update one = {u->u.n_parts, r->grad_at, r->weights, u->u.rate, step};
    const mu_apply a = {r->w.updater, ps, 1, &one};
    atomic_store(&r->piece->done, 0);
    mu_apply_slice(&a, range, &r->piece->done, &r->piece->undo);
}

static void note_staleness(mu_learners_result *g, int64_t sigma) {
    int bin =
        sigma < (int64_t)MU_COUNT(g->staleness_hist) ? (int)sigma : (int)MU_COUNT(g->staleness_hist) - 1;
    g->staleness_hist[bin]++;
    if (bin >= g->most_staleness) g->most_staleness = bin + 1;
    if (sigma > g->staleness_max) g->staleness_max = sigma;
    g->staleness_mean += (double)sigma;
}

// As mu_shared_is_warming.
static bool is_warming(const replay *r, const mu_runlog_update *u) {
    const mu_setup *p = &r->t->s->setup;
    const int64_t done = u->u.version - r->log->head.first_version; // also of steps, while warming
    return r->begin.step + done <= p->warm_versions;
}

// Where the training stands after an update: as the recorded run counted.
static void move_on(replay *r, const mu_runlog_update *u) {
    mu_training *t = r->t;
    const mu_setup *p = &t->s->setup;
    const int phase = mu_setup_phase_of(p, t->at.samples);
    int64_t applied = t->at.applied;
    double alone = 0;
    for (int j = 0; j < u->u.n_parts; j++) {
        const mu_gradient_id *id = &r->log->parts[u->first_part + (size_t)j].id;
        applied += id->rows;
        mu_finished_add(&t->finished, (mu_range){id->first, id->first + id->rows});
        r->result.applied++;
        const int64_t sigma = u->u.version - 1 - id->version;
        if (!is_warming(r, u)) note_staleness(&r->result, sigma);
        alone += mu_setup_rate_share(p, phase, is_warming(r, u), sigma);
    }
    t->at = mu_position_at(t->s, &r->begin, mu_finished_count(&t->finished));
    t->at.extra_updates = u->u.version - t->at.step;
    t->at.version = r->begin.version + u->u.version - r->log->head.first_version;
    t->at.applied = applied;
    t->at.repeated = r->begin.repeated + t->finished.dropped;
    r->first = mu_setup_phase_of(p, t->at.samples) != phase;
    if (u->u.n_parts > 0) t->rate = u->u.rate * alone / u->u.n_parts; // as the server tells it
    t->ps.skipped += u->u.skip != 0;
}

static void apply(replay *r, const mu_runlog_update *u) {
    if (is_needed(u)) {
        for (int i = 0; i < r->slices.n; i++) apply_slice(r, u, &r->slices.range[i]);
        for (int j = 0; j < u->u.n_parts; j++) r->free_slot[r->n_free++] = r->slot[u->first_part + (size_t)j];
    }
    move_on(r, u);
}

// ---- the end ----

static mu_status finish(replay *r, mu_err *err) {
    mu_training *t = r->t;
    const mu_runlog *log = r->log;
    if (!log->ended) {
        mu_training_say(t, "the log ends with update %lld, before the end of its run",
                        (long long)log->n_updates);
        return MU_OK;
    }
    uint64_t sum[2];
    mu_runlog_sum(t->s->params, sum);
    if (!memcmp(sum, log->end.weights, sizeof sum)) return MU_OK;
    MU_FAIL(err, MU_EBACKEND, "after %zu updates the weights are not those of the recorded run",
            log->n_updates);
    mu_err_hint(err, "Every loss was the same: the updater's settings may have changed.");
    return MU_EBACKEND;
}

static mu_status advance(void *state, mu_advance *out, mu_err *err) {
    replay *r = state;
    r->advanced = (mu_advance){.learners = 1, .ended = r->made == r->log->n_updates};
    if (r->advanced.ended) {
        MU_TRY(finish(r, err));
        r->t->why = "replay";
    } else {
        for (size_t i = r->begin_of[r->made]; i < r->begin_of[r->made + 1]; i++)
            MU_TRY(compute(r, r->order[i], err));
        apply(r, &r->log->updates[r->made]);
        r->made++;
    }
    *out = r->advanced;
    return MU_OK;
}

// ---- life ----

static mu_status make_buffers(replay *r, mu_err *err) {
    size_t most = (size_t)mu_core_most_parts(r->log->head.learners);
    r->grads = mu_alloc_array(most, sizeof *r->grads, TAG);
    r->grad_at = mu_alloc_array(most, sizeof *r->grad_at, TAG);
    r->weights = mu_alloc_array(most, sizeof *r->weights, TAG);
    r->piece = mu_alloc_block(sizeof *r->piece, TAG);
    return r->grads && r->grad_at && r->weights && r->piece ? MU_OK : MU_FAIL_NOMEM(err, "the replay");
}

static mu_status set_up(replay *r, mu_err *err) {
    mu_session *s = r->t->s;
    MU_TRY(mu_runlog_load(r->t->o->replay, &r->log, err));
    MU_TRY(mu_net_ready(s->train.net, mu_device_cpu(), err));
    mu_worker_init(&r->w, s);
    MU_TRY(mu_message_layout_make(s->params, &r->message, err));
    MU_TRY(mu_slices_make(s->params, &r->slices, err));
    MU_TRY(check_head(r, err));
    MU_TRY(make_order(r, err));
    MU_TRY(make_buffers(r, err));
    mu_source_set_lease(s->train.source, next_samples, r);
    return mu_source_start(s->train.source, err);
}

static bool wants(MU_UNUSED const mu_session *s, const mu_run_opts *o) { return o->replay != NULL; }

static mu_status prepare(MU_UNUSED mu_session *s, const mu_run_opts *o, mu_err *err) {
    if (o->record)
        return MU_FAIL(err, MU_EUSAGE, "a run is recorded or replayed, not both: its log exists already");
    if (!o->resume) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "a replay begins where its log does"), err,
                         "Leave `--resume` out.");
}

// The recorded run decides when it ends; only a stop request is quicker.
static mu_status start(void *state, mu_training *t, bool hold, mu_err *err) {
    replay *r = state;
    (void)hold; // nothing happens between two advances
    r->t = t;
    r->begin = t->at;
    t->limits = (mu_limits){0};
    return set_up(r, err);
}

static void sum_up(const replay *r, mu_learners_result *out) {
    const mu_setup *p = &r->t->s->setup;
    *out = r->result;
    out->count = p->learners;
    out->protocol = p->protocol->name;
    out->rows = p->rows;
    out->global_batch = p->global_batch;
    out->versions = (int64_t)r->made;
    out->produced = out->applied; // what was rejected or lost is not in the log
    out->rate_effective = r->t->rate;
    out->bad_records = mu_source_get_stats(r->t->s->train.source).n_bad;
    out->replace_p50_s = out->replace_p99_s = NAN;
    int64_t n = 0;
    for (int i = 0; i < out->most_staleness; i++) n += out->staleness_hist[i];
    if (n) out->staleness_mean /= (double)n;
}

static mu_status stop(void *state, mu_status how, mu_learners_result *out, MU_UNUSED mu_err *err) {
    replay *r = state;
    mu_source_stop(r->t->s->train.source);
    mu_source_set_lease(r->t->s->train.source, NULL, NULL);
    if (how == MU_OK) sum_up(r, out);
    mu_message_layout_fini(&r->message);
    mu_slices_fini(&r->slices);
    mu_runlog_destroy(r->log);
    mu_free(r->order);
    mu_free(r->begin_of);
    mu_free(r->slot);
    mu_free(r->free_slot);
    mu_free(r->slots);
    mu_free(r->grads);
    mu_free(r->grad_at);
    mu_free(r->weights);
    mu_free(r->piece);
    return MU_OK;
}

const mu_gradient_source mu_gradients_replay = {
    .name = "replay",
    .help = "the updates of a recorded run, in one process",
    .state_size = sizeof(replay),
    .rank = 20,
    .wants = wants,
    .prepare = prepare,
    .start = start,
    .advance = advance,
    .stop = stop,
};

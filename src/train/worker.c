// SPDX-License-Identifier: Apache-2.0
// worker.c - one learner's step: batch, forward and backward, proof of finite gradients, update.
//
// Nothing here allocates or waits but mu_source_next. Whatever the way of a gradient, an update follows only
// after its batch proved finite, except rows that a fused step has handed over before.
#include "train/worker.h"

#include "base/clock.h"
#include "base/log.h"

#include <math.h>
#include <string.h>

// ---- the fused path ----

// Metric k of a loss; of all copies when it is unrolled: each has one share of the weight, so their mean is
// taken as often as they are (as evaluate.c does).
static double loss_of(const mu_layer *l, int k) {
    double sum = 0, weight = 0;
    int copies = 0;
    for (; l; l = l->copy_before, copies++) {
        sum += l->metric[k].sum;
        weight += l->metric[k].weight;
    }
    return weight > 0 ? copies * sum / weight : 0;
}

// What the forward pass that has just ended reported.
static void read_metrics(mu_worker *w) {
    double hits = 0, counted = 0; // over all layers that measure it: an unrolled one is many
    w->loss = w->loss_weight = 0;
    for (int i = 1; i < w->net->n_layers; i++)
        for (int k = 0; k < w->net->layer[i]->n_metric; k++) {
            const mu_layer *l = w->net->layer[i];
            const mu_metric *m = &l->metric[k];
            if (m->is_loss) w->loss_weight += m->weight;
            if (m->is_loss && (!l->n_copies || l->copy == l->n_copies - 1)) w->loss += loss_of(l, k);
            if (m->weight <= 0) continue;
            if (strcmp(m->name, "accuracy")) continue;
            hits += m->sum;
            counted += m->weight;
        }
    w->accuracy = counted > 0 ? hits / counted : NAN;
    w->loss_known = true;
}

static bool takes(void *ctx, const mu_param *p) {
    mu_worker *w = ctx;
    if (!w->loss_known) { // first question of this backward: the forward pass is over
        read_metrics(w);
        w->bad = !isfinite(w->loss);
    }
    return p->n_users == 1 && p->shape.n == 2 && !p->is_stat;
}

static mu_rule_step rule_step(const mu_worker *w) {
    return (mu_rule_step){w->at.step + w->at.extra_updates, w->step_rate.young, w->step_rate.stale};
}

static void apply_rows(void *ctx, mu_param *p, int64_t row0, int64_t n_rows, const float *grad) {
    mu_worker *w = ctx;
    if (w->bad) return;
    const mu_target t = mu_target_of(w->updater, w->params, p);
    const mu_update a = {.rate = w->step_rate.rate, .step = rule_step(w)};
    mu_updater_apply_rows(&t, &a, row0, n_rows, grad);
}

static bool takes_outer(void *ctx, const mu_param *p) {
    return mu_updater_takes_outer(((mu_worker *)ctx)->updater, p);
}

static void apply_outer(void *ctx, mu_param *p, int64_t row0, int64_t n_rows, const float *dy, const float *x,
                        float *dx) {
    mu_worker *w = ctx;
    if (w->bad) return;
    const mu_target t = mu_target_of(w->updater, w->params, p);
    const mu_update a = {.rate = w->step_rate.rate, .step = rule_step(w)};
    mu_updater_apply_outer(&t, &a, row0, n_rows, dy, x, dx);
}

void mu_worker_init(mu_worker *w, mu_session *s) {
    const mu_train_opts *t = &s->job->train;
    *w = (mu_worker){.session = s,
                     .net = s->train.net,
                     .params = s->params,
                     .updater = s->updater,
                     .at = MU_POSITION_START};
    w->sink = (mu_grad_sink){w, takes, apply_rows, takes_outer, apply_outer};
    w->fused = t->accumulate == 1 && t->nonfinite != MU_NONFINITE_SKIP && s->updater->clip_norm <= 0;
    w->end = mu_length_of(s);
    mu_debug("gradients are %s", w->fused            ? "applied while backward runs"
                                 : t->accumulate > 1 ? "summed, then applied"
                                                     : "complete before they are applied");
}

// ---- finding the culprit ----

static bool all_finite(const float *v, size_t n) {
    float sum = 0; // 0 * x is NaN exactly when x is not finite
    for (size_t i = 0; i < n; i++) sum += 0.0f * v[i];
    return sum == 0.0f;
}

// Runs the forward pass again layer by layer and names the first one with a non-finite output.
static mu_status name_bad_layer(mu_worker *w, const mu_step *s, mu_err *err) {
    mu_err ignored = {0};
    mu_step again = *s;
    again.hooks = NULL; // the weights are collected already
    for (int i = 1; i < w->net->n_layers; i++) {
        mu_layer *l = w->net->layer[i];
        if (mu_net_pass(l, MU_PASS_FORWARD, &again, &ignored) != MU_OK) break;
        for (int k = 0; k < l->n_out; k++)
            if (l->out[k].value.dtype == MU_F32 &&
                !all_finite(l->out[k].value.f, mu_tensor_count(&l->out[k].value))) {
                for (int p = 0; p < l->n_param; p++)
                    if (!all_finite(l->param[p]->value, l->param[p]->count))
                        return MU_FAIL_AT(err, MU_EDIVERGED, l->pos,
                                          "the loss is not finite at step %lld: parameter `%s` is not finite",
                                          (long long)s->step, l->param[p]->name);
                return MU_FAIL_AT(err, MU_EDIVERGED, l->pos,
                                  "the loss is not finite at step %lld: layer `%s` gives the first bad value",
                                  (long long)s->step, l->name);
            }
    }
    return MU_FAIL(err, MU_EDIVERGED, "the loss is not finite at step %lld", (long long)s->step);
}

// ---- applying what backward left ----

static bool clips(const mu_worker *w) { return w->updater->clip_norm > 0; }

static void hint_diverged(mu_err *err) {
    mu_err_hint(err, "Lower `updater.rate`, clip gradients, or set `train.nonfinite` to skip or rollback.");
}

static mu_status not_finite(const mu_worker *w, const mu_param *p, mu_err *err) {
    MU_FAIL_AT(err, MU_EDIVERGED, p->pos, "the gradient of `%s` is not finite at step %lld", p->name,
               (long long)w->at.step);
    hint_diverged(err);
    return MU_EDIVERGED;
}

// Norms are taken when all is complete; the net keeps what they need (mu_net_opts.keep_factors).
void mu_worker_check_finite(mu_worker *w, const mu_param *p) {
    if (clips(w)) return;
    w->checked = true;
    if (!w->nonfinite && !mu_grad_is_finite(p, &p->grad)) w->nonfinite = p;
}

// Scale for norm clipping, and the proof that every gradient is finite.
static mu_status measure(mu_worker *w, float *scale, mu_err *err) {
    double sum = 0;
    if (w->nonfinite) return not_finite(w, w->nonfinite, err);
    for (int i = 0; i < w->params->n; i++) {
        mu_param *p = w->params->list[i];
        if (p->grad.form == MU_GRAD_NONE || (w->checked && mu_grad_done_in_layer(p))) continue;
        // norms of factors cost far more than this check
        double own = clips(w) ? mu_grad_sum_squares(p, &p->grad)
                     : mu_grad_is_finite(p, &p->grad) ? 0 : INFINITY;
        if (!isfinite(own)) return not_finite(w, p, err);
        if (p->lr_mult > 0) sum += own; // frozen parameters take no part in the norm, as in PyTorch
    }
    int64_t n = w->session->job->train.accumulate;
    *scale = 1.0f / (float)n;
    double norm = sqrt(sum) / (double)n;
    if (clips(w) && norm > (double)w->updater->clip_norm)
        *scale *= (float)((double)w->updater->clip_norm / norm);
    return MU_OK;
}

void mu_worker_apply(mu_worker *w, float scale) {
    for (int i = 0; i < w->params->n; i++) {
        mu_param *p = w->params->list[i];
        if (p->grad.form == MU_GRAD_NONE || p->is_stat) continue;
        const mu_grad *g = &p->grad;
        const mu_target t = mu_target_of(w->updater, w->params, p);
        mu_updater_apply(&t, &(mu_update){1, &g, &scale, w->step_rate.rate, rule_step(w)});
    }
}

static mu_status next_batch(mu_worker *w, const mu_batch **out, mu_err *err) {
    mu_source *source = w->session->train.source;
    const double before = mu_source_get_stats(source).wait_s;
    const mu_status st = mu_source_next(source, out, err);
    w->wait_s += mu_source_get_stats(source).wait_s - before;
    return st;
}

mu_status mu_worker_batch(mu_worker *w, mu_step *s, mu_err *err) {
    const mu_batch *batch = w->fixed;
    if (!batch) MU_TRY(next_batch(w, &batch, err));
    if (!batch) return MU_FAIL(err, MU_EBACKEND, "the data ended before the learner was told to");
    if (w->facts) mu_facts_add(w->facts, batch);
    mu_net_set_input(w->net, batch->field, mu_source_n_fields(w->session->train.source));
    s->first_sample = w->batch_first = batch->first;
    s->rows = batch->n;
    if (!s->global_rows) s->global_rows = batch->n;
    w->loss_known = w->bad = w->checked = false;
    w->nonfinite = NULL;
    mu_status st = w->session->algo->step(w->session->algo_state, w->net, s, err);
    if (st != MU_OK && st != MU_EDIVERGED) return st;
    if (!w->loss_known) read_metrics(w);
    if (!isfinite(w->loss) && w->params->wholes) { // the others do not run once more with it
        MU_FAIL(err, MU_EDIVERGED, "the loss is not finite at step %lld", (long long)s->step);
        st = MU_EDIVERGED;
    } else if (!isfinite(w->loss)) { // the forward pass tells more than where backward noticed it
        mu_err_clear(err);
        st = name_bad_layer(w, s, err);
    }
    if (st != MU_OK) hint_diverged(err);
    return st;
}

// The batches of a step that stay unused after a bad one, so that the cursor stands where `samples` says.
static mu_status pass_over(mu_worker *w, int64_t n_batches, mu_err *err) {
    const mu_batch *unused = w->fixed;
    for (int64_t i = 0; i < n_batches; i++) {
        if (!w->fixed) MU_TRY(next_batch(w, &unused, err));
        w->step_rows += unused->n;
    }
    return MU_EDIVERGED;
}

// Running statistics have no gradient, so their place in the gradient block keeps what they were.
static void copy_stats(mu_worker *w, bool back) {
    for (int i = 0; i < w->params->n; i++) {
        mu_param *p = w->params->list[i];
        float *to = back ? p->value : p->grad.dense, *from = back ? p->grad.dense : p->value;
        if (p->is_stat) memcpy(to, from, p->count * sizeof *to);
    }
}

void mu_worker_save_stats(mu_worker *w) { copy_stats(w, false); }
void mu_worker_restore_stats(mu_worker *w) { copy_stats(w, true); }

mu_status mu_worker_gradient(mu_worker *w, mu_step *s, int64_t first, float *scale, mu_err *err) {
    MU_TRY(mu_worker_batch(w, s, err));
    if (w->batch_first != first)
        return MU_FAIL(err, MU_EBACKEND, "got samples from %lld on instead of %lld",
                       (long long)w->batch_first, (long long)first);
    return measure(w, scale, err);
}

bool mu_worker_may_skip(mu_worker *w) {
    const mu_train_opts *t = &w->session->job->train;
    return t->nonfinite == MU_NONFINITE_SKIP && ++w->bad_in_row <= t->max_bad_steps;
}

void mu_worker_count_step(mu_worker *w) {
    const int64_t samples = w->at.samples + w->step_rows, updates = w->at.step + w->at.extra_updates;
    w->at = mu_position_at(w->session, &w->at, samples);
    w->at.extra_updates = updates + 1 - w->at.step;
    w->at.version++;
}

static mu_status try_step(mu_worker *w, mu_err *err) {
    w->step_rate = mu_step_rate_at(w->session, &w->at, &w->end);
    int64_t n = w->session->job->train.accumulate;
    mu_step s = {.phase = MU_TRAIN, .step = w->at.step, .sink = w->fused ? &w->sink : NULL};
    double loss = 0, accuracy = 0;
    w->step_rows = 0;
    for (int64_t i = 0; i < n; i++, s.accumulate = true, s.global_rows = 0) {
        mu_status st = mu_worker_batch(w, &s, err);
        w->step_rows += s.rows;
        if (st != MU_OK) return st == MU_EDIVERGED ? pass_over(w, n - 1 - i, err) : st;
        loss += w->loss;
        accuracy += w->accuracy;
    }
    w->loss = loss / (double)n;
    w->accuracy = accuracy / (double)n;
    float scale = 1;
    MU_TRY(measure(w, &scale, err));
    mu_worker_apply(w, scale);
    mu_worker_count_step(w);
    w->at.applied += w->step_rows;
    w->bad_in_row = 0;
    return MU_OK;
}

mu_status mu_worker_step(mu_worker *w, mu_err *err) {
    bool skips = w->session->job->train.nonfinite == MU_NONFINITE_SKIP;
    const double began = mu_clock_s(), waited = w->wait_s;
    if (skips) mu_worker_save_stats(w);
    mu_status st = try_step(w, err);
    w->compute_s += mu_clock_s() - began - (w->wait_s - waited);
    if (skips && st == MU_EDIVERGED) mu_worker_restore_stats(w);
    return st;
}

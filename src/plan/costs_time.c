// SPDX-License-Identifier: Apache-2.0
// costs_time.c - the clocks of costs.h.
//
// Layers are timed by train/timing.c. A learner among several is played: its gradient goes into
// a message slot by the hooks of a real one (learners/learner.c), and what a server does with it is done on the
// parameter blocks of the session, slice by slice. The two follow each other as in training, so that each finds
// the caches as the other leaves them.
//
// Others may use the machine, too: so times are those that the thread had a processor, and medians. How much a
// gradient differs from the next is told from those that nobody interrupted.
#include "plan/costs_inner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/cores.h"
#include "comm/process.h"
#include "comm/region.h"
#include "ps/message.h"
#include "ps/slices.h"
#include "train/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 2000, LEAST = 3, MOST_CROWD = 256 };

typedef struct player {                 // a learner among several, and its server
    mu_worker w;
    mu_params *params;
    mu_message_layout layout;
    char *slot[2];
    mu_slice_list slices;
    struct { _Atomic size_t done; mu_undo undo; } *executor;
} player;

typedef struct series { int n; double v[SAMPLES]; } series;
typedef struct moment { double wall_s, own_s; } moment; // own: with a processor

static moment now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (moment){mu_clock_s(), (double)t.tv_sec + 1e-9 * (double)t.tv_nsec};
}

static void add(series *s, double v) {
    if (s && s->n < SAMPLES) s->v[s->n++] = v;
}

static void add_span(series *s, const moment *a, const moment *b, int parts) {
    add(s, (b->own_s - a->own_s) / parts);
}

// So long of a processor's time, or somewhat longer by the clock where others have it.
typedef struct span { moment began; double seconds; } span;

static span begin_span(double seconds) { return (span){now(), seconds}; }

static bool goes_on(const span *s) {
    static const double patience = 2.2;
    const moment t = now();
    return t.own_s - s->began.own_s < s->seconds && t.wall_s - s->began.wall_s < patience * s->seconds;
}

static bool was_interrupted(const moment *a, const moment *b) {
    return b->wall_s - a->wall_s > 1.03 * (b->own_s - a->own_s) + 2e-6;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(series *s, double q) {
    if (!s->n) return 0;
    qsort(s->v, (size_t)s->n, sizeof *s->v, by_value);
    return s->v[(int)(q * (s->n - 1) + 0.5)];
}

// The middle half as that of a normal distribution: one pause of a busy machine does not count.
static double spread_of(series *s) {
    const double middle = quantile(s, 0.5);
    return s->n < 8 || middle <= 0 ? 0 : (quantile(s, 0.75) - quantile(s, 0.25)) / 1.349 / middle;
}

// ---- a learner and its server ----

static void close_player(player *p) {
    mu_message_layout_fini(&p->layout);
    mu_slices_fini(&p->slices);
    mu_free(p->slot[0]);
    mu_free(p->slot[1]);
    mu_free(p->executor);
}

static mu_status open_player(player *p, mu_session *s, mu_err *err) {
    *p = (player){.params = s->params};
    mu_worker_init(&p->w, s);
    MU_TRY(mu_source_next(s->train.source, &p->w.fixed, err));
    MU_TRY(mu_message_layout_make(s->params, &p->layout, err));
    MU_TRY(mu_slices_make(s->params, &p->slices, err));
    for (int i = 0; i < 2; i++) p->slot[i] = mu_alloc_block(p->layout.bytes + 64, "costs");
    p->executor = mu_alloc_block(sizeof *p->executor, "costs");
    return p->slot[0] && p->slot[1] && p->executor ? MU_OK : MU_FAIL_NOMEM(err, "a message");
}

typedef struct pushing { player *p; char *slot; } pushing;

static void after_backward(void *ctx, mu_layer *layer) {
    const pushing *to = ctx;
    for (int i = 0; i < layer->n_param; i++) {
        mu_param *p = layer->param[i];
        if (!mu_grad_done_in_layer(p)) continue;
        mu_worker_check_finite(&to->p->w, p);
        mu_message_put(&to->p->layout, to->slot, p->index, p);
    }
}

static mu_status gradient(player *p, int slot, mu_err *err) {
    pushing to = {p, p->slot[slot]};
    const mu_step_hooks hooks = {.ctx = &to, .after_backward = after_backward};
    mu_step s = {.phase = MU_TRAIN, .step = p->w.at.step, .hooks = &hooks};
    float scale = 1;
    MU_TRY(mu_worker_gradient(&p->w, &s, p->w.fixed->first, &scale, err));
    for (int i = 0; i < p->params->n; i++)
        if (!mu_grad_done_in_layer(p->params->list[i]))
            mu_message_put(&p->layout, to.slot, i, p->params->list[i]);
    return MU_OK;
}

// One update of n gradients, by one executor.
static void apply(player *p, int n, bool undo) {
    static const float weight[2] = {1, 1};
    const mu_step_rate rate = mu_step_rate_at(p->w.session, &p->w.at, &p->w.end);
    for (int i = 0; i < p->slices.n; i++) {
        const mu_slice_range *r = &p->slices.range[i];
        mu_grad grad[2];
        const mu_grad *at[2] = {&grad[0], &grad[1]};
        for (int k = 0; k < n; k++)
            grad[k] = mu_message_get(&p->layout, p->slot[k], r->param, p->params->list[r->param]);
        const mu_update u = {n, at, weight, rate.rate / n, {p->w.at.step, rate.young, rate.stale}};
        atomic_store(&p->executor->done, 0);
        mu_apply_slice(&(mu_apply){p->w.updater, p->params, 1, &u}, r, &p->executor->done,
                       undo ? &p->executor->undo : NULL);
    }
}

typedef struct times { series gradient, apply, whole; } times;  // whole: gradients that nobody interrupted

// Gradients and updates of `n` in turns for so long.
static mu_status play(player *p, int n, bool undo, double seconds, times *out, mu_err *err) {
    const span all = begin_span(seconds);
    for (int i = 0; i < LEAST || goes_on(&all); i++) {
        const moment t0 = now();
        for (int k = 0; k < n; k++) MU_TRY(gradient(p, k, err));
        const moment t1 = now();
        apply(p, n, undo);
        const moment t2 = now();
        if (i == 0 || !out) continue; // pages are touched for the first time
        add_span(&out->gradient, &t0, &t1, n);
        add_span(&out->apply, &t1, &t2, 1);
        if (!was_interrupted(&t0, &t1)) add(&out->whole, (t1.wall_s - t0.wall_s) / n);
    }
    return MU_OK;
}

static mu_status time_alone(mu_worker *w, double seconds, times *out, mu_err *err) {
    const span all = begin_span(seconds);
    for (int i = 0; i < LEAST || goes_on(&all); i++) {
        const moment t0 = now();
        MU_TRY(mu_worker_step(w, err));
        const moment t1 = now();
        if (i) add_span(&out->gradient, &t0, &t1, 1);
    }
    return MU_OK;
}

static mu_status time_player(player *p, int k, bool first, double seconds, mu_costs *out, mu_err *err) {
    times *of = mu_alloc_array(4, sizeof *of, "costs");
    if (!of) return MU_FAIL_NOMEM(err, "times");
    times *alone = &of[0], *one = &of[1], *two = &of[2], *kept = &of[3];
    mu_status st = time_alone(&p->w, seconds * 0.25, alone, err);
    if (st == MU_OK) st = play(p, 1, false, seconds * 0.35, one, err);
    if (st == MU_OK) st = play(p, 2, false, seconds * 0.25, two, err);
    if (st == MU_OK && first) st = play(p, 1, true, seconds * 0.15, kept, err);
    if (st == MU_OK) {
        const double a = quantile(&one->apply, 0.5), b = quantile(&two->apply, 0.5);
        out->alone_s[k] = quantile(&alone->gradient, 0.5);
        out->gradient_s[k] = quantile(&one->gradient, 0.5);
        out->apply_s[k] = a;
        out->sweep_s[k] = fmin(fmax(2 * a - b, 0), a);
    }
    if (st == MU_OK && first) {
        const double a = out->apply_s[k];
        out->undo = a > 0 ? fmin(fmax(quantile(&kept->apply, 0.5) / a, 1), 2) : 1;
        out->spread = fmin(spread_of(&one->whole), 1);
    }
    mu_free(of);
    return st;
}

// ---- what is told of parameters ----

static const char *form_name(mu_grad_form f) {
    return f == MU_GRAD_DENSE      ? "dense"
           : f == MU_GRAD_FACTORS  ? "factors"
           : f == MU_GRAD_GATHERED ? "gathered"
           : f == MU_GRAD_ROWS     ? "rows"
                                   : "none";
}

static mu_status tell_params(const player *p, int k, bool first, mu_costs *out, mu_err *err) {
    const mu_params *ps = p->params;
    if (first) {
        out->param = mu_alloc_array((size_t)ps->n + 1, sizeof *out->param, "costs");
        if (!out->param) return MU_FAIL_NOMEM(err, "the costs");
        out->n_params = ps->n;
    }
    out->message_bytes[k] = (double)p->layout.bytes;
    for (int i = 0; i < ps->n && i < out->n_params; i++) {
        const mu_param *q = ps->list[i];
        mu_cost_param *to = &out->param[i];
        to->message_bytes[k] = (double)p->layout.part[i].bytes;
        if (!first) continue;
        snprintf(to->name, sizeof to->name, "%s", q->name);
        snprintf(to->form, sizeof to->form, "%s", form_name(p->layout.part[i].form));
        to->floats = (double)q->count;
        to->fixed = q->is_stat || q->is_state || q->lr_mult == 0;
    }
    return MU_OK;
}

static mu_status tell_layers(const mu_timing *t, int k, bool first, int64_t rows, mu_costs *out, mu_err *err) {
    const int n = t->n < MU_COST_LAYERS ? t->n : MU_COST_LAYERS;
    if (first) {
        out->layer = mu_alloc_array((size_t)n + 1, sizeof *out->layer, "costs");
        if (!out->layer) return MU_FAIL_NOMEM(err, "the costs");
        out->n_layers = n;
    }
    for (int i = 0; i < n && i < out->n_layers; i++) {
        mu_cost_layer *to = &out->layer[i];
        to->forward_s[k] = t->layer[i].forward_s;
        to->backward_s[k] = t->layer[i].backward_s;
        if (!first) continue;
        snprintf(to->name, sizeof to->name, "%s", t->layer[i].name);
        snprintf(to->type, sizeof to->type, "%s", t->layer[i].type);
        to->flops = (t->layer[i].forward_flops + t->layer[i].backward_flops) / (double)rows;
    }
    return MU_OK;
}

static mu_status time_records(mu_session *s, double seconds, mu_costs *out, mu_err *err) {
    const mu_batch *b;
    int64_t n = 0;
    const moment began = now();
    moment t;
    do {
        MU_TRY(mu_source_next(s->train.source, &b, err));
        n += b->n;
        t = now();
    } while (t.wall_s - began.wall_s < seconds);
    out->record_s = (t.own_s - began.own_s) / (double)n;
    return MU_OK;
}

mu_status mu_cost_time(mu_session *s, int k, bool first, double seconds, mu_costs *out, mu_err *err) {
    mu_timing t;
    player p;
    MU_TRY(mu_timing_layers(s, seconds * 0.2, &t, err));
    if (first) out->flops_per_s = 1e9 * mu_device_cpu_peak_gflops();
    out->activation_bytes[k] = (double)t.activation_bytes + (double)s->train.net->scratch_bytes;
    MU_TRY(tell_layers(&t, k, first, out->size[k] * s->job->train.accumulate, out, err));
    mu_status st = open_player(&p, s, err);
    if (st == MU_OK) st = tell_params(&p, k, first, out, err);
    if (st == MU_OK) st = time_player(&p, k, first, seconds * 0.7, out, err);
    close_player(&p);
    if (st == MU_OK && first) st = time_records(s, seconds * 0.1, out, err);
    return st;
}

// ---- all cores at once ----

typedef struct crowd {
    mu_session *s;
    double seconds;
    int number;
    struct told { _Atomic int ready; int failed; double gradient_s, apply_s, share; } *told;   // shared
    int n;
} crowd;

// Nobody begins before all can: a start takes longer than what is measured.
static void wait_for_all(const crowd *c) {
    const double until = mu_clock_s() + 20;
    for (int i = 0; i < c->n && mu_clock_s() < until;)
        if (atomic_load(&c->told[i].ready)) i++;
}

static int take_part(void *ctx) {
    const crowd *c = ctx;
    struct told *own = &c->told[c->number];
    player p;
    mu_err err = {0};
    times *of = mu_alloc(sizeof *of, "costs");
    (void)mu_cores_pin(c->number);
    mu_status st = of ? open_player(&p, c->s, &err) : MU_ENOMEM;
    if (st == MU_OK) st = play(&p, 1, false, 0, NULL, &err); // pages of its own
    atomic_store(&own->ready, 1);
    wait_for_all(c);
    const moment began = now();
    if (st == MU_OK) st = play(&p, 1, false, c->seconds, of, &err);
    const moment ended = now();
    own->share = (ended.own_s - began.own_s) / fmax(ended.wall_s - began.wall_s, 1e-9);
    if (st == MU_OK) {
        own->gradient_s = quantile(&of->gradient, 0.5);
        own->apply_s = quantile(&of->apply, 0.5);
    }
    own->failed = st != MU_OK;
    if (of) close_player(&p);
    mu_free(of);
    return st != MU_OK;
}

// False: somebody failed, or they hardly ran at once, as others took the cores.
static bool mean_of(const crowd *c, double *gradient_s, double *apply_s, double *share) {
    const double together = 0.7;
    *gradient_s = *apply_s = *share = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->told[i].failed || c->told[i].gradient_s <= 0) return false;
        *gradient_s += c->told[i].gradient_s / c->n;
        *apply_s += c->told[i].apply_s / c->n;
        *share += fmin(1, c->told[i].share) / c->n;
    }
    return *share > together;
}

typedef struct means { bool known; double gradient_s, apply_s, share; } means;

// So many at once; the means of all.
static mu_status gather(mu_session *s, int n, double seconds, means *out, mu_err *err) {
    mu_region r = {0};
    pid_t pid[MOST_CROWD] = {0};
    crowd c[MOST_CROWD];
    MU_TRY(mu_region_create("costs", (size_t)n * sizeof(struct told), &r, err));
    mu_status st = MU_OK;
    for (int i = 0; i < n && st == MU_OK; i++) {
        c[i] = (crowd){s, seconds, i, (struct told *)(void *)r.base, n};
        st = mu_process_start("muster-costs", take_part, &c[i], &pid[i], err);
    }
    if (st != MU_OK) mu_process_end_all(pid, n, 0);
    else mu_process_let_end(pid, n, 120, 1);
    out->known = st == MU_OK && mean_of(&c[0], &out->gradient_s, &out->apply_s, &out->share);
    mu_region_close(&r);
    return st;
}

// Weights and histories in memory that all of a crowd change, as learners do by most protocols.
static mu_status gather_on_shared(mu_session *s, int n, double seconds, means *out, mu_err *err) {
    mu_params *ps = s->params;
    mu_region r = {0};
    float *value = ps->value, *slot[MU_MAX_SLOTS] = {0}, *to[MU_MAX_SLOTS] = {0};
    const size_t block = (ps->count + 4096) * sizeof(float); // blocks begin some lines apart
    MU_TRY(mu_region_create("costs", block * (size_t)(1 + ps->n_slots), &r, err));
    memcpy(r.base, value, ps->count * sizeof(float));
    for (int k = 0; k < ps->n_slots; k++) {
        slot[k] = ps->slot[k];
        to[k] = (float *)(void *)(r.base + (size_t)(k + 1) * block + (size_t)(k + 1) * 11 * MU_CACHE_LINE);
        memcpy(to[k], slot[k], ps->count * sizeof(float));
    }
    mu_params_rebase(ps, (float *)(void *)r.base, to);
    const mu_status st = gather(s, n, seconds, out, err);
    mu_params_rebase(ps, value, slot);
    mu_region_close(&r);
    return st;
}

mu_status mu_cost_time_crowd(mu_session *s, int k, int cores, double seconds, mu_costs *out, mu_err *err) {
    const int n = cores < MOST_CROWD ? cores : MOST_CROWD;
    means own = {0}, shared = {0};
    out->crowd = 1;
    out->crowd_gradient = out->crowd_apply = 1;
    if (n < 2) return MU_OK;
    MU_TRY(gather(s, n, seconds / 2, &own, err));
    out->busy = fmin(fmax(1 - own.share, 0), 1);
    if (!own.known) return MU_OK;
    MU_TRY(gather_on_shared(s, n, seconds / 2, &shared, err));
    if (!shared.known) return MU_OK;
    out->crowd = n;
    out->crowd_gradient = fmin(fmax(own.gradient_s / out->gradient_s[k], 0.5), 100);
    out->crowd_apply = out->apply_s[k] > 0 ? fmin(fmax(own.apply_s / out->apply_s[k], 0.5), 100) : 1;
    out->lines_read_s = fmax(0, shared.gradient_s - own.gradient_s);
    out->lines_apply_s = fmax(0, shared.apply_s - own.apply_s);
    return MU_OK;
}

// SPDX-License-Identifier: Apache-2.0
// learner.c - see learner.h.
//
// Where a gradient goes depends on the protocol. Hogwild: the worker's fused step writes the shared weights
// itself. All others: every layer's gradient goes into the queue slot when its backward has ended, and
// the client hands the whole over.
#include "learners/learner.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "comm/cores.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct learner {
    mu_role         *role;
    mu_shared        *shared;
    mu_shared_learner *row;
    mu_worker        w;
    mu_server        server;            // its own, beside
    mu_client        client;
    mu_mirror        mirror;            // its own weights, where the protocol mirrors
    mu_lease         lease;             // of the prefetch thread: batches left of it
    int32_t          lease_at;
    float           *copy, *stats;      // private weights; private running statistics
    bool             uses_own;          // blocks of the group
} learner;

mu_pace mu_role_pace(void *ctx, int64_t version, int64_t samples) {
    const mu_role *r = ctx;
    (void)version;
    const mu_position at = mu_position_at(r->session, r->begin, samples);
    return mu_pace_at(r->session, &at, r->end);
}

// ---- samples: the prefetch thread ----

static bool source_stops(void *source) { return mu_source_stopping(source); }

static bool next_samples(void *ctx, int64_t *first, int64_t *rows) {
    learner *l = ctx;
    if (l->lease_at == l->lease.batches) {
        mu_source *source = l->role->session->train.source;
        if (!mu_client_lease(&l->client, &l->lease, source_stops, source)) return false;
        l->lease_at = 0;
    }
    *first = l->lease.first + l->lease_at * l->lease.stride;
    *rows = l->lease_at == l->lease.batches - 1 ? l->lease.last_rows : l->lease.rows;
    l->lease_at++;
    return true;
}

// ---- layers ----

static void before_forward(void *ctx, mu_layer *layer) {
    learner *l = ctx;
    mu_client_pulse(&l->client);
    mu_failpoint("learner/forward");
    for (int i = 0; i < layer->n_param; i++)
        mu_client_collect(&l->client, layer->param[i]->index);
}

static void pulse_after_backward(void *ctx, mu_layer *layer) {
    learner *l = ctx;
    (void)layer;
    mu_client_pulse(&l->client);
    mu_failpoint("learner/backward");
}

static void after_backward(void *ctx, mu_layer *layer) {
    learner *l = ctx;
    pulse_after_backward(ctx, layer);
    for (int i = 0; i < layer->n_param; i++) {
        if (!mu_grad_done_in_layer(layer->param[i])) continue;
        mu_worker_check_finite(&l->w, layer->param[i]);
        mu_client_push(&l->client, layer->param[i]->index, layer->param[i]);
    }
}

static void push_rest(learner *l) {
    for (int i = 0; i < l->w.params->n; i++)
        if (!mu_grad_done_in_layer(l->w.params->list[i])) mu_client_push(&l->client, i, l->w.params->list[i]);
}

// ---- running statistics ----

// Statistics move in the forward pass, so every learner has its own; the update makes them one again. Each
// gradient begins with those of its weights, also when it is the second one on the same copy: so it is a
// function of the version and the samples, which is what a replay relies on. (Mirrors, which are not
// replayed, keep theirs with their weights.)
static mu_status own_stats(learner *l, mu_err *err) {
    mu_params *ps = l->w.params;
    size_t n = 0;
    for (int i = 0; i < ps->n; i++) n += ps->list[i]->is_stat ? ps->list[i]->count : 0;
    if (!n) return MU_OK;
    l->stats = mu_alloc_array(n, sizeof(float), "learner/statistics");
    if (!l->stats) return MU_FAIL_NOMEM(err, "running statistics");
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        if (!p->is_stat) continue;
        n -= p->count;
        p->value = l->stats + n;
    }
    return MU_OK;
}

static void refresh_stats(learner *l) {
    if (!l->stats) return;
    for (int i = 0; i < l->w.params->n; i++) {
        mu_param *p = l->w.params->list[i];
        const float *from = l->copy ? l->copy : l->shared->weights;
        if (!p->is_stat) continue;
        mu_client_collect(&l->client, i); // hardsync grants a version that is still in the making
        memcpy(p->value, from + p->offset, p->count * sizeof(float));
    }
}

// ---- own blocks ----

// From now on the learner applies gradients itself: to history of its own, and to weights of its own if the
// protocol mirrors.
static mu_status use_own_blocks(learner *l, mu_err *err) {
    mu_shared *g = l->shared;
    const bool mirrors = g->setup->protocol->mirrors;
    float *own[MU_MAX_SLOTS] = {0};
    mu_shared_fill_own(g, l->role->index);
    for (int k = 0; k < g->head->n_history; k++) own[k] = mu_shared_own_history(g, l->role->index, k);
    mu_params_rebase(l->w.params, mirrors ? mu_shared_own_weights(g, l->role->index) : g->weights, own);
    l->uses_own = true;
    mu_free(l->stats); // of the warm start
    l->stats = NULL;
    if (!mirrors) return MU_OK;
    MU_TRY(mu_mirror_init(&l->mirror, g, l->role->index, err));
    l->client.mirror = &l->mirror;
    l->client.pace_at = mu_role_pace;
    l->client.pace_ctx = l->role;
    return MU_OK;
}

// ---- one gradient ----

// Does the worker's own update write the shared weights in this step?
static bool writes_weights(const learner *l) {
    return !l->client.queued && !l->shared->setup->protocol->mirrors;
}

static void note_step(learner *l, int64_t began) {
    mu_shared_learner *row = l->row;
    atomic_fetch_add(&row->compute_ns, mu_clock_ns() - began);
    atomic_fetch_add(&row->gradients, 1);
    atomic_fetch_add(&row->samples, l->client.grant.rows);
    atomic_store(&row->loss, l->w.loss);
    atomic_store(&row->accuracy, l->w.accuracy);
    // one writer: the learner itself
    atomic_store(&row->loss_sum, atomic_load(&row->loss_sum) + l->w.loss);
    atomic_store(&row->accuracy_sum, atomic_load(&row->accuracy_sum) + l->w.accuracy);
    atomic_fetch_add(&row->loss_n, 1);
}

// With momentum, gradients of old weights make a training diverge at a rate that is right for one learner.
static void hint_stale(const learner *l, mu_err *err) {
    const mu_setup *p = l->shared->setup;
    if (mu_shared_is_in_step(l->shared, l->client.grant.version)) return;
    err->hint[0] = '\0';
    mu_err_hint(err,
                "Gradients of %s are about %g updates old: set a longer `cluster.warm_start`, choose a "
                "protocol with less staleness, or lower `updater.rate`.",
                p->protocol->name, p->expected_staleness);
}

static mu_status compute(learner *l, float *scale, mu_err *err) {
    mu_worker *w = &l->w;
    const mu_grant *g = &l->client.grant;
    const mu_step_hooks hooks = {
        .ctx = l, .before_forward = before_forward, .after_backward = after_backward};
    const mu_step_hooks pulse_only = {.ctx = l, .before_forward = before_forward,
                                      .after_backward = pulse_after_backward};
    bool itself = writes_weights(l);
    w->at.step = itself ? g->version : g->step; // the rule's counter where it applies itself; else for messages
    mu_step s = {.phase = MU_TRAIN,
                 .step = g->step,
                 .global_rows = g->global_rows,
                 .sink = itself && w->fused ? &w->sink : NULL,
                 .hooks = itself ? &pulse_only : &hooks};
    const mu_status st = mu_worker_gradient(w, &s, g->first, scale, err);
    if (l->client.mirror && !l->client.queued)
        mu_mirror_follow_all(l->client.mirror); // what no layer asked for; also of a gradient that is skipped
    if (st == MU_OK && itself) mu_worker_apply(w, *scale);
    return st;
}

// What happens to a gradient that is not finite: by the job's policy the learner ends, or the update it is
// part of is skipped.
static mu_status bad_gradient(learner *l, mu_err *err) {
    if (!mu_worker_may_skip(&l->w)) return MU_EDIVERGED;
    mu_warn("learner %d: gradient skipped: %s", l->role->index, err->msg);
    mu_err_clear(err);
    return MU_OK;
}

static mu_status one_gradient(learner *l, bool *ended, mu_err *err) {
    mu_answer answer;
    MU_TRY(mu_client_begin(&l->client, &answer, err));
    *ended = answer == MU_END;
    if (*ended) return MU_OK;
    if (!l->client.queued && !l->uses_own) { // the warm start is over
        MU_TRY(use_own_blocks(l, err));
        if (l->client.mirror) mu_mirror_begin(l->client.mirror);
    }
    int64_t began = mu_clock_ns();
    atomic_store_explicit(&l->row->doing, MU_DOING_COMPUTE, memory_order_relaxed);
    int32_t slow = atomic_load_explicit(&l->row->slow_us, memory_order_relaxed);
    if (slow > 0) nanosleep(&(struct timespec){slow / 1000000, slow % 1000000 * 1000L}, NULL);
    refresh_stats(l);
    if (writes_weights(l)) {
        const mu_pace pace = mu_role_pace(l->role, 0, atomic_load(&l->shared->head->samples));
        l->w.rate = (double)l->client.weight * pace.rate;
        l->w.early = pace.early;
    }
    float scale = 1;
    mu_status st = compute(l, &scale, err);
    bool bad = st == MU_EDIVERGED;
    if (bad) hint_stale(l, err);
    if (bad) MU_TRY(bad_gradient(l, err));
    else if (st != MU_OK) return st;
    else l->w.bad_in_row = 0;
    if (!bad) push_rest(l);
    note_step(l, began);
    atomic_store_explicit(&l->row->doing, MU_DOING_APPLY, memory_order_relaxed);
    l->client.loss = l->w.loss;
    mu_verdict v = mu_client_end(&l->client, bad, scale);
    if (v == MU_FENCED || v == MU_UNEXPECTED)
        return MU_FAIL(err, MU_EBACKEND, "learner %d (incarnation %u) was refused: it has been replaced",
                       l->role->index, l->client.incarnation);
    return MU_OK;
}

// ---- life of a learner ----

static mu_status set_up(learner *l, mu_err *err) {
    mu_session *s = l->role->session;
    mu_shared *g = l->shared;
    MU_TRY(mu_net_ready(s->train.net, mu_device_cpu(), err));
    mu_worker_init(&l->w, s);
    if (g->setup->weights == MU_WEIGHTS_COPY) {
        l->copy = mu_alloc_block(g->head->count * sizeof(float), "learner/weights");
        if (!l->copy) return MU_FAIL_NOMEM(err, "a copy of the weights");
        mu_params_rebase(s->params, l->copy, g->history);
    }
    bool beside = g->setup->server == MU_SERVER_BESIDE && !mu_shared_uses_own(g);
    if (beside) MU_TRY(mu_server_init(&l->server, g, l->role->index, mu_role_pace, l->role, err));
    MU_TRY(mu_client_init(&l->client, g, l->role->index, beside ? &l->server : NULL, l->copy, err));
    MU_TRY(mu_shared_uses_own(g) ? use_own_blocks(l, err) : own_stats(l, err));
    mu_source_set_lease(s->train.source, next_samples, l);
    return mu_source_start(s->train.source, err);
}

static mu_status live(learner *l, mu_err *err) {
    MU_TRY(set_up(l, err));
    atomic_store(&l->row->first_pulse_ns, mu_clock_ns());
    mu_client_pulse(&l->client);
    for (bool ended = false; !ended;) MU_TRY(one_gradient(l, &ended, err));
    mu_client_drain(&l->client);
    return MU_OK;
}

int mu_learner_main(void *ctx) {
    mu_role *role = ctx;
    mu_shared g = *role->shared; // with a sign of life of its own
    learner l = {.role = role, .shared = &g, .row = &g.learner[role->index]};
    g.pulse = &l.row->pulse;
    g.self = (int32_t)getpid();
    atomic_store(&l.row->pid, g.self); // the parent does the same, perhaps later
    mu_failpoints_arm("learner");
    if (g.setup->pin) (void)mu_cores_pin(role->index);
    mu_err err;
    mu_err_clear(&err);
    mu_status st = live(&l, &err);
    mu_source_stop(role->session->train.source); // its thread is joined, not left to the end of the process
    atomic_store_explicit(&l.row->doing, MU_DOING_NOTHING, memory_order_relaxed);
    l.row->error = err;
    atomic_store(st == MU_OK ? &l.row->ended : &l.row->failed, st == MU_OK ? 1 : (int32_t)st);
    return st != MU_OK;
}

// ---- the server process ----

typedef struct server_thread {
    mu_shared  shared;            // with a sign of life of its own
    mu_server server;
    pthread_t id;
} server_thread;

static void *serve(void *ctx) {
    mu_server *s = ctx;
    mu_shared_head *h = s->shared->head;
    while (atomic_load(&h->state) != MU_RUN_ENDED) {
        uint32_t seen = mu_bell_read(&h->work);
        atomic_fetch_add_explicit(s->shared->pulse, 1, memory_order_relaxed);
        if (mu_server_turn(s) == MU_TURN_WORKED) continue;
        (void)mu_bell_wait(&h->work, seen, s->spin_ns, 20000000);
    }
    return NULL;
}

static mu_status start_threads(server_thread *t, int n, mu_role *role, mu_err *err) {
    mu_shared *g = role->shared;
    if (!t) return MU_FAIL_NOMEM(err, "the server");
    for (int i = 0; i < n; i++) {
        t[i].shared = *g;
        t[i].shared.self = (int32_t)getpid();
        t[i].shared.pulse = &g->executor[i].pulse;
        MU_TRY(mu_server_init(&t[i].server, &t[i].shared, i, mu_role_pace, role, err));
        t[i].server.spin_ns = mu_cores_count() > g->setup->learners ? 100000 : 0;
    }
    if (g->setup->pin) (void)mu_cores_pin(g->setup->learners);
    for (int i = 1; i < n; i++) {
        int e = pthread_create(&t[i].id, NULL, serve, &t[i].server);
        if (!e) continue;
        MU_FAIL(err, MU_EBACKEND, "cannot start thread %d of the server's %d: %s", i + 1, n, strerror(e));
        mu_err_hint(err, "Set `cluster.server_threads` lower, or raise the limit of threads (`ulimit -u`).");
        return MU_EBACKEND;
    }
    return MU_OK;
}

// An error ends the run. Threads that are at work already end with the process, as in a sudden death.
int mu_server_main(void *ctx) {
    mu_role *role = ctx;
    mu_shared_head *h = role->shared->head;
    int n = role->shared->setup->server_threads;
    server_thread *t = mu_alloc_array((size_t)n, sizeof *t, "server");
    mu_err err;
    mu_err_clear(&err);
    mu_failpoints_arm("server");
    mu_status st = start_threads(t, n, role, &err);
    if (st != MU_OK) {
        h->server_error = err;
        atomic_store(&h->server_failed, (int32_t)st);
        return 1;
    }
    (void)serve(&t[0].server);
    for (int i = 1; i < n; i++) (void)pthread_join(t[i].id, NULL);
    return 0;
}

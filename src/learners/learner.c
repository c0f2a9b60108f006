// SPDX-License-Identifier: Apache-2.0
// learner.c - see learner.h.
//
// A learner computes gradients and talks to the others through its client alone (ps/client.h): every layer's
// gradient goes into the client when its backward has ended, and at its end the client hands the whole over.
// Where the client says so (mu_client.writes) the worker's own fused step changes the weights instead.
#include "learners/learner.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "comm/cores.h"
#include "learners/evaluator.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct learner { // one process: a learner, or a worker of one
    mu_role   *role;
    int index, worker, workers; // the learner; which of its workers, and of how many
    mu_client *client;
    mu_worker  w;
    mu_lease   lease;                   // of the prefetch thread: batches left of it
    int32_t    lease_at;
    int64_t    n_read;                  // records, up to the last note
    mu_status  collected;               // the first failure of the gradient in hand, and why
    mu_err     collect_err;
} learner;

mu_step_rate mu_role_step_rate(void *ctx, int64_t version, int64_t samples) {
    const mu_role *r = ctx;
    mu_position at = mu_position_at(r->session, r->begin, mu_stripe_level(&r->stripe, samples));
    if (r->shared) at.time_share = atomic_load_explicit(&r->shared->head->time_share, memory_order_relaxed);
    const mu_update_place place = {r->begin, version,
                                   r->shared && version == atomic_load(&r->shared->head->phase_version)};
    return mu_update_rate_at(r->session, &place, &at, r->end);
}

// ---- samples: the prefetch thread ----

static bool source_stops(void *source) { return mu_source_stopping(source); }
static bool never_stops(MU_UNUSED void *unused) { return false; }

// False: the source stops before it is known.
static bool sample_of(const mu_role *r, int64_t number, bool (*stops)(void *), int64_t *out) {
    if (r->deal) return mu_deal_sample(r->deal, number, stops, r->session->train.source, out);
    *out = mu_stripe_sample(&r->stripe, number);
    return true;
}

static bool next_samples(void *ctx, int64_t *first, int64_t *rows) {
    learner *l = ctx;
    if (l->lease_at == l->lease.batches) {
        mu_source *source = l->role->session->train.source;
        if (!l->client->class->lease(l->client, &l->lease, source_stops, source)) return false;
        l->lease_at = 0;
    }
    const int64_t number = l->lease.first + l->lease_at * l->lease.stride;
    if (!sample_of(l->role, number, source_stops, first)) return false;
    *rows = mu_lease_rows(&l->lease, l->lease_at);
    l->lease_at++;
    return true;
}

// ---- layers ----

// Layers cannot fail here, so the gradient goes on and is thrown away afterwards.
static void before_forward(void *ctx, mu_layer *layer) {
    learner *l = ctx;
    l->client->class->pulse(l->client);
    mu_failpoint("learner/forward");
    for (int i = 0; i < layer->n_param && l->collected == MU_OK; i++)
        l->collected = l->client->class->collect(
            l->client, layer->param[i]->index, &l->collect_err);
}

static void pulse_after_backward(void *ctx, MU_UNUSED mu_layer *layer) {
    learner *l = ctx;
    l->client->class->pulse(l->client);
    mu_failpoint("learner/backward");
}

static void after_backward(void *ctx, mu_layer *layer) {
    learner *l = ctx;
    pulse_after_backward(ctx, layer);
    for (int i = 0; i < layer->n_param; i++) {
        mu_param *p = layer->param[i];
        if (!mu_grad_done_in_layer(p)) continue;
        mu_worker_check_finite(&l->w, p);
        l->client->class->push(l->client, p->index, p);
    }
}

static void push_rest(learner *l) {
    for (int i = 0; i < l->w.params->n; i++)
        if (!mu_grad_done_in_layer(l->w.params->list[i]))
            l->client->class->push(l->client, i, l->w.params->list[i]);
}

// ---- one gradient ----

// With momentum, gradients of old weights make a training diverge at a rate that is right for one learner.
static void hint_stale(const learner *l, mu_err *err) {
    const mu_setup *p = &l->role->session->setup;
    const mu_setup_phase *f = &p->phase[atomic_load(&l->role->shared->head->phase)];
    if (mu_shared_is_in_step(l->role->shared, l->client->grant.version + 1)) return; // its update
    err->hint[0] = '\0';
    mu_err_hint(err,
                "Gradients of %s are about %g updates old: set a longer `cluster.warm_start`, choose a "
                "protocol with less staleness, or lower `updater.rate`.",
                mu_protocol_at(f->protocol)->name, f->expected_staleness);
}

// How many updates have gone through the history of a learner that has one of its own.
static int64_t updates_of_own(const learner *l) {
    const mu_shared_head *h = l->role->shared->head;
    const int64_t behind = l->client->grant.version - h->warm_end;
    return behind > 0 ? h->warm_end + behind / h->n_learners : l->client->grant.version;
}

static mu_status compute(learner *l, float *scale, mu_err *err) {
    mu_worker *w = &l->w;
    const mu_grant *g = &l->client->grant;
    const bool writes = l->client->writes;
    const mu_step_hooks hooks = {.ctx = l, .before_forward = before_forward,
                                 .after_backward = writes ? pulse_after_backward : after_backward};
    w->at.step = writes ? updates_of_own(l) : g->step; // the rule's counter; else it is for messages
    w->step_rate = l->client->step_rate;
    mu_step s = {.phase = MU_TRAIN,
                 .step = g->step,
                 .global_rows = g->global_rows,
                 .sink = writes && w->fused ? &w->sink : NULL,
                 .hooks = &hooks};
    l->collected = MU_OK;
    mu_err_clear(&l->collect_err);
    int64_t first;
    (void)sample_of(l->role, g->first, never_stops, &first); // it was read ahead
    const mu_status st = mu_worker_gradient(w, &s, first, scale, err);
    l->client->class->computed(l->client);
    if (l->collected != MU_OK) {
        *err = l->collect_err;
        return l->collected;
    }
    if (st == MU_OK && writes) mu_worker_apply(w, *scale);
    return st;
}

// What happens to a gradient that is not finite: by the job's policy the learner ends, or the update it is
// part of is skipped.
static mu_status bad_gradient(learner *l, mu_err *err) {
    if (!mu_worker_may_skip(&l->w)) return MU_EDIVERGED;
    mu_warn("learner %d: gradient skipped: %s", mu_shared_number(l->role->shared, l->index), err->msg);
    mu_err_clear(err);
    return MU_OK;
}

// compute, and how long it took: waiting for samples or weights, and updates that were applied meanwhile, are
// not computing.
static mu_status compute_timed(learner *l, float *scale, mu_gradient_note *n, mu_err *err) {
    const mu_client *c = l->client;
    const int64_t began = mu_clock_ns(), other = c->waited_ns + c->applied_ns, bridged = c->bridged_ns;
    const double waited_s = l->w.wait_s;
    const uint64_t sent = mu_partition_bytes_sent(l->w.net);
    const struct timespec slow = {c->slow_us / 1000000, c->slow_us % 1000000 * 1000L};
    if (c->slow_us > 0) nanosleep(&slow, NULL);
    const mu_status st = compute(l, scale, err);
    n->bridge_ns = c->bridged_ns - bridged;
    n->wait_ns = (int64_t)(1e9 * (l->w.wait_s - waited_s)) + n->bridge_ns;
    n->compute_ns = mu_clock_ns() - began - n->wait_ns - (c->waited_ns + c->applied_ns - other);
    n->rows = l->worker == 0 ? c->grant.rows : 0; // others work on the same ones
    const int64_t n_read = mu_source_get_stats(l->role->session->train.source).n_read;
    n->records = n_read - l->n_read;
    l->n_read = n_read;
    n->sent = mu_partition_bytes_sent(l->w.net) - sent;
    n->has_loss = l->workers == 1 || l->w.loss_weight > 0;
    n->loss = l->w.loss;
    n->accuracy = l->w.accuracy;
    return st;
}

static mu_status one_gradient(learner *l, bool *ended, mu_err *err) {
    mu_client *c = l->client;
    mu_answer answer;
    MU_TRY(c->class->begin(c, &answer, err));
    *ended = answer == MU_END;
    if (*ended) return MU_OK;
    c->class->show(c, MU_DOING_COMPUTE);
    float scale = 1;
    mu_gradient_note n;
    mu_status st = compute_timed(l, &scale, &n, err);
    bool bad = st == MU_EDIVERGED;
    if (bad) hint_stale(l, err);
    if (bad) MU_TRY(bad_gradient(l, err));
    else if (st != MU_OK) return st;
    else l->w.bad_in_row = 0;
    if (!bad) push_rest(l);
    c->class->note(c, &n);
    c->class->show(c, MU_DOING_APPLY);
    c->loss = l->w.loss;
    mu_push_result r;
    MU_TRY(c->class->end(c, bad, scale, &r, err));
    if (r == MU_FENCED || r == MU_UNEXPECTED)
        return MU_FAIL(err, MU_EBACKEND, "learner %d (incarnation %u) was refused: it has been replaced",
                       mu_shared_number(l->role->shared, c->learner), c->incarnation);
    return MU_OK;
}

// ---- life of a learner ----

// A worker has a net of its own, and pieces of the parameters, whose blocks are those of its server group.
static mu_status set_up_net(learner *l, mu_err *err) {
    mu_session *s = l->role->session;
    mu_params_rebase(s->params, l->role->shared->weights, l->role->shared->history);
    mu_net *net = s->partition ? s->worker_net[l->worker] : s->train.net;
    MU_TRY(mu_net_ready(net, mu_device_cpu(), err));
    mu_worker_init(&l->w, s);
    l->w.net = net;
    l->w.params = net->params;
    return MU_OK;
}

static mu_status set_up(learner *l, mu_shared_client *c, mu_shared *g, mu_err *err) {
    mu_session *s = l->role->session;
    MU_TRY(set_up_net(l, err));
    l->w.facts = &((mu_learners_room *)g->extra)->facts;
    MU_TRY(mu_shared_client_open(c,
                                 &(mu_shared_client_opts){.shared = g,
                                                          .learner = l->index,
                                                          .worker = l->worker,
                                                          .params = l->w.params,
                                                          .rate_at = mu_role_step_rate,
                                                          .rate_ctx = l->role},
                                 err));
    l->client = &c->base;
    if (s->partition) {
        const mu_extent rows = mu_partition_rows(s->partition, l->worker);
        mu_source_set_rows(s->train.source, rows.begin, rows.end);
        MU_TRY(mu_workers_connect(c, l->w.net, err));
    }
    mu_source_set_lease(s->train.source, next_samples, l);
    l->n_read = mu_source_get_stats(s->train.source).n_read;
    return mu_source_start(s->train.source, err);
}

static mu_status live(learner *l, mu_err *err) {
    l->client->class->pulse(l->client);
    for (bool ended = false; !ended;) MU_TRY(one_gradient(l, &ended, err));
    l->client->class->drain(l->client);
    return MU_OK;
}

int mu_learner_main(void *ctx) {
    mu_role *role = ctx;
    mu_shared g = *role->shared; // with a sign of life of its own
    mu_shared_learner *row = &g.learner[role->index];
    const int workers = g.head->n_workers;
    learner l = {
        .role = role, .index = role->index / workers, .worker = role->index % workers, .workers = workers};
    mu_shared_client c;
    g.pulse = &row->pulse;
    g.self = (int32_t)getpid();
    atomic_store(&row->pid, g.self); // the parent does the same, perhaps later
    mu_failpoints_arm("learner");
    if (g.setup->pin) (void)mu_cores_pin(role->first + role->index);
    mu_err err = {0};
    mu_status st = set_up(&l, &c, &g, &err);
    atomic_store(&row->first_pulse_ns, mu_clock_ns());
    if (st == MU_OK) st = live(&l, &err);
    mu_source_stop(role->session->train.source); // its thread is joined, not left to the end of the process
    atomic_store_explicit(&row->doing, MU_DOING_NOTHING, memory_order_relaxed);
    row->error = err;
    atomic_store(st == MU_OK ? &row->ended : &row->failed, st == MU_OK ? 1 : (int32_t)st);
    if (st != MU_OK) mu_workers_give_up(&g, l.index, l.worker); // last: the error is there by then
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
    const int first = g->head->n_processes; // executors below are the learners themselves
    if (!t) return MU_FAIL_NOMEM(err, "the server");
    for (int i = 0; i < n; i++) {
        t[i].shared = *g;
        t[i].shared.self = (int32_t)getpid();
        t[i].shared.pulse = &g->executor[first + i].pulse;
        MU_TRY(mu_server_init(&t[i].server, &t[i].shared, first + i, mu_role_step_rate, role, err));
        t[i].server.spin_ns = mu_cores_count() > first * g->head->n_groups ? 100000 : 0;
    }
    const int all = g->head->n_processes * g->head->n_groups; // behind the learners of all groups
    if (g->setup->pin) (void)mu_cores_pin(all + g->head->group);
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
    mu_err err = {0};
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

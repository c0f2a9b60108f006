// SPDX-License-Identifier: Apache-2.0
// server_group.c - see server_group.h.
#include "learners/server_group.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "ps/moved.h"
#include "store/live.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- the beginning ----

// Leases are large enough that small batches do not take the lock for each, and small enough that in a short
// run no learner holds what others should do. In the long run each learner does one gradient a step.
static void set_leases(mu_core_config *cfg, double steps) {
    int64_t batches = cfg->rows >= 64 ? 1 : 64 / cfg->rows < 16 ? 64 / cfg->rows : 16;
    if ((double)batches > steps / 32) batches = (int64_t)(steps / 32);
    cfg->lease_batches = batches < 1 ? 1 : (int32_t)batches;
    double most = steps / 4 / cfg->lease_batches;
    cfg->max_leases = most < 2 ? 2 : most > MU_CORE_LEASES ? MU_CORE_LEASES : (int32_t)most;
}

// Rank 0 deals the samples, and says when there are no more.
static bool is_dealt(const mu_server_group *g) { return g->setup.server == MU_SERVER_RANK_0; }

static mu_core_config config_of(const mu_server_group *g) {
    const mu_setup *p = &g->setup;
    const mu_position *at = &g->begin;
    const double end_steps = g->t->end.steps;
    mu_core_config cfg = {
        .learners = p->learners,
        .scale_free = p->stale.scale_free,
        .n_phases = p->n_phases,
        .longest_run = MU_CORE_RUN,
        .global_batch = p->global_batch,
        .rows = p->rows,
        .first_version = at->step + at->extra_updates,
        .first_sample = at->samples,
        .end_sample = is_dealt(g) ? INT64_MAX : mu_stripe_count(&g->stripe, mu_end_sample(g->t->s, at)),
        .warm_versions = p->warm_versions > at->step ? p->warm_versions - at->step : 0,
    };
    for (int i = 0; i < p->n_phases; i++) {
        const mu_setup_phase *f = &p->phase[i];
        const int64_t until = mu_stripe_count(&g->stripe, f->until);
        cfg.phase[i] = (mu_core_phase){until, f->protocol, f->splits, f->bound, f->own,
                                       (int32_t)f->rate_rule, mu_stale_gradient_scale(&f->stale)};
    }
    cfg.protocol = cfg.phase[0].protocol; // those that are all in step have one
    set_leases(&cfg, end_steps > 0 ? end_steps - (double)at->step : INFINITY);
    return cfg;
}

static mu_status create_shared(mu_server_group *g, const mu_server_group_opts *o, mu_err *err) {
    mu_training *t = g->t;
    const mu_core_config cfg = config_of(g);
    const mu_shared_opts s = {
        .run_id = o->run_id,
        .job_name = t->s->job->name,
        .run_dir = t->dir.path,
        .setup = &g->setup,
        .core = &cfg,
        .params = t->s->params,
        .first = o->first ? &o->first->shared : NULL,
        .group = o->index,
        .n_groups = o->of,
        .n_ranks = mu_setup_nodes(&t->s->setup),
        .partition = t->s->partition,
        .worker_net = t->s->worker_net,
        .updater = t->s->updater,
        .n_records = mu_source_n_records(t->s->train.source),
        .end_steps = (int64_t)t->end.steps,
        .end_epochs = t->end.epochs,
        .extra_bytes = sizeof(mu_learners_room),
        .record = t->o->record != NULL,
    };
    MU_TRY(mu_shared_create(&s, &g->shared, err));
    mu_shared_head *h = g->shared.head;
    atomic_store(&h->parent_pid, (int32_t)getpid());
    atomic_store(&h->rate, mu_effective_rate_at(t->s, &g->begin, &t->end));
    atomic_store(&h->time_share, g->begin.time_share);
    mu_learners_room *room = g->shared.extra;
    mu_facts_begin(&room->facts, t->s);
    if (is_dealt(g)) mu_deal_begin(&room->deal, g->begin.samples, g->setup.global_batch);
    return MU_OK;
}

mu_status mu_server_group_open(mu_server_group *g, const mu_server_group_opts *o, mu_err *err) {
    const mu_setup setup = mu_setup_of_group(&o->training->s->setup);
    *g = (mu_server_group){.t = o->training,
                           .setup = setup,
                           .begin = o->training->at,
                           .shared.region.fd = -1,
                           .halt = INT64_MAX};
    const mu_setup *all = &o->training->s->setup;
    g->stripe = (mu_stripe){g->begin.samples, setup.global_batch, mu_setup_first_group(all) + o->index,
                            all->server_groups};
    const int own = mu_setup_own_processes(&setup);
    g->first_process = o->before_on_host * o->of * own - mu_setup_first_process(&setup);
    g->open = mu_alloc_array((size_t)mu_core_most_open(setup.learners), sizeof *g->open, "learners");
    if (!g->open) return MU_FAIL_NOMEM(err, "the list of open samples");
    g->point.open = g->open;
    MU_TRY(create_shared(g, o, err));
    g->opened = true;
    return MU_OK;
}

mu_status mu_server_group_start(mu_server_group *g, bool hold, struct mu_merge_blocks *center, mu_err *err) {
    mu_training *t = g->t;
    const mu_shared_head *h = g->shared.head;
    const mu_evaluator_role evaluator = {.session = t->s,
                                         .shared = &g->shared,
                                         .ckpt_dir = t->o->no_files ? "" : t->ckpt_dir,
                                         .center = center};
    const mu_role role = {.session = t->s,
                          .shared = &g->shared,
                          .begin = &g->begin,
                          .end = &t->end,
                          .stripe = g->stripe,
                          .deal = is_dealt(g) ? &((mu_learners_room *)g->shared.extra)->deal : NULL,
                          .first = g->first_process + h->group * h->n_processes};
    const bool evaluates = !h->group && !t->follows;
    if (hold) mu_server_group_pause(g, true);
    g->started = true;
    MU_TRY(mu_watchdog_start(&g->dog, t, &role, evaluates ? &evaluator : NULL, err));
    atomic_store(&g->shared.head->state, MU_RUN_TRAINING);
    return MU_OK;
}

// ---- while it trains ----

void mu_server_group_pause(mu_server_group *g, bool on) {
    g->pausing = on;
    mu_server_pause(&g->shared, on);
}

bool mu_server_group_end(mu_server_group *g) {
    mu_core *core = mu_shared_begin(&g->shared);
    if (!core) return false;
    mu_core_set_halt(core, INT64_MAX);
    mu_core_stop(core);
    mu_shared_commit(&g->shared);
    g->halt = INT64_MAX;
    atomic_store(&g->shared.head->state, MU_RUN_ENDING);
    mu_shared_ring_all(&g->shared);
    return true;
}

void mu_server_group_add(mu_server_group *g, mu_advance *sum) {
    const mu_shared_head *h = g->shared.head;
    mu_advance now = {0};
    for (int i = 0; i < h->n_processes; i++) {
        const mu_shared_learner *l = &g->shared.learner[i];
        now.loss_sum += atomic_load(&l->loss_sum);
        now.accuracy_sum += atomic_load(&l->accuracy_sum);
        now.n += atomic_load(&l->loss_n);
        const bool far = mu_shared_is_far_process(&g->shared, i);
        sum->learners += i % h->n_workers == 0 && (far || atomic_load(&l->pid) != 0);
    }
    sum->loss_sum += now.loss_sum - g->seen.loss_sum;
    sum->accuracy_sum += now.accuracy_sum - g->seen.accuracy_sum;
    sum->n += now.n - g->seen.n;
    g->seen = now;
}

// ---- the end ----

static mu_status lock_is_lost(mu_err *err) {
    return MU_FAIL(err, MU_EBACKEND,
                   "the lock of the protocol is held, but no process that could hold it lives");
}

mu_status mu_server_group_drain(mu_server_group *g, void (*between)(void *), void *ctx, mu_err *err) {
    mu_shared *s = &g->shared;
    mu_role role = {
        .session = g->t->s, .shared = s, .begin = &g->begin, .end = &g->t->end, .stripe = g->stripe};
    mu_server server;
    mu_server_group_pause(g, false);
    for (int i = 0; i < s->head->n_executors; i++) mu_server_repair(s, i);
    for (int i = 0; i < s->head->n_processes; i++) mu_rwlock_clear(s->rw, i);
    if (!mu_server_set_halt(s, INT64_MAX))
        return lock_is_lost(err);
    MU_TRY(mu_server_init(&server, s, 0, mu_role_step_rate, &role, err));
    server.look_ns = 0;
    do between(ctx);
    while (mu_server_turn(&server) == MU_TURN_WORKED);
    mu_server_fini(&server);
    return MU_OK;
}

mu_status mu_server_group_settle(mu_server_group *g, int64_t *used, mu_err *err) {
    const mu_core *core = mu_shared_begin(&g->shared);
    if (!core) return lock_is_lost(err);
    mu_server_read_point(core, &g->point);
    *used = core->samples_applied + core->samples_rejected;
    mu_shared_cancel(&g->shared);
    return MU_OK;
}

static void add_staleness(const mu_shared *g, double *sum, double *n, mu_learners_result *r) {
    for (int i = 0; i < g->head->n_processes; i++) {
        const mu_shared_learner *l = &g->learner[i];
        if (mu_shared_is_far_process(g, i)) continue; // its own rank counts that
        *sum += (double)atomic_load(&l->stale_sum);
        *n += (double)atomic_load(&l->n_stale);
        int64_t most = atomic_load(&l->stale_max);
        if (most > r->staleness_max) r->staleness_max = most;
        for (int b = 0; b < MU_STALENESS_BINS; b++) {
            r->staleness_hist[b] += atomic_load(&l->stale_hist[b]);
            if (r->staleness_hist[b] && b >= r->most_staleness) r->most_staleness = b + 1;
        }
        r->records_read += atomic_load(&l->records);
        r->compute_s += 1e-9 * (double)atomic_load(&l->compute_ns);
        r->wait_s += 1e-9 * (double)atomic_load(&l->wait_ns);
        r->apply_s += 1e-9 * (double)atomic_load(&l->apply_ns);
    }
}

static void add_ledger(const mu_server_group *g, const mu_core *core, mu_learners_result *r) {
    const mu_shared_head *h = g->shared.head;
    // A learner on several ranks is counted where its first worker is.
    const bool elsewhere = mu_shared_first_worker(&g->shared) > 0;
    const mu_ledger ledger = mu_core_ledger_of(core, h->own_first, elsewhere ? 0 : h->own_n);
    r->versions += core->version - core->config.first_version;
    r->produced += ledger.produced;
    r->applied += ledger.applied;
    r->rejected += ledger.rejected;
    r->lost += ledger.lost;
    r->learners_lost += g->dog.lost;
    r->learners_replaced += g->dog.replaced;
    r->server_lost += g->dog.server_lost;
    r->lock_repairs += atomic_load(&h->lock_repairs);
    r->torn_updates += atomic_load(&h->torn_updates);
    r->merges += atomic_load(&h->merges);
    r->merged_bytes += atomic_load(&h->merged_bytes);
    g->t->ps.skipped += atomic_load(&h->skipped_updates);
    mu_traffic moved;
    r->counts_moved &= mu_moved(&g->shared, &moved);
    if (r->counts_moved) mu_traffic_add(&r->moved, &moved);
}

mu_status mu_server_group_sum_up(mu_server_group *g, mu_learners_result *r, mu_err *err) {
    mu_core *core = mu_shared_begin(&g->shared);
    if (!core) return lock_is_lost(err);
    mu_core_abandon(core); // what still waits counts as rejected, what was computed as lost
    char why[160];
    const bool sound = mu_core_check(core, why, sizeof why);
    add_ledger(g, core, r);
    mu_shared_cancel(&g->shared);
    double sum = r->staleness_mean * r->n_stale, n = r->n_stale;
    add_staleness(&g->shared, &sum, &n, r);
    r->n_stale = n;
    r->staleness_mean = n > 0 ? sum / n : 0;
    r->overlap = mu_overlap(r->compute_s, r->wait_s);
    r->rate_effective = atomic_load(&g->shared.head->rate);
    r->replace_p50_s = fmax(r->replace_p50_s, mu_watchdog_replace_s(&g->dog, 0.5)); // fmax passes over NaN
    r->replace_p99_s = fmax(r->replace_p99_s, mu_watchdog_replace_s(&g->dog, 0.99));
    if (!sound) return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance: %s", why);
    if (r->produced != r->applied + r->rejected + r->lost)
        return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance: %lld produced, %lld + %lld + %lld",
                       (long long)r->produced, (long long)r->applied, (long long)r->rejected,
                       (long long)r->lost);
    return MU_OK;
}

void mu_server_group_close(mu_server_group *g) {
    mu_watchdog_destroy(&g->dog);
    if (g->shared.region.base) mu_shared_release(&g->shared);
    mu_free(g->open);
    g->open = NULL;
}

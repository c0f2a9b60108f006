// SPDX-License-Identifier: Apache-2.0
// test_ps_threads.c - a whole group as threads of one process: learners, their prefetch threads, server
// threads and a parent that pauses, takes snapshots and replaces learners that were lost in the middle of a
// gradient.
//
// A run of processes cannot be watched by ThreadSanitizer; this one can (`make tsan T=ps_threads`), and it
// goes through the same functions over the same region. Gradients are made up: a function of learner and
// step. Which of them an update took is written down under the group's lock (the journal; for mirrors, where
// the rate is asked), so afterwards a sequential oracle repeats the run, whatever its order was. Compared bit
// for bit: the weights and histories at the end, in each snapshot, and those that each gradient was computed
// on.
//
// Left out of the comparison, and so of the instrumented part, is what races by design: hogwild's writes, and
// learners that read weights in place while an asynchronous update is applied. Hogwild's books are checked.
#include "unit/threads_help.h"

#include "base/clock.h"

#include <pthread.h>
#include <time.h>

enum {
    LEARNERS = 4,
    WORKERS = 3,
    MAX_STEPS = 400, // of a learner
    MAX_UPDATES = LEARNERS * MAX_STEPS,
    SNAPSHOTS = 12,
    FIRST_VERSION = 7, // as of a resumed run
    SLOW_STEP = 10,
};

typedef struct sight {
    int64_t version;
    uint64_t hash;
} sight; // weights a gradient was computed on

typedef struct world {
    const variant *v;
    mu_setup setup;
    params blocks;
    bound updater;
    mu_shared shared;
    struct body *body;
    taken order[MAX_UPDATES];
    int n_order;
    sight seen[LEARNERS][MAX_STEPS];
    block_set snapshot[SNAPSHOTS], start;
    int64_t snapshot_version[SNAPSHOTS];
    int n_snapshots;
    _Atomic int ended;
} world;

typedef struct body { // one learner, or a worker of one
    world *w;
    int process, learner, worker;
    mu_shared shared;
    params own;
    mu_shared_client client;
    int64_t die_at; // its step; -1 = lives
    pthread_t thread, prefetch;
    _Atomic int stop, gone; // gone: 1 lost, 2 ended
    char why[200];
} body;

static int group_of(const world *w) { return w->v->learners / w->setup.splits; }

// Of a gradient, divided by the mean staleness: n, but more where learners keep their weights for longer.
static float mean_weight(const world *w) {
    return 1.0f / (float)group_of(w) / (float)w->setup.splits / (0.5f * (float)(1 + w->setup.own));
}

// ---- learners ----

static mu_step_rate server_rate(void *ctx, int64_t version, int64_t samples) {
    (void)ctx, (void)samples;
    return (mu_step_rate){.rate = rate_of(version)};
}

static bool mirrors(const world *w) { return w->setup.protocol->exchange == &mu_mirror_exchange; }
static bool is_hogwild(const world *w) { return w->setup.protocol->exchange && !mirrors(w); }
static bool in_step(const world *w) { return w->shared.head->sync_end == INT64_MAX; }

// The learner's mirror, once it has one.
static const mu_mirror *mirror_of(const body *b) {
    return b->client.exchange == &mu_mirror_exchange ? b->client.exchange_state : NULL;
}

// For mirrors asked under the lock: this push makes version + 1.
static mu_step_rate client_rate(void *ctx, int64_t version, int64_t samples) {
    body *b = ctx;
    world *w = b->w;
    const mu_mirror *m = mirror_of(b);
    const int64_t step = b->client.base.grant.step;
    (void)samples;
    if (m && w->n_order < MAX_UPDATES)
        w->order[w->n_order++] = (taken){.learner = b->learner,
                                         .step = step, .version = m->target, .made = version + 1,
                                         .bad = is_bad(b->learner, step), .weight = mean_weight(w),
                                         .rate = rate_of(version)};
    return (mu_step_rate){.rate = rate_of(version)};
}

static bool prefetch_stops(void *ctx) { return atomic_load(&((body *)ctx)->stop); }

static void *prefetch(void *ctx) {
    body *b = ctx;
    mu_lease lease;
    mu_client *c = &b->client.base;
    while (c->class->lease(c, &lease, prefetch_stops, b)) {}
    return NULL;
}

static void look_at_weights(body *b) {
    world *w = b->w;
    const mu_shared_client *c = &b->client;
    const mu_grant *g = &c->base.grant;
    const mu_mirror *m = mirror_of(b);
    if (g->step >= MAX_STEPS || b->worker) return;
    sight *s = &w->seen[b->learner][g->step];
    if (c->copy) *s = (sight){c->copy_version, hash_of(&b->own, c->copy)};
    else if (m) *s = (sight){m->target, hash_of(&b->own, m->view.value)};
    else if (in_step(w) || mirrors(w)) *s = (sight){g->version, hash_of(&b->own, b->shared.weights)};
}

static int n_processes(const world *w) { return w->v->learners * w->v->workers; }

// Workers give different parts. What is bad is so in the last one's.
static int maker(int learner, int worker) { return learner + 10 * worker; }
static bool has_bad_part(const body *b, int64_t step) {
    return b->worker == b->w->v->workers - 1 && is_bad(b->learner, step);
}

// True: it was lost in the middle.
static bool one_gradient(body *b) {
    mu_client *c = &b->client.base;
    mu_err err = {0};
    const int64_t step = c->grant.step;
    const bool bad = has_bad_part(b, step), dies = step == b->die_at;
    c->class->show(c, MU_DOING_COMPUTE);
    for (int i = 0; i < (dies ? N_PARAMS / 2 : N_PARAMS); i++)
        if (c->class->collect(c, i, &err) != MU_OK) snprintf(b->why, sizeof b->why, "%.190s", err.msg);
    if (!dies) c->class->computed(c);
    if (!dies) look_at_weights(b);
    if (step == SLOW_STEP && b->learner == b->w->v->learners - 1) pulse_for(c, b->w->v->slow);
    make_gradient(&b->own, maker(b->learner, b->worker), step);
    for (int i = 0; i < (dies ? N_PARAMS / 2 : N_PARAMS); i++) c->class->push(c, i, &b->own.p[i]);
    c->class->pulse(c);
    if (dies) return true;
    mu_push_result v = MU_UNEXPECTED;
    mu_status st = c->class->end(c, bad, 1, &v, &err);
    if (st != MU_OK || v != MU_ACCEPTED)
        snprintf(b->why, sizeof b->why, "step %lld: push result %d", (long long)step, (int)v);
    return false;
}

static mu_status body_start(body *b, mu_err *err) {
    const mu_shared_client_opts o = {
        .shared = &b->shared, .learner = b->learner, .worker = b->worker,
        .rate_at = client_rate, .rate_ctx = b};
    MU_TRY(mu_shared_client_open(&b->client, &o, err));
    if (pthread_create(&b->prefetch, NULL, prefetch, b)) return MU_FAIL(err, MU_EBACKEND, "no thread");
    return MU_OK;
}

// As the protocol told it to, or lost in the middle: true.
static mu_status work(body *b, bool *lost, mu_err *err) {
    mu_client *c = &b->client.base;
    for (mu_answer answer; !*lost;) {
        MU_TRY(c->class->begin(c, &answer, err));
        if (answer == MU_END) break;
        *lost = one_gradient(b);
    }
    if (!*lost) c->class->drain(c);
    return MU_OK;
}

static void *live(void *ctx) {
    body *b = ctx;
    mu_err err = {0};
    bool lost = false;
    mu_status s = body_start(b, &err);
    if (s == MU_OK) {
        s = work(b, &lost, &err);
        atomic_store(&b->stop, 1);
        pthread_join(b->prefetch, NULL);
    }
    if (s != MU_OK) snprintf(b->why, sizeof b->why, "%.190s", err.msg);
    mu_shared_client_close(&b->client);
    atomic_store(&b->gone, lost ? 1 : 2);
    mu_bell_ring(&b->shared.head->parent);
    return NULL;
}

static void body_launch(body *b) {
    world *w = b->w;
    b->shared = w->shared;
    b->shared.pulse = &w->shared.learner[b->process].pulse;
    b->client = (mu_shared_client){0};
    atomic_store(&b->stop, 0);
    atomic_store(&b->gone, 0);
    atomic_store(&w->shared.learner[b->process].pid, 1);
    assert_int_equal(pthread_create(&b->thread, NULL, live, b), 0);
}

// ---- the server's threads ----

typedef struct servant {
    world *w;
    mu_shared shared;
    mu_server server;
    pthread_t thread;
} servant;

static void *serve(void *ctx) {
    servant *s = ctx;
    mu_shared_head *h = s->shared.head;
    while (atomic_load(&h->state) != MU_RUN_ENDED) {
        uint32_t seen = mu_bell_read(&h->work);
        atomic_fetch_add(s->shared.pulse, 1);
        if (mu_server_turn(&s->server) == MU_TURN_IDLE) (void)mu_bell_wait(&h->work, seen, 0, 20000000);
    }
    return NULL;
}

static servant *servants_start(world *w) {
    servant *s = calloc((size_t)w->v->threads + 1, sizeof *s);
    assert_non_null(s);
    for (int i = 0; i < w->v->threads; i++) {
        mu_err err = {0};
        s[i].shared = w->shared;
        const int executor = n_processes(w) + i;
        s[i].shared.pulse = &w->shared.executor[executor].pulse;
        if (mu_server_init(&s[i].server, &s[i].shared, executor, server_rate, NULL, &err) != MU_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(pthread_create(&s[i].thread, NULL, serve, &s[i]), 0);
    }
    return s;
}

static void servants_end(world *w, servant *s) {
    atomic_store(&w->shared.head->state, MU_RUN_ENDED);
    mu_shared_ring_all(&w->shared);
    for (int i = 0; i < w->v->threads; i++) {
        pthread_join(s[i].thread, NULL);
        mu_server_fini(&s[i].server);
    }
    free(s);
}

// ---- the parent ----

static void take_journal(world *w) {
    mu_journal *j = w->shared.journal;
    for (const mu_journal_entry *e; j && (e = mu_journal_peek(j)); mu_journal_take(j)) {
        assert_true(w->n_order < MAX_UPDATES);
        w->order[w->n_order++] = (taken){.learner = e->part.id.learner,
                                         .step = e->part.id.step, .version = e->part.id.version,
                                         .made = e->update.version, .bad = e->update.skip,
                                         .weight = e->part.weight, .rate = e->update.rate};
    }
}

// As the watchdog does it.
static void replace(body *b) {
    mu_shared *g = &b->w->shared;
    pthread_join(b->thread, NULL);
    atomic_store(&g->learner[b->learner].pid, 0);
    mu_shared_lost(g, b->learner);
    mu_core *c;
    while (!(c = mu_shared_begin(g))) {}
    mu_core_lost(c, b->learner);
    const int64_t step = mu_core_step(mu_core_learner_at(c, b->learner));
    mu_shared_commit(g);
    mu_shared_ring_all(g);
    const int64_t lives = b->w->v->steps / (b->w->v->deaths + 1);
    b->die_at = (step / lives + 1) * lives + first_death(b->w->v, b->learner) % lives;
    body_launch(b);
}

static bool look_at_learners(world *w) {
    int ended = 0;
    for (int i = 0; i < n_processes(w); i++) {
        const int gone = atomic_load(&w->body[i].gone);
        if (gone == 1) replace(&w->body[i]);
        ended += gone == 2;
        if (w->body[i].gone == 2) atomic_store(&w->shared.learner[i].pid, 0);
    }
    return ended == n_processes(w);
}

static void keep_snapshot(world *w, int64_t version) {
    if (w->n_snapshots == SNAPSHOTS) return;
    const block_set from = {w->shared.snapshot, {0}};
    block_set at = blocks_make(&w->blocks), all = from;
    for (int k = 0; k < w->blocks.ps.n_slots; k++) all.slot[k] = w->shared.snapshot_history[k];
    blocks_copy(&w->blocks, &all, &at);
    w->snapshot_version[w->n_snapshots] = version;
    w->snapshot[w->n_snapshots++] = at;
}

static void watch(world *w) {
    mu_shared *g = &w->shared;
    int64_t until = mu_clock_ns() + 60000000000, next = 0;
    mu_range open[LEARNERS * (MU_CORE_SLOTS + MU_CORE_LEASES)];
    mu_server_point point = {.open = open};
    bool paused = false;
    for (bool over = false; !over;) {
        uint32_t seen = mu_bell_read(&g->head->parent);
        take_journal(w);
        over = look_at_learners(w);
        if (!paused && mu_clock_ns() > next) mu_server_pause(g, true), paused = true;
        if (paused && mu_server_snapshot(g, &point)) {
            mu_server_pause(g, false);
            paused = false;
            next = mu_clock_ns() + 2000000 + 3000000 * w->n_snapshots;
            keep_snapshot(w, point.version);
        }
        if (mu_clock_ns() > until)
            fail_msg("%s: not over after 60 s at version %lld", w->v->name,
                     (long long)atomic_load(&g->head->version));
        (void)mu_bell_wait(&g->head->parent, seen, 0, paused ? 200000 : 1000000);
    }
    if (paused) mu_server_pause(g, false);
    for (int i = 0; i < n_processes(w); i++) pthread_join(w->body[i].thread, NULL);
}

// What lies in the queues when no learner is left is applied by the parent.
static void drain(world *w) {
    mu_err err = {0};
    mu_server s;
    if (mu_server_init(&s, &w->shared, 0, server_rate, NULL, &err) != MU_OK) fail_msg("%s", err.msg);
    s.look_ns = 0;
    do take_journal(w);
    while (mu_server_turn(&s) == MU_TURN_WORKED);
    mu_server_fini(&s);
    take_journal(w);
}

// ---- the oracle ----

static bool is_mirrored(const world *w, const taken *t) {
    return mirrors(w) && t->made > w->shared.head->warm_end;
}

static void oracle_update(const world *w, params *made, const taken *t, int n, const block_set *at) {
    const mu_grad *grad[LEARNERS * 4 * WORKERS] = {0};
    float weight[LEARNERS * 4 * WORKERS];
    const int workers = w->v->workers;
    for (int i = 0; i < N_PARAMS; i++) {
        int kept = 0;
        for (int j = 0; j < n * workers; j++) {
            const taken *of = &t[j / workers];
            if (of->bad) continue;
            make_gradient(&made[j], maker(of->learner, j % workers), of->step);
            grad[kept] = &made[j].p[i].grad;
            weight[kept++] = of->weight;
        }
        const mu_param *p = &w->blocks.p[i];
        mu_params view = w->blocks.ps;
        view.value = at->value;
        memcpy(view.slot, at->slot, sizeof view.slot);
        const mu_target target = mu_target_of(w->updater.u, &view, p);
        const int64_t warm_end = w->shared.head->warm_end,
                      before = t[n - 1].made - 1; // mirrors count updates
        const int64_t step = is_mirrored(w, &t[0]) ? warm_end + (before - warm_end) / group_of(w) : before;
        for (size_t e = 0; kept && p->is_stat && e < p->count; e++) {
            float sum = 0;
            for (int j = 0; j < kept; j++) sum += grad[j]->dense[e];
            target.value[e] = sum / (float)kept;
        }
        if (kept && !p->is_stat)
            mu_updater_apply(&target, &(mu_update){kept, grad, weight, t[n - 1].rate, {.update = step}});
    }
}

static void assert_same(const world *w, const block_set *got, const block_set *want, const char *what,
                        int64_t version) {
    for (int b = 0; b <= w->blocks.ps.n_slots; b++)
        for (int i = 0; i < N_PARAMS; i++)
            for (size_t e = w->blocks.p[i].offset; e < w->blocks.p[i].offset + w->blocks.p[i].count; e++) {
                const float x = b ? got->slot[b - 1][e] : got->value[e],
                            y = b ? want->slot[b - 1][e] : want->value[e];
                if (memcmp(&x, &y, sizeof x))
                    fail_msg("%s: %s at version %lld, block %d, `%s`: %.9g, oracle %.9g", w->v->name, what,
                             (long long)version, b, protos[i].name, (double)x, (double)y);
            }
}

static void check_snapshots(const world *w, const block_set *at, int64_t version) {
    for (int s = 0; s < w->n_snapshots; s++)
        if (w->snapshot_version[s] == version) assert_same(w, &w->snapshot[s], at, "a snapshot", version);
}

// Gradients of the next update: those of one version; of mirrors, so many as an update takes.
static int next_group(const world *w, int from) {
    const bool mirrored = is_mirrored(w, &w->order[from]);
    const int most = mirrored ? group_of(w) : LEARNERS * 4;
    int n = 0;
    for (int i = from; i < w->n_order && n < most; i++, n++) {
        if (mirrored) assert_int_equal(w->order[i].made, w->order[from].made + n);
        else if (w->order[i].made != w->order[from].made) break;
    }
    return n;
}

// A snapshot of mirrors in the middle of an update has applied what was there of it.
static void check_partial(const world *w, params *made, int from, int n, const block_set *at) {
    for (int k = 1; k < n; k++) {
        const int64_t version = w->order[from + k - 1].made;
        bool wanted = false;
        for (int s = 0; s < w->n_snapshots; s++) wanted |= w->snapshot_version[s] == version;
        if (!wanted) continue;
        block_set some = blocks_make(&w->blocks);
        blocks_copy(&w->blocks, at, &some);
        oracle_update(w, made, &w->order[from], k, &some);
        check_snapshots(w, &some, version);
        blocks_free(&some);
    }
}

static void check_order(const world *w, const taken *t, int n, uint64_t *hash) {
    const bool sync = in_step(w);
    if (sync) assert_int_equal(n, w->v->learners);
    for (int j = 0; j < n; j++) {
        if (sync && (t[j].learner != j || t[j].version != t[j].made - 1))
            fail_msg("%s: part %d of version %lld is learner %d on version %lld", w->v->name, j,
                     (long long)t[j].made, t[j].learner, (long long)t[j].version);
        const sight *s = &w->seen[t[j].learner][t[j].step];
        if (s->hash && (s->version < FIRST_VERSION || s->version >= t[j].made ||
                        s->hash != hash[s->version - FIRST_VERSION]))
            fail_msg("%s: gradient %lld of learner %d saw other weights than those of version %lld",
                     w->v->name, (long long)t[j].step, t[j].learner, (long long)s->version);
    }
}

static void check_against_oracle(world *w) {
    static params made[LEARNERS * 4 * WORKERS];
    uint64_t *hash = calloc(MAX_UPDATES + 1, sizeof *hash);
    block_set at = w->start, end = blocks_make(&w->blocks);
    assert_non_null(hash);
    for (int j = 0; j < LEARNERS * 4 * WORKERS; j++) params_init(&made[j], w->blocks.ps.n_slots);
    hash[0] = hash_of(&w->blocks, at.value);
    check_snapshots(w, &at, FIRST_VERSION);
    int64_t version = FIRST_VERSION;
    for (int i = 0, n; i < w->n_order; i += n) {
        n = next_group(w, i);
        check_order(w, &w->order[i], n, hash);
        assert_int_equal(w->order[i].made, version + 1);
        if (is_mirrored(w, &w->order[i])) check_partial(w, made, i, n, &at);
        bool skip = false; // a bad part spoils the whole update, except in mirrors
        for (int j = 0; j < n; j++) skip |= w->order[i + j].bad;
        if (!skip || is_mirrored(w, &w->order[i])) oracle_update(w, made, &w->order[i], n, &at);
        version = w->order[i + n - 1].made;
        hash[version - FIRST_VERSION] = hash_of(&w->blocks, at.value);
        check_snapshots(w, &at, version);
    }
    mu_shared_copy_out(&w->shared, end.value, end.slot);
    assert_same(w, &end, &at, "the end", version);
    assert_int_equal(atomic_load(&w->shared.head->version), version);
    for (int j = 0; j < LEARNERS * 4 * WORKERS; j++) params_fini(&made[j]);
    blocks_free(&end);
    free(hash);
}

// One learner waits for nobody, so it is known which of its gradients are of which version.
static void check_alone(const world *w) {
    for (int i = 0; i < w->n_order && w->v->learners == 1; i++)
        assert_int_equal(w->order[i].version, FIRST_VERSION + i - i % w->v->every);
}

// A mirror far behind, by all that came up to its gradient before, is brought up to date before its turn.
static void check_far_behind(const world *w) {
    const taken *last[LEARNERS] = {0};
    for (const taken *t = w->order; t < w->order + w->n_order; last[t->learner] = t, t++) {
        const taken *before = last[t->learner];
        if (!mirrors(w) || w->v->warm || !before || before->version < t->version) continue;
        const int64_t version = FIRST_VERSION + (before - w->order) + 1;
        assert_true(version - t->version < w->v->learners * MU_MIRROR_SLOTS / 2);
    }
}

static void check_books(world *w, int64_t samples) {
    mu_core *c = mu_shared_begin(&w->shared);
    char why[200];
    assert_non_null(c);
    if (!mu_core_check(c, why, sizeof why)) fail_msg("%s: %s", w->v->name, why);
    const mu_ledger l = mu_core_ledger(c);
    const int64_t lost = w->v->deaths ? l.lost : 0;
    if (l.produced != l.applied + lost || l.in_flight || l.rejected || mu_core_samples(c) != samples ||
        mu_core_cursor(c) != samples)
        fail_msg("%s: produced %lld, applied %lld, lost %lld, rejected %lld, in flight %lld; samples %lld, "
                 "cursor %lld, expected %lld",
                 w->v->name, (long long)l.produced, (long long)l.applied, (long long)l.lost,
                 (long long)l.rejected, (long long)l.in_flight, (long long)mu_core_samples(c),
                 (long long)mu_core_cursor(c), (long long)samples);
    if (w->v->deaths && !l.lost) fail_msg("%s: nobody was lost", w->v->name);
    if (!is_hogwild(w)) assert_int_equal(w->n_order, l.applied);
    mu_shared_cancel(&w->shared);
}

// ---- one variant ----

static void world_open(world *w, const variant *v, mu_core_config *core) {
    mu_err err = {0};
    const bool is_ssp = !strcmp(v->protocol, "ssp");
    const int32_t own = is_ssp ? v->bound : v->every, most_stale = is_ssp ? 0 : v->bound;
    *w = (world){.v = v};
    (void)bound_get(&w->updater, "{type: sgd, momentum: 0.9, decay: 0.001, rate: 0.01}");
    params_init(&w->blocks, w->updater.u->class->n_slots);
    w->start = blocks_make(&w->blocks);
    fill(w->start.value, w->blocks.ps.count, 3, 0.5f);
    block_set mine = blocks_make(&w->blocks);
    blocks_copy(&w->blocks, &w->start, &mine);
    mu_params_rebase(&w->blocks.ps, mine.value, mine.slot);
    w->setup = (mu_setup){
        .learners = v->learners, .workers = v->workers,
        .protocol = mu_protocol_at(mu_protocol_index(v->protocol)), .rows = 2,
        .global_batch = 2 * v->learners, .reference_batch = 2 * v->learners,
        .server = v->helped ? MU_SERVER_BOTH : v->threads ? MU_SERVER_PROCESS : MU_SERVER_BESIDE,
        .server_threads = v->threads, .weights = v->weights, .locks = v->locks,
        .rate_rule = MU_RATE_MEAN, .max_losses = 20, .hang_timeout = v->slow > 0 ? v->slow / 30 : 1,
        .warm_versions = v->warm, .splits = v->splits, .bound = most_stale, .own = own};
    *core = (mu_core_config){
        .learners = v->learners, .protocol = mu_protocol_index(v->protocol), .splits = v->splits,
        .bound = most_stale, .own = own, .rate_rule = MU_RATE_MEAN, .lease_batches = 2, .max_leases = 2,
        .longest_run = MU_CORE_RUN, .rows = 2, .global_batch = w->setup.global_batch,
        .first_version = FIRST_VERSION, .first_sample = 100,
        .end_sample = 100 + w->setup.global_batch * v->steps, .warm_versions = v->warm};
    mu_shared_opts o = {.run_id = "threads", .job_name = "threads", .setup = &w->setup, .core = core,
                       .params = &w->blocks.ps, .updater = w->updater.u, .n_records = 1000,
                       .record = !w->setup.protocol->exchange};
    if (mu_shared_create(&o, &w->shared, &err) != MU_OK) fail_msg("%s", err.msg);
    ask_for_pairs(&w->shared, v);
}

// Mirrors warmed up by hardsync: what that does is known before.
static void foresee_warm_start(world *w) {
    for (int64_t v = 0; mirrors(w) && v < w->v->warm; v++) {
        bool bad = false;
        for (int l = 0; l < w->v->learners; l++) bad |= is_bad(l, v);
        for (int l = 0; l < w->v->learners; l++)
            w->order[w->n_order++] = (taken){.learner = l,
                                             .bad = bad, .step = v, .version = FIRST_VERSION + v,
                                             .made = FIRST_VERSION + v + 1, .weight = 1,
                                             .rate = rate_of(FIRST_VERSION + v)};
    }
}

static void world_close(world *w) {
    block_set mine = {.value = w->shared.own_value};
    for (int k = 0; k < w->blocks.ps.n_slots; k++) mine.slot[k] = w->shared.own_slot[k];
    mu_shared_release(&w->shared);
    blocks_free(&mine);
    blocks_free(&w->start);
    for (int s = 0; s < w->n_snapshots; s++) blocks_free(&w->snapshot[s]);
    params_fini(&w->blocks);
    bound_fini(&w->updater);
}

static void run(const variant *v) {
    static world w;
    mu_core_config core;
    world_open(&w, v, &core);
    w.body = calloc((size_t)n_processes(&w), sizeof *w.body);
    assert_non_null(w.body);
    foresee_warm_start(&w);
    servant *servants = servants_start(&w);
    for (int i = 0; i < n_processes(&w); i++) {
        body *b = &w.body[i];
        *b = (body){.w = &w, .process = i, .learner = i / v->workers, .worker = i % v->workers,
                    .die_at = v->deaths ? first_death(v, i) : -1};
        params_init(&b->own, w.blocks.ps.n_slots);
        body_launch(b);
    }
    watch(&w);
    servants_end(&w, servants);
    drain(&w);
    for (int i = 0; i < n_processes(&w); i++)
        if (w.body[i].why[0]) fail_msg("%s: process %d: %s", v->name, i, w.body[i].why);
    check_books(&w, core.end_sample);
    check_alone(&w);
    check_far_behind(&w);
    // Mirrors that were all torn at once go on with what they have, and say so.
    const long long torn = (long long)atomic_load(&w.shared.head->torn_updates);
    if (!torn && !is_hogwild(&w)) check_against_oracle(&w);
    for (int i = 0; i < n_processes(&w); i++) params_fini(&w.body[i].own);
    free(w.body);
    printf("%s: %d gradients, %d snapshots, %lld torn mirrors\n", v->name, w.n_order, w.n_snapshots, torn);
    world_close(&w);
}

static void test_variant(void **state) { run(*state); }

int main(void) {
    struct CMUnitTest tests[MU_COUNT(variants)];
    for (size_t i = 0; i < MU_COUNT(variants); i++)
        tests[i] = (struct CMUnitTest){
            .name = variants[i].name, .test_func = test_variant, .initial_state = &variants[i]};
    return cmocka_run_group_tests_name("ps_threads", tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// test_ps_client.c - the client of shared memory where things do not go as they should: weights that never
// come, a lock that is held, gradients that are refused; and what it counts as waiting.
#include "unit/threads_help.h"

#include <pthread.h>
#include <unistd.h>

enum { LEARNERS = 2 };

typedef struct world {
    params blocks;
    bound updater;
    mu_setup setup;
    mu_shared shared;
    block_set mine;
    mu_shared_client client[LEARNERS];
} world;

static mu_step_rate rate_at(void *ctx, int64_t version, int64_t samples) {
    (void)ctx, (void)version, (void)samples;
    return (mu_step_rate){.rate = 0.01};
}

static int n_workers = 1; // of the learners of the next world; only the first ones live

// own: the set of learner 0, which computes on these weights; NULL = none, as the others have.
static void world_open_with(world *w, const char *protocol, mu_weights_mode weights, params *own) {
    mu_err err = {0};
    memset(w, 0, sizeof *w);
    (void)bound_get(&w->updater, "{type: sgd, momentum: 0.9, rate: 0.01}");
    params_init(&w->blocks, w->updater.u->class->n_slots);
    w->mine = blocks_make(&w->blocks);
    mu_params_rebase(&w->blocks.ps, w->mine.value, w->mine.slot);
    w->setup = (mu_setup){.learners = LEARNERS,
                          .workers = n_workers,
                          .protocol = mu_protocol_at(mu_protocol_index(protocol)),
                          .rows = 2,
                          .global_batch = 2 * LEARNERS,
                          .reference_batch = 2 * LEARNERS,
                          .server = MU_SERVER_PROCESS,
                          .server_threads = 1,
                          .splits = LEARNERS,
                          .own = 1,
                          .weights = weights,
                          .rate_rule = MU_RATE_MEAN,
                          .max_losses = 1,
                          .hang_timeout = 0.05};
    const mu_core_config core = {.learners = LEARNERS,
                                 .protocol = mu_protocol_index(protocol), .splits = LEARNERS, .own = 1,
                                 .lease_batches = 8, .rows = 2, .global_batch = 2 * LEARNERS,
                                 .rate_rule = MU_RATE_MEAN, .end_sample = 1000};
    const mu_shared_opts o = {.run_id = "client", .job_name = "client", .setup = &w->setup, .core = &core,
                              .params = &w->blocks.ps, .updater = w->updater.u, .n_records = 1000};
    if (mu_shared_create(&o, &w->shared, &err) != MU_OK) fail_msg("%s", err.msg);
    if (own) params_init(own, w->blocks.ps.n_slots);
    if (own) mu_params_rebase(&own->ps, w->shared.weights, w->shared.history);
    for (int l = 0; l < LEARNERS; l++) {
        const mu_shared_client_opts c = {.shared = &w->shared, .learner = l, .rate_at = rate_at,
                                         .params = own && l == 0 ? &own->ps : NULL};
        mu_lease lease;
        if (mu_shared_client_open(&w->client[l], &c, &err) != MU_OK) fail_msg("%s", err.msg);
        w->client[l].serves = false; // what is formed stays so until the test says otherwise
        mu_client *base = &w->client[l].base;
        assert_true(base->class->lease(base, &lease, NULL, NULL));
    }
}

static void world_open(world *w, const char *protocol) {
    world_open_with(w, protocol, MU_WEIGHTS_SHARED, NULL);
}

static void world_close(world *w) {
    for (int l = 0; l < LEARNERS; l++) mu_shared_client_close(&w->client[l]);
    mu_shared_release(&w->shared);
    blocks_free(&w->mine);
    params_fini(&w->blocks);
    bound_fini(&w->updater);
}

static void begin(world *w, int l) {
    mu_client *c = &w->client[l].base;
    mu_err err = {0};
    mu_answer a;
    if (c->class->begin(c, &a, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_int_equal(a, MU_GO);
}

static mu_push_result end(world *w, int l) {
    mu_client *c = &w->client[l].base;
    mu_err err = {0};
    mu_push_result r = MU_UNEXPECTED;
    if (c->class->end(c, false, 1, &r, &err) != MU_OK) fail_msg("%s", err.msg);
    return r;
}

// The update is formed, and no executor applies it.
static void form(world *w) {
    mu_core *c = mu_shared_begin(&w->shared);
    assert_non_null(c);
    assert_true(mu_core_form(c));
    mu_shared_commit(&w->shared);
}

// Both have pushed: learner 0 begins on weights in the making.
static void begin_on_next_version(world *w) {
    for (int l = 0; l < LEARNERS; l++) begin(w, l), assert_int_equal(end(w, l), MU_ACCEPTED);
    form(w);
    begin(w, 0);
    assert_int_equal(w->client[0].base.grant.version, 1);
}

static void test_weights_that_never_come(void **unused) {
    (void)unused;
    static world w;
    world_open(&w, "hardsync");
    begin_on_next_version(&w);
    mu_client *c = &w.client[0].base;
    mu_err err = {0};
    const int64_t began = mu_clock_ns();
    assert_int_equal(c->class->collect(c, 0, &err), MU_EBACKEND);
    if (!strstr(err.msg, "`dense` did not reach version 1")) fail_msg("%s", err.msg);
    assert_true(mu_clock_ns() - began < 10000000000);
    world_close(&w);
}

// The other worker never ends its part, and nothing else moves: the first one's own waiting is no sign of
// life.
static void test_a_worker_that_never_ends(void **unused) {
    (void)unused;
    static world w;
    n_workers = 2;
    world_open(&w, "async");
    n_workers = 1;
    begin(&w, 0);
    mu_client *c = &w.client[0].base;
    mu_err err = {0};
    mu_push_result r;
    c->class->show(c, MU_DOING_APPLY); // as one_gradient does
    alarm(60);
    assert_int_equal(c->class->end(c, false, 1, &r, &err), MU_EBACKEND);
    alarm(0);
    if (!strstr(err.msg, "learner 0 waits for its workers")) fail_msg("%s", err.msg);
    world_close(&w);
}

// The writer leaves, after 3 updates, when learner 0 waits for a copy of what it was granted.
static void *write_three(void *ctx) {
    const mu_shared *g = ctx;
    while (!atomic_load(&g->learner[0].wait_ns)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&g->head->version, 3);
    mu_rwlock_write_end(g->rw);
    return NULL;
}

// One process has the weights of the version it copied; of several workers some may have copied before.
static void test_versions_of_copies(void **unused) {
    (void)unused;
    for (n_workers = 1; n_workers <= 2; n_workers++) {
        static world w;
        pthread_t t;
        world_open_with(&w, "async", MU_WEIGHTS_COPY, NULL);
        w.setup.locks = true;
        assert_true(mu_rwlock_write(w.shared.rw, 0));
        assert_int_equal(pthread_create(&t, NULL, write_three, &w.shared), 0);
        begin(&w, 0);
        assert_int_equal(pthread_join(t, NULL), 0);
        assert_int_equal(w.client[0].base.grant.version, 0);
        assert_int_equal(w.client[0].copy_version, 3);
        assert_int_equal(w.client[0].version, n_workers == 1 ? 3 : 0);
        world_close(&w);
    }
    n_workers = 1;
}

// A merge changes the weights and not the clock: who has a copy of this version takes another one.
static void test_copies_of_merged_weights(void **unused) {
    (void)unused;
    static world w;
    world_open_with(&w, "async", MU_WEIGHTS_COPY, NULL);
    begin(&w, 0);
    w.shared.weights[0] += 1;
    begin(&w, 0);
    assert_true(w.client[0].copy[0] != w.shared.weights[0]);
    atomic_fetch_add(&w.shared.head->merges, 1);
    begin(&w, 0);
    assert_true(w.client[0].copy[0] == w.shared.weights[0]);
    world_close(&w);
}

static bool may_form(world *w) {
    mu_core *c = mu_shared_begin(&w->shared);
    assert_non_null(c);
    const bool formed = mu_core_form(c);
    mu_shared_cancel(&w->shared);
    return formed;
}

// Who merges has the weights alone: no learner copies them meanwhile, and a server forms no update, wherever
// the clock stood.
static void test_weights_held_for_a_merge(void **unused) {
    (void)unused;
    static world w;
    world_open_with(&w, "async", MU_WEIGHTS_COPY, NULL);
    w.setup.locks = true;
    begin(&w, 0);
    assert_int_equal(end(&w, 0), MU_ACCEPTED);
    assert_true(mu_server_set_halt(&w.shared, 5));
    assert_false(mu_server_hold(&w.shared, false)); // there is more to come
    assert_true(may_form(&w));
    assert_true(mu_rwlock_read(w.shared.rw, 1, 0));
    assert_false(mu_server_hold(&w.shared, true)); // learner 1 copies
    mu_rwlock_read_end(w.shared.rw, 1);
    assert_true(mu_server_hold(&w.shared, true));
    assert_false(mu_rwlock_read(w.shared.rw, 1, 0));
    assert_false(may_form(&w));
    mu_server_let_go(&w.shared);
    assert_true(mu_rwlock_read(w.shared.rw, 1, 0));
    mu_rwlock_read_end(w.shared.rw, 1);
    assert_true(mu_server_set_halt(&w.shared, 5));
    form(&w);
    assert_false(mu_server_hold(&w.shared, true)); // it is being written
    world_close(&w);
}

// A later group's region leaves the parameters where they are, and works on blocks of its own.
static void test_a_later_group_has_its_own_blocks(void **unused) {
    (void)unused;
    static world w;
    mu_err err = {0};
    mu_shared later;
    world_open(&w, "async");
    const mu_core_config core = {.learners = LEARNERS, .protocol = mu_protocol_index("async"),
                                 .splits = LEARNERS, .lease_batches = 8, .rows = 2,
                                 .global_batch = 2 * LEARNERS, .end_sample = 1000};
    const mu_shared_opts o = {.run_id = "client", .job_name = "client", .setup = &w.setup, .core = &core,
                              .params = &w.blocks.ps, .updater = w.updater.u, .n_records = 1000,
                              .first = &w.shared, .group = 1, .n_groups = 2};
    w.shared.weights[3] = 0.25f;
    if (mu_shared_create(&o, &later, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_ptr_equal(w.blocks.ps.value, w.shared.weights);
    assert_ptr_not_equal(later.weights, w.shared.weights);
    assert_ptr_equal(later.pieces->value, later.weights);
    for (int k = 0; k < w.blocks.ps.n_slots; k++) assert_ptr_equal(later.pieces->slot[k], later.history[k]);
    assert_memory_equal(later.weights, w.shared.weights, w.blocks.ps.count * sizeof(float));
    assert_ptr_equal(later.parent, &w.shared.head->parent); // one bell for all
    mu_shared_release(&later);
    assert_ptr_equal(w.blocks.ps.value, w.shared.weights);
    world_close(&w);
}

static void *apply_late(void *ctx) {
    const mu_shared *g = ctx;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    for (int i = 0; i < g->head->n_slices; i++) atomic_store(&g->slice[i].version, 1);
    mu_bell_ring(&g->head->turn);
    return NULL;
}

static void test_waiting_for_weights_is_counted(void **unused) {
    (void)unused;
    static world w;
    world_open(&w, "hardsync");
    begin_on_next_version(&w);
    mu_client *c = &w.client[0].base;
    mu_err err = {0};
    pthread_t t;
    const int64_t before = c->waited_ns, in_row = atomic_load(&w.shared.learner[0].wait_ns);
    const int64_t began = mu_clock_ns();
    assert_int_equal(pthread_create(&t, NULL, apply_late, &w.shared), 0);
    for (int i = 0; i < N_PARAMS; i++) assert_int_equal(c->class->collect(c, i, &err), MU_OK);
    const int64_t took = mu_clock_ns() - began, waited = c->waited_ns - before;
    pthread_join(t, NULL);
    if (waited < 150000000 || waited > took) fail_msg("%lld of %lld ns", (long long)waited, (long long)took);
    assert_int_equal(atomic_load(&w.shared.learner[0].wait_ns) - in_row, waited);
    world_close(&w);
}

// Staleness is that of the moment of the push, and of accepted gradients only.
static void check_staleness(const char *protocol) {
    static world w;
    world_open(&w, protocol);
    begin(&w, 0);
    begin(&w, 1);
    assert_int_equal(end(&w, 1), MU_ACCEPTED);
    assert_int_equal(end(&w, 0), MU_ACCEPTED);
    const mu_shared_learner *row = w.shared.learner;
    assert_int_equal(atomic_load(&row[1].stale_sum), 0);
    assert_int_equal(atomic_load(&row[0].stale_sum), 1);
    begin(&w, 0);
    mu_core *c = mu_shared_begin(&w.shared);
    (void)mu_core_join(c, 0); // replaced meanwhile
    mu_shared_commit(&w.shared);
    assert_int_equal(end(&w, 0), MU_FENCED);
    assert_int_equal(atomic_load(&row[0].n_stale), 1);
    world_close(&w);
}

static void test_staleness_of_accepted(void **unused) {
    (void)unused;
    check_staleness("hogwild");
    check_staleness("mirror");
}

// Where learners write weights themselves a snapshot waits until the last one has handed over.
static void test_snapshot_waits_for_all(void **unused) {
    (void)unused;
    static const char *const all[] = {"hogwild", "mirror"};
    for (size_t k = 0; k < MU_COUNT(all); k++) {
        static world w;
        mu_range open[2 * (MU_CORE_SLOTS + MU_CORE_LEASES)];
        mu_server_point point = {.open = open};
        world_open(&w, all[k]);
        begin(&w, 0);
        begin(&w, 1);
        mu_server_pause(&w.shared, true);
        assert_false(mu_server_snapshot(&w.shared, &point));
        assert_int_equal(end(&w, 1), MU_ACCEPTED);
        assert_false(mu_server_snapshot(&w.shared, &point));
        assert_int_equal(end(&w, 0), MU_ACCEPTED);
        assert_true(mu_server_snapshot(&w.shared, &point));
        assert_int_equal(point.version, 2);
        world_close(&w);
    }
}

// ---- running statistics ----

enum { MEAN = 4 }; // of threads_help.h's parameters

static void assert_mean(const mu_param *p, uint64_t seed) {
    for (size_t i = 0; i < p->count; i++) assert_near(p->value[i], noise(seed, i), 0);
}

// They are the learner's own, and those of the weights whenever it begins, also twice on the same copy.
static void test_statistics_of_the_weights(void **unused) {
    (void)unused;
    for (int copy = 0; copy < 2; copy++) {
        static world w;
        static params own;
        world_open_with(&w, "async", copy ? MU_WEIGHTS_COPY : MU_WEIGHTS_SHARED, &own);
        float *mean = w.shared.weights + w.blocks.p[MEAN].offset;
        const size_t n = w.blocks.p[MEAN].count;
        fill(mean, n, 1, 1);
        begin(&w, 0);
        assert_mean(&own.p[MEAN], 1);
        fill(own.p[MEAN].value, n, 2, 1); // by the forward pass
        for (size_t i = 0; i < n; i++) assert_near(mean[i], noise(1, i), 0);
        assert_int_equal(end(&w, 0), MU_ACCEPTED);
        form(&w);
        begin(&w, 0);
        assert_mean(&own.p[MEAN], 1);
        world_close(&w);
        params_fini(&own);
    }
}

// ---- mirrors ----

static void assert_same_block(const world *w, const float *got, const float *want, const char *what) {
    for (size_t i = 0; i < w->blocks.ps.count; i++)
        if (memcmp(&got[i], &want[i], sizeof got[i]))
            fail_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)got[i], (double)want[i]);
}

static void give_gradient(world *w, int learner, int64_t step) {
    mu_client *c = &w->client[learner].base;
    static params made;
    params_init(&made, w->blocks.ps.n_slots);
    make_gradient(&made, learner, step);
    begin(w, learner);
    for (int i = 0; i < N_PARAMS; i++) c->class->push(c, i, &made.p[i]);
    assert_int_equal(end(w, learner), MU_ACCEPTED);
    params_fini(&made);
}

// By one gradient, from nothing, divided by the mean staleness of 2: history v = -rate g / 2, weights += v.
static void assert_first_step(const world *w, const float *weights, const float *history) {
    static params made;
    params_init(&made, w->blocks.ps.n_slots);
    make_gradient(&made, 0, 0);
    const mu_param *p = &made.p[0]; // a dense one
    for (size_t i = 0; i < p->count; i++) {
        const double v = -0.01 / LEARNERS * (double)p->grad.dense[i];
        assert_near(history[p->offset + i], v, 1e-8);
        assert_near(weights[p->offset + i], v, 1e-8);
    }
    params_fini(&made);
}

// All apply the same gradients, whichever way: a snapshot that nobody came before, layer by layer, or what no
// layer asked for at the end.
static void test_mirrors_and_snapshot_are_one(void **unused) {
    (void)unused;
    static world w;
    mu_err err = {0};
    world_open(&w, "mirror");
    const mu_shared *g = &w.shared;
    give_gradient(&w, 0, 0);
    block_set out = blocks_make(&w.blocks);
    for (int step = 1; step < 4; step++) {
        fill(out.value, w.blocks.ps.count, 1, 1);
        fill(out.slot[0], w.blocks.ps.count, 2, 1);
        mu_shared_copy_out(&w.shared, out.value, out.slot);
        begin(&w, 0);
        w.client[0].base.class->computed(&w.client[0].base);
        begin(&w, 1);
        for (int i = 0; i < N_PARAMS; i++)
            assert_int_equal(w.client[1].base.class->collect(&w.client[1].base, i, &err), MU_OK);
        for (int l = 0; l < LEARNERS; l++) {
            assert_same_block(&w, mu_own_weights(g, l), out.value, l ? "by layers" : "at the end");
            assert_same_block(&w, mu_own_history(g, l, 0), out.slot[0], "history");
        }
        if (step == 1) assert_first_step(&w, out.value, out.slot[0]);
        w.client[1].base.class->computed(&w.client[1].base);
        mu_shared_copy_out(&w.shared, out.value, out.slot); // of mirrors that are up to date
        assert_same_block(&w, out.value, mu_own_weights(g, 0), "up to date");
        give_gradient(&w, 1, step);
        give_gradient(&w, 0, step);
    }
    blocks_free(&out);
    world_close(&w);
}

typedef struct holder {
    mu_shared *g;
    _Atomic int has, stop;
    bool moves;
} holder;

// Has the lock for some time, longer than one try for it; learner 1 shows that it lives.
static void *hold_lock(void *ctx) {
    holder *h = ctx;
    (void)mu_shared_begin(h->g);
    atomic_store(&h->has, 1);
    for (int i = 0; i < 60 && !atomic_load(&h->stop); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        if (h->moves) atomic_fetch_add(&h->g->learner[1].pulse, 1);
    }
    mu_shared_cancel(h->g);
    return NULL;
}

static pthread_t start_holder(holder *h) {
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, hold_lock, h), 0);
    while (!atomic_load(&h->has)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return t;
}

static void test_lock_that_is_held(void **unused) {
    (void)unused;
    static world w;
    world_open(&w, "hogwild");
    begin(&w, 0);
    mu_shared other = w.shared;
    holder h = {.g = &other, .moves = true};
    pthread_t t = start_holder(&h);
    assert_int_equal(end(&w, 0), MU_ACCEPTED); // waited for, not refused
    pthread_join(t, NULL);
    begin(&w, 0);
    h = (holder){.g = &other};
    t = start_holder(&h);
    mu_client *c = &w.client[0].base;
    mu_err err = {0};
    mu_push_result r;
    assert_int_equal(c->class->end(c, false, 1, &r, &err), MU_EBACKEND); // nothing moves
    if (!strstr(err.msg, "the protocol's lock is held")) fail_msg("%s", err.msg);
    atomic_store(&h.stop, 1);
    pthread_join(t, NULL);
    world_close(&w);
}

// Histories of a set and of its updater: one number.
_Static_assert(sizeof(((mu_params *)0)->slot) == sizeof(((mu_slice *)0)->slot), "as many as rules have");

// Is the core told that two updates are made in one pass, with so many samples in a gradient?
static bool forms_pairs(const char *updater, int64_t batch, bool record) {
    bound u;
    params blocks;
    mu_shared g;
    mu_err err = {0};
    (void)bound_get(&u, updater);
    params_init(&blocks, u.u->class->n_slots);
    block_set mine = blocks_make(&blocks);
    mu_params_rebase(&blocks.ps, mine.value, mine.slot);
    for (int i = 0; i < 2; i++) blocks.p[i].max_batch = batch; // most of all weights
    const int async = mu_protocol_index("async");
    const mu_setup setup = {.learners = LEARNERS, .workers = 1, .protocol = mu_protocol_at(async),
                            .rows = batch, .global_batch = LEARNERS * batch,
                            .reference_batch = LEARNERS * batch, .splits = LEARNERS, .hang_timeout = 1};
    const mu_core_config core = {.learners = LEARNERS, .protocol = async, .splits = LEARNERS, .rows = batch,
                                 .lease_batches = 1, .global_batch = LEARNERS * batch, .end_sample = 1000};
    const mu_shared_opts o = {.run_id = "pairs", .job_name = "pairs", .setup = &setup, .core = &core,
                              .params = &blocks.ps, .updater = u.u, .n_records = 1000, .record = record};
    if (mu_shared_create(&o, &g, &err) != MU_OK) fail_msg("%s", err.msg);
    const mu_core *c = mu_shared_begin(&g);
    assert_non_null(c);
    const bool pairs = c->config.pairs;
    mu_shared_cancel(&g);
    mu_shared_release(&g);
    blocks_free(&mine), params_fini(&blocks), bound_fini(&u);
    return pairs;
}

static void test_where_pairs_pay(void **unused) {
    (void)unused;
    static const char sgd[] = "{type: sgd, momentum: 0.9, rate: 0.01}";
    assert_true(forms_pairs(sgd, 1, false));
    assert_true(forms_pairs(sgd, 4, false));
    assert_false(forms_pairs(sgd, 5, false)); // more are multiplied out
    assert_false(forms_pairs(sgd, 1, true));  // recorded: each update keeps what it changes
    assert_false(forms_pairs("{type: adam, rate: 0.01}", 1, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_that_never_come),
        cmocka_unit_test(test_a_worker_that_never_ends),
        cmocka_unit_test(test_versions_of_copies),
        cmocka_unit_test(test_copies_of_merged_weights),
        cmocka_unit_test(test_weights_held_for_a_merge),
        cmocka_unit_test(test_a_later_group_has_its_own_blocks),
        cmocka_unit_test(test_waiting_for_weights_is_counted),
        cmocka_unit_test(test_staleness_of_accepted),
        cmocka_unit_test(test_lock_that_is_held),
        cmocka_unit_test(test_snapshot_waits_for_all),
        cmocka_unit_test(test_statistics_of_the_weights),
        cmocka_unit_test(test_mirrors_and_snapshot_are_one),
        cmocka_unit_test(test_where_pairs_pay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

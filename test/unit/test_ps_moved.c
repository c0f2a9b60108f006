// SPDX-License-Identifier: Apache-2.0
// test_ps_moved.c - bytes that two learners move, whoever of them applies; and who applies which slices.
#include "unit/threads_help.h"

#include "ps/moved.h"

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

// p: who has which piece; NULL = each learner has all.
static void world_open(world *w, const mu_partition *p, mu_weights_mode weights) {
    mu_err err = {0};
    memset(w, 0, sizeof *w);
    (void)bound_get(&w->updater, "{type: sgd, momentum: 0.9, rate: 0.01}");
    params_init(&w->blocks, w->updater.u->class->n_slots);
    w->blocks.p[3].lr_mult = 0; // frozen: its gradient travels, its weights do not
    w->mine = blocks_make(&w->blocks);
    mu_params_rebase(&w->blocks.ps, w->mine.value, w->mine.slot);
    const int hardsync = mu_protocol_index("hardsync");
    w->setup = (mu_setup){.learners = LEARNERS,
                          .workers = 1,
                          .protocol = mu_protocol_at(hardsync),
                          .rows = 2,
                          .global_batch = 2 * LEARNERS,
                          .reference_batch = 2 * LEARNERS,
                          .server = MU_SERVER_BESIDE,
                          .splits = LEARNERS,
                          .own = 1,
                          .weights = weights,
                          .rate_rule = MU_RATE_PLAIN,
                          .max_losses = 1,
                          .hang_timeout = 5};
    const mu_core_config core = {.learners = LEARNERS,
                                 .protocol = hardsync,
                                 .splits = LEARNERS,
                                 .own = 1,
                                 .lease_batches = 8,
                                 .rows = 2,
                                 .global_batch = 2 * LEARNERS,
                                 .warm_versions = 1000,
                                 .rate_rule = MU_RATE_PLAIN,
                                 .end_sample = 1000};
    const mu_shared_opts o = {.run_id = "moved",
                              .job_name = "moved",
                              .setup = &w->setup,
                              .core = &core,
                              .params = &w->blocks.ps,
                              .updater = w->updater.u,
                              .n_records = 1000};
    if (mu_shared_create(&o, &w->shared, &err) != MU_OK) fail_msg("%s", err.msg);
    w->shared.partition = p;
    for (int l = 0; l < LEARNERS; l++) {
        const mu_shared_client_opts c = {.shared = &w->shared, .learner = l, .rate_at = rate_at};
        mu_lease lease;
        if (mu_shared_client_open(&w->client[l], &c, &err) != MU_OK) fail_msg("%s", err.msg);
        w->client[l].serves = false; // who applies is up to the test
        mu_client *base = &w->client[l].base;
        assert_true(base->class->lease(base, &lease, NULL, NULL));
    }
}

static void world_close(world *w) {
    for (int l = 0; l < LEARNERS; l++) mu_shared_client_close(&w->client[l]);
    mu_shared_release(&w->shared);
    blocks_free(&w->mine);
    params_fini(&w->blocks);
    bound_fini(&w->updater);
}

// Both read all weights, and give all gradients.
static void both_compute(world *w, int64_t step) {
    for (int l = 0; l < LEARNERS; l++) {
        static params made;
        mu_client *c = &w->client[l].base;
        mu_err err = {0};
        mu_answer a;
        mu_push_result r = MU_UNEXPECTED;
        params_init(&made, w->blocks.ps.n_slots);
        make_gradient(&made, l, step);
        assert_int_equal(c->class->begin(c, &a, &err), MU_OK);
        assert_int_equal(a, MU_GO);
        for (int k = 0; k < 2; k++) // twice, as by two layers that share them
            for (int i = 0; i < N_PARAMS; i++) assert_int_equal(c->class->collect(c, i, &err), MU_OK);
        for (int i = 0; i < N_PARAMS; i++) c->class->push(c, i, &made.p[i]);
        assert_int_equal(c->class->end(c, false, 1, &r, &err), MU_OK);
        assert_int_equal(r, MU_ACCEPTED);
        params_fini(&made);
    }
}

static void apply(mu_server *s, int64_t version) {
    const int64_t began = mu_clock_ns();
    while (atomic_load(&s->shared->head->version) < version && mu_clock_ns() - began < 60000000000)
        (void)mu_server_turn(s);
    assert_int_equal(atomic_load(&s->shared->head->version), version);
}

// Of threads_help.h's parameters by hand: a message, and the weights that two of them change.
static const uint64_t message = 4 * (96 * 400 + BATCH * (150 + 40) + NAMED * (1 + 20) + 70 + 30 +
                                     BATCH * WORDS * 40 + 2 * BATCH * 60),
                      changed = 4 * (96 * 400 + 40 * 150 + 2 * NAMED * 20 + 30 + 60 * 40);

static void assert_moved(const world *w, uint64_t by0, uint64_t by1, uint64_t read0, uint64_t read1) {
    mu_traffic all;
    const mu_shared *g = &w->shared;
    assert_int_equal(atomic_load(&g->executor[0].moved), by0);
    assert_int_equal(atomic_load(&g->executor[1].moved), by1);
    assert_int_equal(atomic_load(&g->learner[0].weights_moved), read0);
    assert_int_equal(atomic_load(&g->learner[1].weights_moved), read1);
    assert_true(mu_moved(g, &all));
    assert_int_equal(all.gradients, by0 + by1);
    assert_int_equal(all.weights, read0 + read1);
}

static void what_two_learners_move(mu_weights_mode weights) {
    static world w;
    world_open(&w, NULL, weights);
    both_compute(&w, 0);
    assert_moved(&w, 0, 0, 0, 0); // the first weights are nobody's
    apply(&w.client[0].server, 1);
    assert_moved(&w, message, 0, 0, 0);
    both_compute(&w, 1);
    assert_moved(&w, message, 0, 0, changed);
    apply(&w.client[1].server, 2);
    both_compute(&w, 2);
    assert_moved(&w, message, message, changed, changed);
    // A process that makes none of them takes them all; both then read what it wrote.
    mu_server apart;
    mu_err err = {0};
    assert_int_equal(mu_server_init(&apart, &w.shared, 1, rate_at, NULL, &err), MU_OK);
    apply(&apart, 3);
    mu_server_fini(&apart);
    both_compute(&w, 3);
    assert_moved(&w, message, 3 * message, 2 * changed, 2 * changed);
    world_close(&w);
}

static void test_moved(void **unused) {
    (void)unused;
    what_two_learners_move(MU_WEIGHTS_SHARED);
    what_two_learners_move(MU_WEIGHTS_COPY);
}

// Who reads seldom reads a slice once, however often it was written meanwhile.
static void test_what_is_read_late(void **unused) {
    (void)unused;
    static world w;
    world_open(&w, NULL, MU_WEIGHTS_SHARED);
    mu_shared *g = &w.shared;
    const size_t slice = g->slices.range[0].end - g->slices.range[0].begin;
    atomic_store(&g->slice[0].written, 40);
    mu_moved_read(g, 0, w.client[0].seen, 0);
    assert_int_equal(atomic_load(&g->learner[0].weights_moved), 40);
    atomic_store(&g->slice[0].written, 40 + 100 * slice * 4);
    mu_moved_read(g, 0, w.client[0].seen, 0);
    mu_moved_read(g, 0, w.client[0].seen, 0);
    assert_int_equal(atomic_load(&g->learner[0].weights_moved), 40 + slice * 4);
    world_close(&w);
}

static int64_t version_of(const mu_shared *g, int piece) {
    return atomic_load(&g->slice[g->first_slice[piece]].version);
}

// Pieces stay with the workers that have them, as long as one of these comes.
static void test_holders_apply(void **unused) {
    (void)unused;
    static world w;
    mu_piece piece[N_PARAMS] = {{.workers = 1}, {.workers = 2}, {.workers = 3},
                                {.workers = 2}, {.workers = 1}, {.workers = 2}};
    const mu_partition p = {.piece = piece, .n_pieces = N_PARAMS};
    world_open(&w, &p, MU_WEIGHTS_SHARED);
    mu_shared *g = &w.shared;
    assert_int_equal(w.client[0].server.holder, 1);
    w.client[1].server.holder = 2;
    both_compute(&w, 0);
    for (int i = 0; i < 10; i++) (void)mu_server_turn(&w.client[0].server);
    for (int i = 0; i < N_PARAMS; i++) assert_int_equal(version_of(g, i), piece[i].workers & 1);
    apply(&w.client[1].server, 1);
    for (int i = 0; i < N_PARAMS; i++) assert_int_equal(version_of(g, i), 1);
    both_compute(&w, 1);
    const int64_t began = mu_clock_ns();
    apply(&w.client[0].server, 2); // the other one does not come
    assert_true(mu_clock_ns() - began > 900000000);
    w.shared.partition = NULL;
    world_close(&w);
}

// ---- who had a slice last ----

static struct {
    mu_updater_class class;             // of the world's updater, with `spy`
    void (*apply)(const void *state, const mu_slice *s, float lr, mu_rule_step step);
    const mu_shared *g;
    int order[64], n;                   // slices, as they were begun
} seen;

static void spy(const void *state, const mu_slice *s, float lr, mu_rule_step step) {
    for (int i = 0; i < seen.g->head->n_slices; i++) {
        const mu_slice_range *r = &seen.g->slices.range[i];
        const float *value = seen.g->pieces->list[r->param]->value;
        if (s->value < value + r->begin || s->value >= value + r->end) continue;
        if (seen.n && seen.order[seen.n - 1] == i) continue;
        assert_true((size_t)seen.n < MU_COUNT(seen.order));
        seen.order[seen.n++] = i;
    }
    seen.apply(state, s, lr, step);
}

static void watch(world *w) {
    seen.class = *w->updater.u->class;
    seen.apply = seen.class.apply;
    seen.class.apply = spy;
    seen.g = &w->shared;
    w->updater.u->class = &seen.class;
}

// The slices that the executor had come first, from the front; then those of the others, from the end.
static void assert_order(const mu_shared *g, bool (*own)(int slice)) {
    const int n = g->head->n_slices;
    int want[64], k = 0;
    for (int i = 0; i < n; i++)
        if (own(i)) want[k++] = i;
    for (int i = n - 1; i >= 0; i--)
        if (!own(i)) want[k++] = i;
    for (int i = 0, at = 0; i < n; i++) {
        const mu_param *p = g->pieces->list[g->slices.range[want[i]].param];
        if (p->is_stat || p->lr_mult == 0) continue; // the rule does not see it
        if (at >= seen.n || seen.order[at] != want[i])
            fail_msg("slice %d came as number %d, not %d", at < seen.n ? seen.order[at] : -1, at, want[i]);
        at++;
    }
    seen.n = 0;
}

static bool is_even(int slice) { return slice % 2 == 0; }
static bool is_any(int slice) { return slice >= 0; }
static bool is_none(int slice) { return slice < 0; }

// A slice is in the cache of the core that had it last, so that one begins with it.
static void test_slices_stay(void **unused) {
    (void)unused;
    static world w;
    world_open(&w, NULL, MU_WEIGHTS_SHARED);
    mu_shared *g = &w.shared;
    const int n = g->head->n_slices;
    assert_true(n >= N_PARAMS && n <= 64);
    watch(&w);
    for (int i = 0; i < n; i++) atomic_store(&g->owner[i], is_even(i) ? 1 : 2); // two were at it at once
    both_compute(&w, 0);
    apply(&w.client[0].server, 1);
    assert_order(g, is_even);
    for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&g->owner[i]), 1); // the other one did not come
    both_compute(&w, 1);
    apply(&w.client[0].server, 2);
    assert_order(g, is_any);
    both_compute(&w, 2);
    apply(&w.client[1].server, 3);
    assert_order(g, is_none);
    for (int i = 0; i < n; i++) assert_int_equal(atomic_load(&g->owner[i]), 2);
    world_close(&w);
}

// Under locks one may wait for the end of an update: then everybody applies all.
static void test_locks_let_all_apply(void **unused) {
    (void)unused;
    static world w;
    mu_piece piece = {.workers = 2};
    const mu_partition p = {.piece = &piece, .n_pieces = 1};
    mu_err err = {0};
    world_open(&w, NULL, MU_WEIGHTS_SHARED);
    w.setup.locks = true;
    w.shared.partition = &p;
    mu_shared_client c;
    const mu_shared_client_opts o = {.shared = &w.shared, .learner = 0, .rate_at = rate_at};
    assert_int_equal(mu_shared_client_open(&c, &o, &err), MU_OK);
    assert_true(c.server.holder == MU_HOLDS_ALL);
    mu_shared_client_close(&c);
    w.shared.partition = NULL;
    world_close(&w);
}

static void test_per_step(void **unused) {
    (void)unused;
    assert_near(mu_moved_per_step(100, 5, false), 20, 0);
    assert_near(mu_moved_per_step(100, 5, true), 25, 0);
    assert_near(mu_moved_per_step(100, 1, true), 0, 0);
    assert_near(mu_moved_per_step(100, 0, false), 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moved),         cmocka_unit_test(test_what_is_read_late),
        cmocka_unit_test(test_holders_apply), cmocka_unit_test(test_locks_let_all_apply),
        cmocka_unit_test(test_slices_stay),   cmocka_unit_test(test_per_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

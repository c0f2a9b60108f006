// SPDX-License-Identifier: Apache-2.0
// test_ps_hogwild.c - hogwild with `every`: when sums are written, that they are the sums, and that nothing
// that was pushed is missing in a snapshot, after a death or at the end.
#include "unit/threads_help.h"

enum { LEARNERS = 2, EVERY = 3 };

typedef struct world {
    params blocks, made[EVERY];
    bound updater;
    mu_setup setup;
    mu_shared shared;
    block_set mine, want;
    mu_shared_client client[LEARNERS];
} world;

static mu_step_rate rate_at(void *ctx, int64_t version, int64_t samples) {
    (void)ctx, (void)version, (void)samples;
    return (mu_step_rate){.rate = 0.01};
}

static void client_open(world *w, int l) {
    mu_err err = {0};
    mu_lease lease;
    const mu_shared_client_opts o = {.shared = &w->shared, .learner = l, .rate_at = rate_at};
    if (mu_shared_client_open(&w->client[l], &o, &err) != MU_OK) fail_msg("%s", err.msg);
    mu_client *c = &w->client[l].base;
    assert_true(c->class->lease(c, &lease, NULL, NULL));
}

static void world_open(world *w) {
    mu_err err = {0};
    const int hogwild = mu_protocol_index("hogwild");
    memset(w, 0, sizeof *w);
    (void)bound_get(&w->updater, "{type: sgd, momentum: 0.9, decay: 0.01, rate: 0.01}");
    params_init(&w->blocks, w->updater.u->class->n_slots);
    for (int i = 0; i < EVERY; i++) params_init(&w->made[i], w->updater.u->class->n_slots);
    w->mine = blocks_make(&w->blocks);
    w->want = blocks_make(&w->blocks);
    fill(w->mine.value, w->blocks.ps.count, 3, 0.5f);
    blocks_copy(&w->blocks, &w->mine, &w->want);
    mu_params_rebase(&w->blocks.ps, w->mine.value, w->mine.slot);
    w->setup = (mu_setup){.learners = LEARNERS, .workers = 1, .protocol = mu_protocol_at(hogwild), .rows = 2,
                          .global_batch = 2 * LEARNERS, .reference_batch = 2 * LEARNERS, .splits = LEARNERS,
                          .own = EVERY, .rate_rule = MU_RATE_MEAN, .max_losses = 1, .hang_timeout = 0.05};
    const mu_core_config core = {.learners = LEARNERS, .protocol = hogwild, .splits = LEARNERS, .own = EVERY,
                                 .gradient_scale = LEARNERS, .lease_batches = 30, .rows = 2,
                                 .global_batch = 2 * LEARNERS, .rate_rule = MU_RATE_MEAN, .end_sample = 1000};
    const mu_shared_opts o = {.run_id = "hogwild", .job_name = "hogwild", .setup = &w->setup, .core = &core,
                              .params = &w->blocks.ps, .updater = w->updater.u, .n_records = 1000};
    if (mu_shared_create(&o, &w->shared, &err) != MU_OK) fail_msg("%s", err.msg);
    for (int l = 0; l < LEARNERS; l++) client_open(w, l);
}

static void world_close(world *w) {
    for (int l = 0; l < LEARNERS; l++) mu_shared_client_close(&w->client[l]);
    mu_shared_release(&w->shared);
    blocks_free(&w->mine), blocks_free(&w->want);
    for (int i = 0; i < EVERY; i++) params_fini(&w->made[i]);
    params_fini(&w->blocks);
    bound_fini(&w->updater);
}

// The next gradient of a learner, its `step`-th.
static void gradient(world *w, int l, int64_t step, bool bad) {
    mu_client *c = &w->client[l].base;
    mu_err err = {0};
    mu_answer a;
    mu_push_result r = MU_UNEXPECTED;
    if (c->class->begin(c, &a, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_int_equal(a, MU_GO);
    assert_false(c->writes);
    make_gradient(&w->blocks, l, step);
    for (int i = 0; i < N_PARAMS; i++) c->class->push(c, i, &w->blocks.p[i]);
    for (int i = 0; i < N_PARAMS; i++) w->blocks.p[i].value = w->shared.weights + w->blocks.p[i].offset;
    if (c->class->end(c, bad, 1, &r, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_int_equal(r, MU_ACCEPTED);
}

// What the weights should be: one update of these gradients of a learner, whose decay counts for each.
static void expect(world *w, int l, const int64_t *step, int n) {
    const float weight[EVERY] = {1, 1, 1};
    mu_params view = w->blocks.ps;
    view.value = w->want.value;
    memcpy(view.slot, w->want.slot, sizeof view.slot);
    for (int i = 0; i < N_PARAMS; i++) {
        const mu_grad *grad[EVERY];
        for (int j = 0; j < n; j++) {
            make_gradient(&w->made[j], l, step[j]);
            grad[j] = &w->made[j].p[i].grad;
        }
        if (w->blocks.p[i].is_stat) continue; // moves in the forward pass
        const mu_target t = mu_target_of(w->updater.u, &view, &w->blocks.p[i]);
        mu_updater_apply(&t, &(mu_update){n, grad, weight, 0.01, {.stale = {.share = (float)n}}});
    }
}

static void assert_weights(const world *w, const char *when) {
    for (int i = 0; i < N_PARAMS; i++)
        for (size_t e = 0; e < w->blocks.p[i].count; e++) {
            const size_t at = w->blocks.p[i].offset + e;
            const double got = (double)w->shared.weights[at], want = (double)w->want.value[at];
            if (fabs(got - want) > 1e-5 * (1 + fabs(want)))
                fail_msg("%s: `%s` [%zu] is %.9g, not %.9g", when, protos[i].name, e, got, want);
        }
}

static mu_ledger ledger(world *w) {
    const mu_core *c = mu_shared_begin(&w->shared);
    assert_non_null(c);
    const mu_ledger l = mu_core_ledger(c);
    mu_shared_cancel(&w->shared);
    return l;
}

static void test_sums_are_written_at_once(void **unused) {
    (void)unused;
    static world w;
    world_open(&w);
    gradient(&w, 0, 0, false), gradient(&w, 0, 1, false);
    assert_weights(&w, "before the third");
    assert_int_equal(w.shared.learner[0].n_stale, 0);
    gradient(&w, 0, 2, false);
    expect(&w, 0, (const int64_t[]){0, 1, 2}, 3);
    assert_weights(&w, "a sum of three");
    assert_int_equal(w.shared.learner[0].n_stale, 3);
    assert_int_equal(w.shared.learner[0].stale_sum, 2 + 2 + 2 - 0 - 1 - 2); // the clock counts gradients
    for (int l = 0; l < LEARNERS; l++) assert_int_equal(mu_own_is_filled(&w.shared, l), 1);
    gradient(&w, 0, 3, false), gradient(&w, 0, 4, true), gradient(&w, 0, 5, false); // one is not finite
    expect(&w, 0, (const int64_t[]){3, 5}, 2);
    assert_weights(&w, "a sum of two, one left out");
    world_close(&w);
}

// A pause waits until all that is pushed is written.
static void test_snapshot_has_all_that_is_pushed(void **unused) {
    (void)unused;
    static world w;
    mu_range open[LEARNERS * (MU_CORE_SLOTS + MU_CORE_LEASES)];
    mu_server_point point = {.open = open};
    world_open(&w);
    gradient(&w, 0, 0, false), gradient(&w, 0, 1, false);
    mu_server_pause(&w.shared, true);
    assert_false(mu_server_snapshot(&w.shared, &point));
    for (int l = 0; l < LEARNERS; l++) assert_true(w.setup.protocol->exchange->may_ask(&w.client[l]));
    assert_true(mu_server_snapshot(&w.shared, &point));
    assert_int_equal(point.version, 2);
    expect(&w, 0, (const int64_t[]){0, 1}, 2);
    assert_weights(&w, "a pause");
    for (int i = 0; i < N_PARAMS; i++)
        assert_memory_equal(w.shared.snapshot + w.blocks.p[i].offset, w.shared.weights + w.blocks.p[i].offset,
                            w.blocks.p[i].count * sizeof(float));
    mu_server_pause(&w.shared, false);
    world_close(&w);
}

static void lose(world *w, int l) {
    mu_shared_client_close(&w->client[l]);
    mu_shared_lost(&w->shared, l);
    mu_core *c = mu_shared_begin(&w->shared);
    assert_non_null(c);
    mu_core_lost(c, l);
    mu_shared_commit(&w->shared);
}

// What was pushed outlives its learner: the next one goes on with the sum.
static void test_next_incarnation_writes(void **unused) {
    (void)unused;
    static world w;
    world_open(&w);
    gradient(&w, 1, 0, false), gradient(&w, 1, 1, false);
    lose(&w, 1);
    client_open(&w, 1);
    assert_weights(&w, "a death");
    gradient(&w, 1, 2, false);
    expect(&w, 1, (const int64_t[]){0, 1, 2}, 3);
    assert_weights(&w, "the sum of two processes");
    const mu_ledger l = ledger(&w);
    assert_int_equal(l.applied, 3);
    assert_int_equal(l.lost, 0);
    world_close(&w);
}

// Where none comes any more the parent does it, once.
static void test_the_end_has_all_that_is_pushed(void **unused) {
    (void)unused;
    static world w;
    world_open(&w);
    gradient(&w, 1, 0, false), gradient(&w, 1, 1, false);
    lose(&w, 1);
    block_set end = blocks_make(&w.blocks);
    for (int i = 0; i < 2; i++) mu_shared_copy_out(&w.shared, end.value, end.slot);
    expect(&w, 1, (const int64_t[]){0, 1}, 2);
    assert_weights(&w, "the end");
    blocks_free(&end);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_written_at_once),
        cmocka_unit_test(test_snapshot_has_all_that_is_pushed),
        cmocka_unit_test(test_next_incarnation_writes),
        cmocka_unit_test(test_the_end_has_all_that_is_pushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

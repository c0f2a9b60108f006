// SPDX-License-Identifier: Apache-2.0
// test_ps_core.c - the protocol core by hand-made events: who may begin, on what, what becomes an update, and
// what happens to gradients when learners are lost in every state. Samples, warm start and ends of a run are
// in test_ps_core_lease.c.
#include "unit/core_rig.h"

// ---- hardsync ----

static void test_hardsync_steps(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hardsync", 3);
    config.global_batch = 10; // 3, 3 and 4 rows
    config.first_version = 7, config.first_sample = 100, config.end_sample = 120;
    rig r = rig_make(&config);
    assert_int_equal(rig_ask(&r, 0), MU_HOLD); // no lease yet
    for (int l = 0; l < 3; l++) assert_int_equal(rig_begin(&r, l), MU_GO);
    assert_grant(&r, 0, 0, 7, 100, 3, 10);
    assert_grant(&r, 1, 0, 7, 103, 3, 10);
    assert_grant(&r, 2, 0, 7, 106, 4, 10);
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 2), MU_HOLD); // the others are still at step 0
    assert_false(rig_form(&r));
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_true(rig_form(&r));
    assert_false(rig_form(&r)); // one at a time
    assert_int_equal(r.c->n_parts, 3);
    for (int l = 0; l < 3; l++) { // the server adds them in the order of learners, whatever that of arrival
        const mu_core_part *p = mu_core_part_at(r.c, l);
        assert_int_equal(p->id.learner, (l + 2) % 3);
        assert_int_equal(mu_core_staleness(r.c, l), 0);
        assert_float_equal(rig_weight(&r, l), 1, 0);
    }
    assert_int_equal(rig_begin(&r, 1), MU_GO); // on the version in the making
    assert_grant(&r, 1, 1, 8, 113, 3, 10);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 1), MU_END); // 120 is the end of the samples
    rig_applied(&r);
    assert_int_equal(r.c->version, 8);
    assert_int_equal(r.c->samples_applied, 10);
    rig_gradient(&r, 0);
    rig_gradient(&r, 2);
    assert_grant(&r, 2, 1, 8, 116, 4, 10);
    rig_update(&r, 3);
    for (int l = 0; l < 3; l++) assert_int_equal(rig_begin(&r, l), MU_END);
    assert_true(mu_core_idle(r.c));
    assert_ledger(&r, 6, 6, 0, 0);
    rig_fini(&r);
}

// ---- a learner is lost ----

// In every state: before it asked, computing, with a gradient waiting, with one being applied.
static void test_lost_in_every_state(void **unused) {
    (void)unused;
    static const char *const all[] = {"hardsync", "softsync", "async", "ssp"};
    for (size_t k = 0; k < 4; k++) {
        mu_core_config config = rig_config(all[k], 2);
        config.bound = 3;
        rig r = rig_make(&config);
        rig_lost(&r, 0);
        assert_int_equal(rig_ask(&r, 0), MU_END); // an old incarnation
        rig_join(&r, 0);
        assert_int_equal(r.incarnation[0], 2);
        assert_int_equal(rig_begin(&r, 0), MU_GO);
        const mu_grant before = r.grant[0];
        rig_lost(&r, 0); // computing
        assert_int_equal(rig_push(&r, 0), MU_FENCED);
        rig_join(&r, 0);
        assert_int_equal(rig_begin(&r, 0), MU_GO); // the same gradient again
        assert_memory_equal(&before, &r.grant[0], sizeof before);
        assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
        rig_lost(&r, 0); // with one waiting: it stays
        rig_gradient(&r, 1);
        assert_true(rig_form(&r));
        assert_int_equal(mu_core_part_at(r.c, 0)->id.learner, 0);
        assert_int_equal(mu_core_part_at(r.c, 0)->id.incarnation, 3);
        rig_join(&r, 0);
        rig_lost(&r, 0); // with one being applied
        rig_lost(&r, 0); // told twice: nothing
        rig_applied(&r);
        rig_join(&r, 0);
        assert_int_equal(r.incarnation[0], 5);
        assert_int_equal(rig_begin(&r, 0), MU_GO);
        assert_int_equal(r.grant[0].step, 1);
        assert_int_equal(mu_core_learner_at(r.c, 0)->lost, 1);
        assert_int_equal(mu_core_ledger(r.c).lost, 1);
        rig_fini(&r);
    }
}

static void test_fence_and_unexpected_change_nothing(void **unused) {
    (void)unused;
    static const char *const all[] = {"hardsync", "softsync", "async", "ssp", "hogwild"};
    for (size_t k = 0; k < 5; k++) {
        mu_core_config config = rig_config(all[k], 3);
        rig r = rig_make(&config);
        rig_gradient(&r, 0);
        assert_int_equal(rig_begin(&r, 1), MU_GO);
        const size_t size = mu_core_size(3);
        void *was = malloc(size);
        memcpy(was, r.c, size);
        const mu_gradient_id good = rig_id(&r, 1);
        mu_gradient_id bad[8];
        for (int i = 0; i < 8; i++) bad[i] = good;
        bad[0].step++, bad[1].first++, bad[2].rows--, bad[3].version--, bad[4].version += 2;
        bad[5].learner = 3, bad[6].learner = -1, bad[7].incarnation++;
        for (int i = 0; i < 8; i++) {
            assert_int_equal(mu_core_push(r.c, &bad[i]), i == 7 ? MU_FENCED : MU_UNEXPECTED);
            assert_memory_equal(was, r.c, size);
        }
        assert_int_equal(rig_push(&r, 0), MU_UNEXPECTED); // a second time
        assert_int_equal(rig_ask(&r, 1), MU_GO);          // asked again: the same
        assert_memory_equal(was, r.c, size);
        assert_int_equal(mu_core_push(r.c, &good), MU_ACCEPTED);
        free(was);
        rig_fini(&r);
    }
}

// ---- softsync and async ----

static void test_softsync_groups(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 4);
    config.splits = 2, config.rate_rule = MU_RATE_MEAN;
    rig r = rig_make(&config);
    assert_int_equal(rig_begin(&r, 0), MU_GO);
    assert_grant(&r, 0, 0, 0, 0, 4, 4);
    rig_gradient(&r, 3);
    assert_grant(&r, 3, 0, 0, 8, 4, 4);
    assert_false(rig_form(&r));
    rig_gradient(&r, 3);
    assert_int_equal(rig_begin(&r, 3), MU_HOLD); // its queue is full
    assert_true(rig_form(&r));
    assert_int_equal(r.c->n_parts, 2);
    assert_int_equal(mu_core_part_at(r.c, 0)->slot, 0);
    assert_int_equal(mu_core_part_at(r.c, 1)->slot, 1);
    assert_float_equal(rig_weight(&r, 1), 0.25, 0); // 1/2 of the update, by n = 2
    assert_int_equal(rig_begin(&r, 3), MU_HOLD);               // its slots are being read
    rig_gradient(&r, 2);
    assert_int_equal(r.grant[2].version, 0); // what is committed
    rig_applied(&r);
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    rig_gradient(&r, 3);
    assert_int_equal(r.grant[3].version, 1);
    assert_true(rig_form(&r)); // 2, 0: the oldest arrivals
    assert_int_equal(mu_core_part_at(r.c, 0)->id.learner, 2);
    assert_int_equal(mu_core_part_at(r.c, 1)->id.learner, 0);
    assert_int_equal(mu_core_staleness(r.c, 1), 1);
    rig_applied(&r);
    assert_int_equal(r.c->fifo_n, 1);
    rig_fini(&r);
}

static void test_weights(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 6);
    config.splits = 6;
    rig r = rig_make(&config);
    assert_float_equal(mu_core_weight(r.c, 5, 2), 0.5, 0);
    r.c->config.rate_rule = MU_RATE_MEAN;
    assert_float_equal(mu_core_weight(r.c, 5, 2), 0.5 / 6, 1e-8);
    r.c->config.rate_rule = MU_RATE_EACH;
    assert_float_equal(mu_core_weight(r.c, 5, 2), 0.1, 1e-8);
    assert_float_equal(mu_core_weight(r.c, 0, 2), 0.5, 0);
    rig_fini(&r);
    config = rig_config("hardsync", 6);
    config.rate_rule = MU_RATE_EACH;
    r = rig_make(&config);
    assert_float_equal(mu_core_weight(r.c, 0, 6), 1, 0);
    rig_fini(&r);
}

// ---- the bound on staleness ----

static void test_bound_holds_updates(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 3);
    config.bound = 1;
    rig r = rig_make(&config);
    assert_int_equal(rig_begin(&r, 2), MU_GO); // slow, on version 0
    rig_gradient(&r, 0);
    rig_update(&r, 1);
    rig_gradient(&r, 0);
    assert_false(rig_form(&r)); // version 2 would make learner 2 too stale
    rig_gradient(&r, 1);
    assert_int_equal(rig_begin(&r, 0), MU_HOLD); // its last gradient waits for the update
    assert_false(rig_form(&r));
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    assert_true(rig_form(&r)); // it came last, and all before it are taken along
    assert_int_equal(r.c->n_parts, 3);
    assert_int_equal(mu_core_staleness(r.c, 2), 1);
    assert_float_equal(rig_weight(&r, 2), 1.0 / 3, 1e-7);
    rig_applied(&r);
    rig_fini(&r);
}

// The bound is no barrier: while gradients of others are missing a learner computes its next one. So more
// may wait than there are learners, and an update may have to take them all.
static void test_bound_takes_all_that_waits(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 3);
    config.splits = 1, config.bound = 1;
    rig r = rig_make(&config);
    assert_int_equal(rig_begin(&r, 2), MU_GO); // slow, on version 0
    rig_gradient(&r, 0);
    rig_gradient(&r, 1);
    rig_gradient(&r, 0);
    rig_update(&r, 3);
    rig_gradient(&r, 0);
    rig_gradient(&r, 1);
    assert_int_equal(rig_begin(&r, 0), MU_GO);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_false(rig_form(&r)); // version 2 would make learner 2 too stale
    assert_int_equal(rig_push(&r, 2), MU_ACCEPTED);
    assert_true(rig_form(&r));
    assert_int_equal(r.c->n_parts, 5);
    assert_int_equal(mu_core_part_at(r.c, 4)->id.learner, 2);
    assert_int_equal(mu_core_staleness(r.c, 4), 1);
    assert_float_equal(rig_weight(&r, 4), 0.2, 1e-7);
    rig_applied(&r);
    assert_ledger(&r, 8, 8, 0, 0);
    rig_fini(&r);
}

static void test_bound_lets_go_of_the_lost(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    config.bound = 1;
    rig r = rig_make(&config);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    rig_gradient(&r, 0);
    rig_update(&r, 1);
    rig_gradient(&r, 0);
    assert_false(rig_form(&r));
    rig_lost(&r, 1);
    rig_update(&r, 1);
    rig_fini(&r);
}

static void test_too_stale_is_counted(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    rig r = rig_make(&config);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    for (int i = 0; i < 3; i++) {
        rig_gradient(&r, 0);
        rig_update(&r, 1);
    }
    r.c->config.bound = 2; // tightened while the gradient was under way
    const mu_gradient_id id = rig_id(&r, 1);
    assert_int_equal(mu_core_push(r.c, &id), MU_TOO_STALE);
    rig_check(&r);
    assert_ledger(&r, 4, 3, 1, 0);
    assert_int_equal(r.c->samples_rejected, 4);
    assert_int_equal(rig_begin(&r, 1), MU_GO); // goes on with its next samples
    assert_int_equal(r.grant[1].step, 1);
    rig_fini(&r);
}

// ---- runs ----

// A run is as long as what waits, and learners that began during it would be stale by all of it. So few may.
static void test_run_holds_its_learners(void **unused) {
    (void)unused;
    enum { N = 10, AHEAD = N / 5 + 1, ROUNDS = 40 };
    mu_core_config config = rig_config("async", N);
    config.splits = N, config.longest_run = MU_CORE_RUN;
    rig r = rig_make(&config);
    double stale = 0, n = 0;
    for (int l = 0; l < N; l++) assert_int_equal(rig_begin(&r, l), MU_GO);
    for (int round = 0; round < ROUNDS; round++) { // the worst schedule: all push before a run is formed
        for (int l = 0; l < N; l++)
            if (mu_core_learner_at(r.c, l)->computing) assert_int_equal(rig_push(&r, l), MU_ACCEPTED);
        assert_true(rig_form(&r));
        const int64_t end = r.c->version + r.c->applying;
        int begun = 0;
        for (int l = 0; l < N; l++) {
            const int at = (l + round) % N;
            const mu_answer a = rig_begin(&r, at);
            begun += a == MU_GO;
            if (a == MU_HOLD) assert_int_equal(r.grant[at].version, end); // asked again behind it
        }
        assert_int_equal(begun, N + AHEAD - r.c->n_parts);
        for (int i = 0; i < r.c->n_parts; i++, n++) stale += (double)mu_core_staleness(r.c, i);
        rig_applied(&r);
        for (int l = 0; l < N; l++)
            if (!mu_core_learner_at(r.c, l)->computing) assert_int_equal(rig_begin(&r, l), MU_GO);
    }
    if (stale / n > 1.2 * N) fail_msg("mean staleness %g of %d learners", stale / n, N);
    rig_fini(&r);
}

// Two learners that take turns: the first gradient waits for the second, and its learner goes on meanwhile.
static void test_updates_wait_for_their_pair(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 2);
    config.splits = 2, config.longest_run = MU_CORE_RUN, config.pairs = 1;
    rig r = rig_make(&config);
    double stale = 0, n = 0;
    assert_int_equal(rig_begin(&r, 0), MU_GO);
    for (int i = 0; i < 40; i += 2) {
        assert_int_equal(rig_begin(&r, 1), MU_GO);
        assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
        assert_false(rig_form(&r));
        assert_int_equal(rig_begin(&r, 0), MU_GO);
        assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
        assert_int_equal(rig_begin(&r, 1), MU_HOLD); // it has to help
        assert_true(rig_form(&r));
        assert_int_equal(r.c->applying, 2);
        for (int j = 0; j < 2; j++, n++) stale += (double)mu_core_staleness(r.c, j);
        rig_applied(&r);
    }
    if (stale / n > 1.2 * 2) fail_msg("mean staleness %g of 2 learners", stale / n);
    mu_core_stop(r.c);
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED); // the last one is alone
    assert_int_equal(rig_begin(&r, 0), MU_END);
    assert_int_equal(rig_begin(&r, 1), MU_END);
    rig_update(&r, 1);
    assert_true(mu_core_idle(r.c));
    rig_fini(&r);
}

// Where waiting would change what is promised, or brings nothing, updates are formed one by one.
static void test_updates_that_have_no_pair(void **unused) {
    (void)unused;
    static const struct { const char *protocol; int learners, bound, run; } rows[] = {
        {"async", 2, 3, MU_CORE_RUN}, {"async", 2, 0, 1}, {"async", 1, 0, MU_CORE_RUN},
        {"ssp", 2, 3, MU_CORE_RUN},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_core_config config = rig_config(rows[i].protocol, rows[i].learners);
        config.splits = rows[i].learners, config.bound = rows[i].bound;
        config.longest_run = rows[i].run, config.pairs = 1;
        rig r = rig_make(&config);
        for (int l = 0; l < rows[i].learners; l++) assert_int_equal(rig_begin(&r, l), MU_GO);
        assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
        rig_update(&r, 1);
        rig_fini(&r);
    }
}

// By softsync with n = 1 the staleness is counted in updates of all: nothing is to be gained by waiting.
static void test_update_of_all_holds_nobody(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 4);
    config.longest_run = MU_CORE_RUN;
    rig r = rig_make(&config);
    for (int l = 0; l < 4; l++) rig_gradient(&r, l);
    assert_true(rig_form(&r));
    for (int l = 0; l < 4; l++) assert_int_equal(rig_begin(&r, l), MU_GO);
    rig_fini(&r);
}

// ---- ssp and hogwild ----

static void test_ssp_waits_for_the_slowest(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("ssp", 3);
    config.own = 1, config.end_sample = 40; // 10 batches
    rig r = rig_make(&config);
    for (int i = 0; i < 2; i++) {
        rig_gradient(&r, 0);
        rig_update(&r, 1);
    }
    assert_int_equal(rig_begin(&r, 0), MU_HOLD); // 2 ahead of 0
    rig_gradient(&r, 1);
    assert_int_equal(rig_ask(&r, 0), MU_HOLD);
    rig_lost(&r, 2);
    assert_int_equal(rig_ask(&r, 0), MU_HOLD); // it will be replaced
    rig_join(&r, 2);
    rig_gradient(&r, 2);
    assert_int_equal(rig_ask(&r, 0), MU_GO);
    assert_int_equal(rig_push(&r, 0), MU_ACCEPTED);
    // Learner 0 takes what is left; the others have two samples' batches each and then nothing.
    mu_lease s;
    bool ended = false;
    while (!ended) (void)mu_core_lease(r.c, 0, &s, &ended);
    for (int l = 1; l < 3; l++) {
        while (mu_core_form(r.c)) rig_applied(&r);
        rig_gradient(&r, l);
        assert_int_equal(rig_begin(&r, l), MU_END);
    }
    while (mu_core_form(r.c)) rig_applied(&r);
    while (mu_core_learner_at(r.c, 0)->n_leases > 0) { // far ahead now of those that have ended
        rig_gradient(&r, 0);
        rig_update(&r, 1);
    }
    assert_int_equal(rig_begin(&r, 0), MU_END);
    assert_int_equal(r.c->samples_applied, 40);
    rig_fini(&r);
}

static void test_hogwild_ticks_at_once(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("hogwild", 2);
    config.lease_batches = 1, config.end_sample = 12;
    rig r = rig_make(&config);
    assert_int_equal(rig_begin(&r, 1), MU_GO);
    rig_gradient(&r, 0);
    assert_int_equal(r.c->version, 1);
    assert_false(rig_form(&r));
    assert_int_equal(rig_begin(&r, 0), MU_GO);
    assert_int_equal(r.grant[0].version, 1);
    assert_int_equal(rig_push(&r, 1), MU_ACCEPTED);
    assert_int_equal(rig_begin(&r, 1), MU_END); // learner 0 has the last samples
    rig_lost(&r, 0);
    rig_join(&r, 0);
    rig_gradient(&r, 0);
    assert_int_equal(rig_begin(&r, 0), MU_END);
    assert_int_equal(r.c->version, 3);
    assert_ledger(&r, 4, 3, 0, 1);
    rig_fini(&r);
}

// ---- the check itself ----

static void test_check_finds(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("softsync", 4);
    config.splits = 2;
    rig r = rig_make(&config);
    rig_gradient(&r, 0);
    rig_gradient(&r, 1);
    assert_true(rig_form(&r));
    rig_gradient(&r, 2);
    assert_int_equal(rig_begin(&r, 3), MU_GO);
    mu_core_learner *l = (mu_core_learner *)mu_core_learner_at(r.c, 2);
    mu_core_part *p = (mu_core_part *)mu_core_waiting(r.c, 0);
    int64_t *const fields[] = {&l->begun,      &l->accepted,          &l->applied,       &l->rejected,
                               &l->lost,       &r.c->pushed,          &r.c->next_sample, &r.c->samples_leased,
                               &r.c->slowest,  &r.c->samples_applied, &p->id.rows,       &p->id.step,
                               &p->id.version, &l->lease[0].stride};
    char why[200];
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ++*fields[i];
        why[0] = 0;
        if (mu_core_check(r.c, why, sizeof why)) fail_msg("field %zu may be wrong unseen", i);
        assert_true(why[0] != 0);
        --*fields[i];
        rig_check(&r);
    }
    p->slot ^= 1;
    assert_false(mu_core_check(r.c, why, sizeof why));
    assert_false(mu_core_check(r.c, NULL, 0));
    p->slot ^= 1;
    l->computing = 1;
    assert_false(mu_core_check(r.c, why, sizeof why));
    rig_fini(&r);
}

// A gradient as stale as the bound allows is right, one more is not: waiting, being applied or computed.
static void test_check_finds_what_is_too_stale(void **unused) {
    (void)unused;
    enum { BOUND = 3 };
    mu_core_config config = rig_config("softsync", 3);
    config.splits = 3, config.bound = BOUND;
    rig r = rig_make(&config);
    for (int i = 0; i < BOUND + 1; i++) rig_gradient(&r, 0), rig_update(&r, 1);
    rig_gradient(&r, 0);
    assert_true(rig_form(&r));
    rig_gradient(&r, 1);
    assert_int_equal(rig_begin(&r, 2), MU_GO);
    mu_core_part *taken = (mu_core_part *)mu_core_part_at(r.c, 0);
    mu_core_part *waiting = (mu_core_part *)mu_core_waiting(r.c, 0);
    mu_core_learner *l = (mu_core_learner *)mu_core_learner_at(r.c, 2);
    const struct {
        int64_t *version, newest;
    } all[] = {{&taken->id.version, r.c->version}, {&waiting->id.version, r.c->version + 1},
               {&l->version, r.c->version + 1}};
    char why[200];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const int64_t was = *all[i].version;
        *all[i].version = all[i].newest - BOUND;
        rig_check(&r);
        *all[i].version -= 1;
        if (mu_core_check(r.c, why, sizeof why)) fail_msg("version %zu may be too old unseen", i);
        assert_non_null(strstr(why, "bound"));
        *all[i].version = was;
    }
    rig_check(&r);
    rig_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hardsync_steps),
        cmocka_unit_test(test_lost_in_every_state),
        cmocka_unit_test(test_fence_and_unexpected_change_nothing),
        cmocka_unit_test(test_softsync_groups),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_bound_holds_updates),
        cmocka_unit_test(test_bound_takes_all_that_waits),
        cmocka_unit_test(test_bound_lets_go_of_the_lost),
        cmocka_unit_test(test_too_stale_is_counted),
        cmocka_unit_test(test_run_holds_its_learners),
        cmocka_unit_test(test_updates_wait_for_their_pair),
        cmocka_unit_test(test_updates_that_have_no_pair),
        cmocka_unit_test(test_update_of_all_holds_nobody),
        cmocka_unit_test(test_ssp_waits_for_the_slowest),
        cmocka_unit_test(test_hogwild_ticks_at_once),
        cmocka_unit_test(test_check_finds),
        cmocka_unit_test(test_check_finds_what_is_too_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

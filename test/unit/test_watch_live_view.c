// SPDX-License-Identifier: Apache-2.0
// One look at a run: numbers, rates between looks, the ledger of one moment, JSON.
#include "fake_run.h"

#include "file/json.h"
#include "watch/live_view.h"

#include <math.h>

// A region that nobody works on.
static void still(fake_run *f, int learners) {
    *f = (fake_run){0};
    fake_lay_out(f, learners);
}

static void set_learner(mu_shared_learner *l, int pid) {
    atomic_store(&l->pid, pid);
    atomic_store(&l->incarnation, 2);
    atomic_store(&l->doing, MU_DOING_WAIT);
    atomic_store(&l->samples, 1000);
    atomic_store(&l->gradients, 250);
    atomic_store(&l->compute_ns, 3000000000);
    atomic_store(&l->wait_ns, 1000000000);
    atomic_store(&l->loss, 0.5);
    atomic_store(&l->n_stale, 10);
    atomic_store(&l->stale_sum, 15);
    atomic_store(&l->stale_max, 3);
    atomic_store(&l->stale_hist[1], 6);
    atomic_store(&l->stale_hist[3], 4);
    atomic_store(&l->losses, 1);
}

static void test_before_the_first_step(void **state) {
    (void)state;
    fake_run f;
    mu_live_view v;
    still(&f, 3);
    assert_ok(mu_live_view_init(&v, &f.g, err));
    mu_live_look(&v, &f.g);
    assert_int_equal(v.n_learners, 3);
    assert_true(isnan(v.loss) && isnan(v.overlap) && isnan(v.stale_mean));
    assert_true(v.learner[0].quiet_s < 0 && v.samples_per_s == 0);
    assert_true(v.ledger_known);
    assert_int_equal(v.ledger.produced, 0);
    mu_live_view_fini(&v);
    mu_live_view_fini(&v);
    mu_region_close(&f.g.region);
}

// Of several ranks the times are those that each has told, and the first one's rows are among them.
static void test_ranks(void **state) {
    (void)state;
    fake_run f;
    mu_live_view v;
    mu_shared_rank rank[2];
    still(&f, 2);
    set_learner(&f.g.learner[0], 11);
    atomic_store(&rank[0].compute_ns, 9000000000), atomic_store(&rank[0].wait_ns, 1000000000);
    atomic_store(&rank[1].compute_ns, 5000000000), atomic_store(&rank[1].wait_ns, 5000000000);
    f.g.rank = rank;
    f.g.head->n_ranks = 2;
    assert_ok(mu_live_view_init(&v, &f.g, err));
    mu_live_look(&v, &f.g);
    assert_int_equal(v.n_ranks, 2);
    assert_true(fabs(v.compute_s - 14) < 1e-9 && fabs(v.wait_s - 6) < 1e-9 && fabs(v.overlap - 0.7) < 1e-9);
    assert_int_equal(mu_rank_by_overlap(v.rank, 2, 1), 0);
    assert_int_equal(mu_rank_by_overlap(v.rank, 2, -1), 1);
    json_t *o = mu_live_json(&v), *times = json_object_get(o, "rank_times");
    assert_true(fabs(json_real_value(json_array_get(json_object_get(times, "overlap"), 1)) - 0.5) < 1e-9);
    json_decref(o);
    mu_live_view_fini(&v);
    mu_region_close(&f.g.region);
}

static void test_numbers_and_rates(void **state) {
    (void)state;
    fake_run f;
    mu_live_view a, b;
    still(&f, 2);
    set_learner(&f.g.learner[0], 11);
    set_learner(&f.g.learner[1], 12);
    atomic_store(&f.g.head->samples, 2500);
    atomic_store(&f.g.head->version, 300);
    assert_ok(mu_live_view_init(&a, &f.g, err));
    assert_ok(mu_live_view_init(&b, &f.g, err));
    mu_live_look(&a, &f.g);
    assert_int_equal(a.version, 300);
    assert_false(a.warming);
    f.g.head->warm_end = 300;
    mu_live_look(&a, &f.g);
    assert_false(a.warming); // version 300 was the last one of the warm start
    assert_int_equal(a.step, 2500 / 8);
    assert_true(fabs(a.epoch - 2.5) < 1e-12 && fabs(a.overlap - 0.75) < 1e-12);
    assert_true(fabs(a.stale_mean - 1.5) < 1e-12 && fabs(a.loss - 0.5) < 1e-12);
    assert_int_equal(a.stale_max, 3);
    assert_int_equal(a.stale_hist[1], 12);
    assert_int_equal(a.losses, 2);
    assert_true(fabs(a.learner[0].compute_share - 0.75) < 1e-12);
    // Learner 0 works on, learner 1 does not move.
    atomic_store(&f.g.learner[0].samples, 1100);
    atomic_store(&f.g.learner[0].gradients, 275);
    atomic_store(&f.g.learner[0].compute_ns, 3100000000);
    atomic_store(&f.g.learner[0].wait_ns, 1300000000);
    atomic_store(&f.g.head->samples, 2600);
    f.g.head->warm_end = 301;
    mu_live_look(&b, &f.g);
    assert_true(b.warming);
    b.now_ns = a.now_ns + 500000000;
    mu_live_rates(&b, &a);
    assert_true(fabs(b.samples_per_s - 200) < 1e-9);
    assert_true(fabs(b.learner[0].samples_per_s - 200) < 1e-9 && b.learner[1].samples_per_s == 0);
    assert_true(fabs(b.learner[0].compute_share - 0.25) < 1e-9);
    assert_true(fabs(b.learner[1].compute_share - 0.75) < 1e-9);
    mu_live_view_fini(&a);
    mu_live_view_fini(&b);
    mu_region_close(&f.g.region);
}

// ---- the ledger while others switch cores as fast as they can -----------------------------------

static mu_core *core_at(fake_run *f, int i) {
    return (mu_core *)(void *)(f->g.region.base + f->g.head->at_core + (uint64_t)i * f->g.head->core_bytes);
}

enum { MANY = 64 };             // so that a copy takes as long as a change

// What shared.c does at every change. Each good core has begun = accepted = applied = n for every learner.
static void switch_on(fake_run *f) {
    for (int64_t n = 1;; n++) {
        int good = atomic_load(&f->g.head->core_at);
        mu_core *spare = core_at(f, 1 - good);
        memcpy(spare, core_at(f, good), f->g.head->core_bytes);
        for (int i = 0; i < MANY; i++) {
            mu_core_learner *l = (mu_core_learner *)mu_core_learner_at(spare, i);
            l->begun = l->accepted = l->applied = n;
        }
        atomic_store(&f->g.head->core_at, 1 - good);
        if (n % 1024 == 0) usleep(50);
    }
}

static void test_ledger_is_of_one_moment(void **state) {
    (void)state;
    fake_run f;
    mu_live_view v;
    still(&f, MANY);
    assert_ok(mu_live_view_init(&v, &f.g, err));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        switch_on(&f);
    }
    int known = 0;
    for (int i = 0; i < 20000; i++) {
        mu_live_look(&v, &f.g);
        known += v.ledger_known;
        if (!v.ledger_known) continue;
        assert_int_equal(v.ledger.produced, v.ledger.applied);
        assert_int_equal(v.ledger.produced % MANY, 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    print_message("%d of 20000 looks found a quiet moment, %lld gradients\n", known,
                  (long long)v.ledger.produced);
    assert_true(known > 0 && v.ledger.produced > 0);
    mu_live_view_fini(&v);
    mu_region_close(&f.g.region);
}

static void test_json(void **state) {
    (void)state;
    fake_run f;
    mu_live_view v;
    mu_json_init();
    still(&f, 2);
    set_learner(&f.g.learner[0], 11);
    memcpy(f.g.head->run_dir, "runs/\xff", 7); // no UTF-8
    assert_ok(mu_live_view_init(&v, &f.g, err));
    mu_live_look(&v, &f.g);
    json_t *o = mu_live_json(&v);
    assert_non_null(o);
    assert_int_equal(json_array_size(json_object_get(o, "table")), 2);
    assert_string_equal(json_string_value(json_object_get(o, "state")), "starting");
    assert_string_equal(json_string_value(json_object_get(o, "run")), "?");
    assert_int_equal(json_array_size(json_object_get(json_object_get(o, "staleness"), "hist")), 4);
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(o, "table"), 1), "loss")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "gradients"), "produced")), 0);
    json_decref(o);
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int i = 1; i < 400; i++) { // every failing allocation: NULL, or all there; never a leak
        mu_alloc_fail_at(i);
        o = mu_live_json(&v);
        mu_alloc_fail_at(0);
        if (o) assert_int_equal(json_object_size(o), 40);
        json_decref(o);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
    }
    mu_live_view_fini(&v);
    mu_region_close(&f.g.region);
}

static double number_at(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

// Of a run that was resumed after 3 steps and has made 5: weights were read once less.
static void test_bytes(void **state) {
    (void)state;
    fake_run f;
    mu_live_view v;
    still(&f, 2);
    f.g.head->counts_moved = 1;
    f.g.head->global_batch = 8;
    f.g.head->first_sample = 3 * 8;
    atomic_store(&f.g.head->samples, 8 * 8);
    atomic_store(&f.g.learner[0].values_moved, 60);
    atomic_store(&f.g.learner[1].values_moved, 40);
    atomic_store(&f.g.learner[1].weights_moved, 24);
    assert_ok(mu_live_view_init(&v, &f.g, err));
    mu_live_look(&v, &f.g);
    json_t *o = mu_live_json(&v), *b = json_object_get(o, "bytes"), *each = json_object_get(b, "per_step");
    assert_int_equal(json_integer_value(json_object_get(b, "values")), 100);
    assert_int_equal(json_integer_value(json_object_get(b, "weights")), 24);
    assert_near(number_at(each, "values"), 20, 0);
    assert_near(number_at(each, "weights"), 6, 0);
    assert_near(number_at(each, "gradients"), 0, 0);
    json_decref(o);
    f.g.head->counts_moved = 0;
    mu_live_look(&v, &f.g);
    o = mu_live_json(&v);
    assert_true(json_is_null(json_object_get(o, "bytes")));
    json_decref(o);
    mu_live_view_fini(&v);
    mu_region_close(&f.g.region);
}

static void test_no_memory(void **state) {
    (void)state;
    fake_run f;
    mu_live_view v;
    still(&f, 2);
    for (int i = 1; i <= 2; i++) {
        mu_alloc_fail_at(i);
        assert_fails(mu_live_view_init(&v, &f.g, err), MU_ENOMEM, "out of memory");
        mu_alloc_fail_at(0);
    }
    mu_region_close(&f.g.region);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_first_step), cmocka_unit_test(test_ranks), cmocka_unit_test(test_numbers_and_rates),
        cmocka_unit_test(test_ledger_is_of_one_moment), cmocka_unit_test(test_json),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

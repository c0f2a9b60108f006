// SPDX-License-Identifier: Apache-2.0
// Predictions: limits that can be worked out by hand, and orders that hold on any machine.
#include "plan_help.h"

#include "plan/predict_inner.h"

typedef struct rig { mu_arena a; mu_machine m; mu_costs k; } rig;

static rig begin(int nodes, int cores) {
    rig r = {.m = plain_machine(nodes, cores), .k = plain_costs(4)};
    mu_arena_init(&r.a, "test");
    return r;
}

static void end(rig *r) {
    mu_costs_fini(&r->k);
    mu_arena_fini(&r->a);
}

static mu_config config(rig *r, int nodes, int learners, const char *protocol) {
    mu_config c = {.nodes = nodes, .learners = learners, .workers = 1, .server_groups = 1,
                   .mu = (64 + learners - 1) / learners};
    snprintf(c.protocol, sizeof c.protocol, "%s", protocol);
    assert_ok(mu_config_bind_protocol(&r->a, protocol, &c.how, ok_err));
    return c;
}

static mu_prediction predict(rig *r, const mu_config *c) {
    mu_prediction p;
    assert_ok(mu_predict(&r->k, &r->m, c, NULL, &p, ok_err));
    double sum = 0;
    for (int t = 0; t < MU_PLAN_TERMS; t++) {
        if (!(p.term_s[t] >= 0) || !isfinite(p.term_s[t])) fail_msg("term %d of %s", t, c->protocol);
        sum += p.term_s[t];
    }
    assert_true(fabs(sum - p.step_s) < 1e-12 + 1e-9 * sum);
    return p;
}

// ---- queues ----

static void test_expects_the_largest(void **state) {
    (void)state;
    assert_true(fabs(mu_expected_max(1)) < 1e-12);
    assert_true(fabs(mu_expected_max(2) - 0.5642) < 0.001);
    assert_true(fabs(mu_expected_max(3) - 0.8463) < 0.025);
    assert_true(fabs(mu_expected_max(16) - 1.7660) < 0.02);
    assert_true(fabs(mu_expected_max(1000) - 3.2414) < 0.03);
}

// A machine with repairmen, by hand: one server, exponential times; utilisation by Erlang's formula.
static double repairmen(int n, double z, double s) {
    double p = 1, sum = 1, busy = 0; // p: of k at the server, over that of none
    for (int k = 1; k <= n; k++) {
        p *= (n - k + 1) * s / z;
        sum += p;
        busy += p;
    }
    return n / (busy / sum / s); // round of one of n
}

static void test_closed_queue(void **state) {
    (void)state;
    for (int n = 1; n <= 12; n++)
        for (double s = 0.01; s < 10; s *= 3) {
            const double want = repairmen(n, 1, s), got = mu_queue_with_answer(n, 1, s);
            if (fabs(got - want) > 1e-9 * want) fail_msg("%d customers, service %g: %g, not %g", n, s, got, want);
        }
}

static void test_queue_with_slots(void **state) {
    (void)state;
    // Nothing to serve, nothing to compute, and one side far slower than the other.
    assert_true(fabs(mu_queue_with_slots(4, 1, 0) - 1) < 1e-12);
    assert_true(fabs(mu_queue_with_slots(4, 1, 0.001) - 1) < 0.02);
    assert_true(fabs(mu_queue_with_slots(4, 0.001, 1) - 4) < 0.05);
    for (int n = 1; n <= 16; n++)
        for (double s = 0.01; s < 10; s *= 2) {
            const double t = mu_queue_with_slots(n, 1, s);
            assert_true(t >= 1 && t >= n * s - 1e-12);                  // neither side can be overtaken
            assert_true(t <= mu_queue_with_answer(n, 1, s) + 1e-9);     // a second slot never costs
        }
}

// ---- one node ----

static void test_one_learner(void **state) {
    (void)state;
    rig r = begin(1, 4);
    const mu_config c = config(&r, 1, 1, "hardsync");
    const mu_prediction p = predict(&r, &c);
    assert_true(fabs(p.step_s - r.k.alone_s[3]) < 1e-12); // what was measured
    assert_true(fabs(p.samples_per_s - 64 / r.k.alone_s[3]) < 1e-6);
    assert_true(fabs(p.epoch_s - 100 * p.step_s) < 1e-9);
    assert_true(p.staleness == 0 && p.wire_bytes == 0);
    end(&r);
}

static void test_in_step(void **state) {
    (void)state;
    rig r = begin(1, 4);
    double before = INFINITY;
    for (int n = 2; n <= 4; n++) {
        const mu_config c = config(&r, 1, n, "hardsync");
        const mu_prediction p = predict(&r, &c);
        assert_true(p.step_s < before); // mostly computing: more learners, shorter steps
        assert_true(p.term_s[MU_TERM_COMPUTE] >= mu_cost_at(&r.k, r.k.gradient_s, 64.0 / n));
        before = p.step_s;
    }
    // Twice the spread, twice the wait for the last one; none without.
    const mu_config c = config(&r, 1, 4, "hardsync");
    r.k.spread = 0, r.m.wake_s = 0;
    assert_true(predict(&r, &c).term_s[MU_TERM_WAIT] < 1e-15);
    r.k.spread = 0.1;
    const double one = predict(&r, &c).term_s[MU_TERM_WAIT];
    r.k.spread = 0.2;
    assert_true(fabs(predict(&r, &c).term_s[MU_TERM_WAIT] - 2 * one) < 1e-12);
    end(&r);
}

static void test_protocols_differ(void **state) {
    (void)state;
    rig r = begin(1, 8);
    r.k.spread = 0.2; // stragglers
    const mu_config hard = config(&r, 1, 4, "hardsync"), soft = config(&r, 1, 4, "softsync"),
                    async = config(&r, 1, 4, "async"), ssp = config(&r, 1, 4, "ssp"),
                    mirror = config(&r, 1, 4, "mirror"), four = config(&r, 1, 4, "{type: mirror, every: 4}");
    assert_true(predict(&r, &hard).term_s[MU_TERM_WAIT] > predict(&r, &ssp).term_s[MU_TERM_WAIT]);
    assert_true(predict(&r, &ssp).term_s[MU_TERM_WAIT] > predict(&r, &async).term_s[MU_TERM_WAIT]);
    // One update of four gradients goes over the weights once, four updates four times.
    assert_true(predict(&r, &soft).term_s[MU_TERM_APPLY] < predict(&r, &async).term_s[MU_TERM_APPLY]);
    assert_true(predict(&r, &hard).staleness == 0 && predict(&r, &soft).staleness == 1);
    assert_true(predict(&r, &async).staleness == 4 && predict(&r, &four).staleness > predict(&r, &mirror).staleness);
    assert_true(predict(&r, &mirror).memory_bytes > predict(&r, &soft).memory_bytes); // weights of one's own
    // Sums of a learner's own gradients pass over the shared weights less often.
    const mu_config each = config(&r, 1, 4, "hogwild"), eight = config(&r, 1, 4, "{type: hogwild, every: 8}");
    assert_true(predict(&r, &eight).term_s[MU_TERM_EXCHANGE] < predict(&r, &each).term_s[MU_TERM_EXCHANGE]);
    end(&r);
}

// Lines that travel slowly cost those who write what others read, and nobody else.
static void test_far_cores(void **state) {
    (void)state;
    rig r = begin(1, 2);
    const mu_config alone = config(&r, 1, 1, "hardsync"), two = config(&r, 1, 2, "hogwild"),
                    own = config(&r, 1, 2, "mirror");
    const double near = predict(&r, &two).step_s, one = predict(&r, &alone).step_s, mirror = predict(&r, &own).step_s;
    r.m.lines.bytes_per_s = 2e9;
    assert_true(predict(&r, &two).step_s > 1.05 * near);
    assert_true(fabs(predict(&r, &alone).step_s - one) < 1e-12);
    assert_true(fabs(predict(&r, &own).step_s - mirror) < 1e-12);
    // Where they were measured, that counts, and not the machine's own number.
    r.k.crowd = 2, r.k.lines_read_s = 0.5, r.k.lines_apply_s = 1;
    assert_true(fabs(predict(&r, &two).term_s[MU_TERM_EXCHANGE] - (0.5 + 1 * 0.5)) < 1e-3);
    snprintf(r.m.cpu, sizeof r.m.cpu, "Y");
    assert_true(predict(&r, &two).term_s[MU_TERM_EXCHANGE] < 0.1);
    end(&r);
}

static void test_server(void **state) {
    (void)state;
    rig r = begin(1, 8);
    mu_config c = config(&r, 1, 4, "async");
    c.server = MU_SERVER_BESIDE;
    const double beside = predict(&r, &c).step_s;
    c.server = MU_SERVER_BOTH, c.server_threads = 1;
    const double both = predict(&r, &c).step_s;
    c.server_threads = 4;
    const double four = predict(&r, &c).step_s;
    assert_true(both < beside && four <= both); // cores are free
    c.server = MU_SERVER_PROCESS, c.server_threads = 1;
    for (int i = 0; i < MU_COST_SIZES; i++) r.k.apply_s[i] = 0.1, r.k.sweep_s[i] = 0.05;
    assert_true(predict(&r, &c).step_s >= 4 * 0.1); // one server, four gradients in a step
    end(&r);
}

static void test_crowds(void **state) {
    (void)state;
    rig r = begin(1, 4);
    const mu_config c = config(&r, 1, 4, "async");
    const double in_peace = predict(&r, &c).term_s[MU_TERM_COMPUTE];
    r.k.crowd = 4, r.k.crowd_gradient = 1.5;
    assert_true(fabs(predict(&r, &c).term_s[MU_TERM_COMPUTE] - 1.5 * mu_cost_at(&r.k, r.k.gradient_s, 16)) < 1e-12);
    assert_true(predict(&r, &c).term_s[MU_TERM_COMPUTE] > in_peace);
    // More processes than cores share them.
    const mu_config eight = config(&r, 1, 8, "async");
    assert_true(predict(&r, &eight).step_s > 1.8 * mu_cost_at(&r.k, r.k.gradient_s, 8));
    end(&r);
}

static void test_slower_machine(void **state) {
    (void)state;
    rig r = begin(1, 4);
    const mu_config c = config(&r, 1, 1, "hardsync");
    const double here = predict(&r, &c).step_s;
    snprintf(r.m.cpu, sizeof r.m.cpu, "Y");
    for (int i = 0; i < r.m.n_loads; i++) r.m.load[i].flops_per_s = 2e10;
    assert_true(fabs(predict(&r, &c).step_s - 5 * here) < 1e-9);
    end(&r);
}

static void test_workers(void **state) {
    (void)state;
    rig r = begin(1, 4);
    mu_config c = config(&r, 1, 1, "hardsync");
    c.workers = 2;
    mu_prediction p;
    mu_err err = {0};
    assert_int_equal(mu_predict(&r.k, &r.m, &c, NULL, &p, &err), MU_EUNSUPPORTED);
    r.k.split[0] = (mu_cost_split){.workers = 2, .bridges = 4, .share = {0.6, 0.55, 0.5, 0.5}};
    r.k.n_splits = 1;
    const double free_bridges = predict(&r, &c).step_s;
    for (int i = 0; i < MU_COST_SIZES; i++) r.k.split[0].values_bytes[i] = 1e7;
    assert_true(predict(&r, &c).term_s[MU_TERM_BRIDGES] > 4e-4);
    assert_true(predict(&r, &c).step_s > free_bridges);
    end(&r);
}

// ---- several nodes ----

static void test_joint(void **state) {
    (void)state;
    rig r = begin(4, 2);
    r.m.network.bytes_per_s = 1e10;
    const mu_config one = config(&r, 1, 2, "hardsync"), four = config(&r, 4, 8, "hardsync");
    const mu_prediction a = predict(&r, &one), b = predict(&r, &four);
    assert_true(b.step_s < a.step_s && b.term_s[MU_TERM_WIRE] > 0);
    // Dense gradients are summed: 2 (n - 1) / n of the floats leave a node, whatever its learners.
    assert_true(fabs(b.wire_bytes - 1.5 * 4 * r.k.floats) < 1);
    r.m.network.bytes_per_s = 1e7;
    assert_true(predict(&r, &four).step_s > a.step_s); // such a network does not pay
    r.m.network.bytes_per_s = 1e12, r.m.network.latency_s = 0, r.m.network.message_s = 0, r.m.network.byte_s = 0;
    for (int i = 0; i < r.m.n_loads; i++) r.m.load[i].bytes_per_s = 1e14; // nor what the parents add up
    assert_true(predict(&r, &four).term_s[MU_TERM_WIRE] < 0.05 * b.step_s); // and such a one is not felt
    end(&r);
}

static void test_groups_and_roots(void **state) {
    (void)state;
    rig r = begin(4, 2);
    mu_config groups = config(&r, 4, 8, "async");
    groups.server_groups = 4, groups.sync_every = 10;
    const double often = predict(&r, &groups).term_s[MU_TERM_WIRE];
    groups.sync_every = 100;
    assert_true(fabs(predict(&r, &groups).term_s[MU_TERM_WIRE] - often / 10) < 1e-9);
    mu_config base = config(&r, 4, 8, "hardsync");
    base.architecture = MU_ARCHITECTURE_BASE;
    mu_config adv = base;
    adv.architecture = MU_ARCHITECTURE_ADV;
    assert_true(predict(&r, &adv).step_s < predict(&r, &base).step_s); // sums of two learners, weights once a node
    mu_config star = config(&r, 4, 8, "async"), same = star;
    star.architecture = MU_ARCHITECTURE_ADV_STAR, same.architecture = MU_ARCHITECTURE_ADV;
    assert_true(predict(&r, &star).step_s <= predict(&r, &same).step_s); // it goes on meanwhile
    assert_true(predict(&r, &star).staleness > predict(&r, &same).staleness);
    end(&r);
}

static void expect_refused(rig *r, const mu_config *c) {
    mu_prediction p;
    mu_err err = {0};
    assert_int_equal(mu_predict(&r->k, &r->m, c, NULL, &p, &err), MU_EUNSUPPORTED);
    assert_true(err.msg[0]);
}

static void test_refuses(void **state) {
    (void)state;
    rig r = begin(2, 4);
    mu_config c = config(&r, 1, 65, "hardsync");
    expect_refused(&r, &c);
    c = config(&r, 3, 3, "hardsync");
    expect_refused(&r, &c);
    c = config(&r, 2, 3, "hardsync");
    expect_refused(&r, &c);
    c = config(&r, 2, 2, "async"); // one copy on two nodes, not in step
    expect_refused(&r, &c);
    c = config(&r, 1, 2, "hogwild");
    c.server = MU_SERVER_PROCESS, c.server_threads = 1;
    expect_refused(&r, &c);
    c = config(&r, 2, 2, "hardsync");
    r.m.network.bytes_per_s = 0;
    expect_refused(&r, &c);
    end(&r);
}

// Anything that is possible gives numbers that can be, and no less than the least.
static void test_random(void **state) {
    (void)state;
    static const char *const protocol[] = {"hardsync", "softsync", "async", "ssp", "hogwild", "mirror",
                                           "{type: hogwild, every: 4}", "{type: mirror, every: 2}"};
    dice d = {12345};
    for (int i = 0; i < 3000; i++) {
        rig r = {.m = random_machine(&d), .k = random_costs(&d)};
        mu_arena_init(&r.a, "test");
        const int nodes = pick(&d, 1, r.m.nodes);
        mu_config c = config(&r, nodes, nodes * pick(&d, 1, 8), protocol[pick(&d, 0, 7)]);
        c.workers = 1 << pick(&d, 0, 2), c.auto_cut = pick(&d, 0, 1);
        c.server = (mu_server_place)pick(&d, 0, 3), c.server_threads = c.server > 1 ? pick(&d, 1, 3) : 0;
        c.architecture = (mu_architecture)pick(&d, 0, 3);
        c.server_groups = pick(&d, 0, 1) ? nodes : 1, c.sync_every = 20;
        mu_prediction p;
        mu_err err = {0};
        if (mu_predict(&r.k, &r.m, &c, NULL, &p, &err) == MU_OK) {
            const mu_prediction q = predict(&r, &c);
            assert_true(q.step_s > 0 && isfinite(q.epoch_s) && q.memory_bytes > 0 && q.staleness >= 0);
            assert_true(q.step_s >= mu_predict_least_s(&r.k, &r.m, &c, NULL) * (1 - 1e-12));
        }
        end(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expects_the_largest), cmocka_unit_test(test_closed_queue),
        cmocka_unit_test(test_queue_with_slots), cmocka_unit_test(test_one_learner), cmocka_unit_test(test_in_step),
        cmocka_unit_test(test_protocols_differ), cmocka_unit_test(test_far_cores), cmocka_unit_test(test_server),
        cmocka_unit_test(test_crowds), cmocka_unit_test(test_slower_machine), cmocka_unit_test(test_workers),
        cmocka_unit_test(test_joint), cmocka_unit_test(test_groups_and_roots), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

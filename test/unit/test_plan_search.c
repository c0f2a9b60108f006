// SPDX-License-Identifier: Apache-2.0
// The search finds what looking at everything finds; deadlines, memory, limits; large clusters in time.
#include "plan_help.h"

#include "base/clock.h"

static mu_plan_space space_of(mu_arena *a) {
    mu_plan_space s = {.least_nodes = 1, .most_nodes = 1024, .most_workers = 16, .share = true, .epochs = 1};
    all_protocols(a, &s);
    return s;
}

// ---- brute force: every configuration by plain loops, nothing of the search's own ----

typedef struct brute { mu_plan_choice best[MU_PLAN_BEST]; int n; int64_t possible; } brute;

static void try(brute *b, const mu_costs *k, const mu_machine *m, const mu_config *c) {
    mu_plan_choice new = {.config = *c};
    if (mu_predict(k, m, c, NULL, &new.prediction, NULL) != MU_OK) return;
    if (new.prediction.memory_bytes > m->memory_bytes) return;
    b->possible++;
    int at = b->n < MU_PLAN_BEST ? b->n++ : MU_PLAN_BEST;
    for (; at > 0 && b->best[at - 1].prediction.epoch_s > new.prediction.epoch_s; at--)
        if (at < MU_PLAN_BEST) b->best[at] = b->best[at - 1];
    if (at < MU_PLAN_BEST) b->best[at] = new;
}

static void try_servers(brute *b, const mu_costs *k, const mu_machine *m, mu_config c) {
    const int spare = m->cores - mu_config_node_processes(&c);
    c.server = MU_SERVER_BESIDE;
    try(b, k, m, &c);
    for (int t = 1; t <= 4 && t <= spare; t *= 2) {
        c.server_threads = t;
        c.server = MU_SERVER_PROCESS;
        try(b, k, m, &c);
        c.server = MU_SERVER_BOTH;
        try(b, k, m, &c);
    }
}

static void try_ways(brute *b, const mu_costs *k, const mu_machine *m, const mu_plan_space *s, mu_config c) {
    for (int i = 0; i < s->n_protocols; i++) {
        mu_objection no;
        if (c.learners == 1 && i > 0) break;
        memcpy(c.protocol, s->protocol[i].text, sizeof c.protocol);
        c.how = s->protocol[i].how;
        const mu_protocol_class *p = mu_config_class(&c);
        const bool serves = !mu_protocol_objects(p, MU_CHOICE_SERVER, &no) && mu_config_processes(&c) > 1;
        mu_config merges = c, root = c;
        if (serves) try_servers(b, k, m, c);
        else try(b, k, m, &c);
        merges.server_groups = c.nodes, merges.sync_every = 50;
        snprintf(merges.merge, sizeof merges.merge, "average");
        if (c.nodes > 1 && serves) try_servers(b, k, m, merges);
        else if (c.nodes > 1) try(b, k, m, &merges);
        for (int a = 1; a <= 3 && c.nodes > 1; a++) {
            root.architecture = (mu_architecture)a;
            try(b, k, m, &root);
        }
    }
}

static brute look_at_all(const mu_costs *k, const mu_machine *m, const mu_plan_space *s) {
    brute b = {0};
    for (int nodes = 1; nodes <= m->nodes; nodes++)
        for (int workers = 1; workers <= m->cores; workers++)
            for (int l = 1; l * workers <= m->cores; l++)
                for (int cut = 0; cut < (workers > 1 ? 2 : 1); cut++) {
                    mu_config c = {.nodes = nodes, .learners = nodes * l, .workers = workers, .server_groups = 1,
                                   .auto_cut = cut};
                    c.mu = (k->batch + c.learners - 1) / c.learners;
                    try_ways(&b, k, m, s, c);
                    for (int i = 0; i < s->n_mu; i++) {
                        c.mu = s->mu[i], c.own_mu = true;
                        try_ways(&b, k, m, s, c);
                    }
                    c.own_mu = false;
                }
    return b;
}

// 200 random machines and jobs; the seed of one that fails is printed.
static void test_equals_brute_force(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    int64_t passed_over = 0, found = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        dice d = {seed * 0x9E3779B97F4A7C15u};
        mu_machine m = random_machine(&d);
        mu_costs k = random_costs(&d);
        mu_plan_space s = space_of(&a);
        s.merges = s.roots = true;
        if (pick(&d, 0, 1)) s.mu[s.n_mu++] = pick(&d, 1, 128);
        mu_plan p;
        mu_err err = {0};
        const brute b = look_at_all(&k, &m, &s);
        const mu_status st = mu_plan_search(&k, &m, &s, NULL, &p, &err);
        if ((st == MU_OK) != (b.n > 0)) fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
        if (st == MU_OK && p.n != b.n) fail_msg("seed %llu: %d and %d", (unsigned long long)seed, p.n, b.n);
        for (int i = 0; st == MU_OK && i < b.n; i++) {
            const double want = b.best[i].prediction.epoch_s, got = p.choice[i].prediction.epoch_s;
            if (fabs(got - want) > 1e-12 * want)
                fail_msg("seed %llu, place %d: %g, not %g", (unsigned long long)seed, i, got, want);
        }
        found += st == MU_OK;
        passed_over += b.possible > p.looked_at;
        mu_costs_fini(&k);
    }
    assert_true(found > 150 && passed_over > 50); // it is a search, and not the same loops
    mu_arena_fini(&a);
}

static void test_many_nodes_in_time(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_machine m = plain_machine(1024, 16);
    mu_costs k = plain_costs(30);
    mu_plan_space s = space_of(&a);
    mu_plan p;
    s.merges = s.roots = true;
    k.batch = 65536, k.records = 1 << 24;
    const double began = mu_clock_s();
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    const double took = mu_clock_s() - began;
    printf("1,024 nodes, 30 layers: %.2f s, %lld predictions\n", took, (long long)p.looked_at);
    assert_true(p.choice[0].config.nodes > 1);
    assert_true(took < 60); // 5 are wanted, on a machine that does nothing else
    mu_costs_fini(&k);
    mu_arena_fini(&a);
}

static void test_limits(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_machine m = plain_machine(1, 8);
    mu_costs k = plain_costs(4);
    mu_plan_space s = space_of(&a);
    mu_plan p;
    mu_err err = {0};
    s.most_learners = 3;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    for (int i = 0; i < p.n; i++) assert_true(p.choice[i].config.learners <= 3);
    assert_true(p.alone.prediction.step_s > 0);
    s.memory_bytes = 1e5; // nothing fits
    assert_int_equal(mu_plan_search(&k, &m, &s, NULL, &p, &err), MU_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "fits no such machine"));
    mu_err_clear(&err);
    s.memory_bytes = 0, s.least_nodes = 2;
    assert_int_equal(mu_plan_search(&k, &m, &s, NULL, &p, &err), MU_EUSAGE);
    mu_costs_fini(&k);
    mu_arena_fini(&a);
}

// Of those in time the one with the fewest processes; where none is, the fastest, and it says so.
static void test_deadline(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_machine m = plain_machine(1, 8);
    mu_costs k = plain_costs(4);
    mu_plan_space s = space_of(&a);
    mu_plan p;
    s.n_protocols = 0;
    s.protocol[s.n_protocols++] = (mu_plan_protocol){.text = "hardsync"};
    assert_ok(mu_config_bind_protocol(&a, "hardsync", &s.protocol[0].how, ok_err));
    s.deadline_s = 1e9;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    assert_false(p.late);
    assert_int_equal(mu_config_processes(&p.choice[p.wanted].config), 1);
    const double fastest = mu_plan_total_s(&s, &p.choice[0].prediction);
    s.deadline_s = fastest * 1.3;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    assert_false(p.late);
    const mu_plan_choice *c = &p.choice[p.wanted];
    assert_true(mu_plan_total_s(&s, &c->prediction) <= s.deadline_s);
    for (int i = 0; i < p.n; i++)
        if (mu_plan_total_s(&s, &p.choice[i].prediction) <= s.deadline_s)
            assert_true(mu_config_processes(&p.choice[i].config) >= mu_config_processes(&c->config));
    s.deadline_s = fastest / 2;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    assert_true(p.late && p.wanted == 0);
    mu_costs_fini(&k);
    mu_arena_fini(&a);
}

// Servers that change nothing are not chosen.
static void test_takes_the_simplest(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_machine m = plain_machine(1, 8);
    mu_costs k = plain_costs(2);
    mu_plan_space s = space_of(&a);
    mu_plan p;
    for (int i = 0; i < MU_COST_SIZES; i++) k.apply_s[i] = 1e-9, k.sweep_s[i] = 0; // nothing to serve
    s.most_learners = 4;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    const mu_plan_choice *c = &p.choice[p.wanted];
    assert_true(c->prediction.epoch_s <= 1.01 * p.choice[0].prediction.epoch_s);
    assert_int_equal(c->config.server_threads, 0);
    for (int i = 0; i < p.n; i++)
        if (p.choice[i].prediction.epoch_s <= 1.01 * p.choice[0].prediction.epoch_s &&
            p.choice[i].config.server_threads == 0 && p.choice[i].config.learners == c->config.learners)
            assert_true(p.choice[i].prediction.staleness >= c->prediction.staleness);
    mu_costs_fini(&k);
    mu_arena_fini(&a);
}

static void test_says_what_would_help(void **state) {
    (void)state;
    mu_arena a;
    mu_arena_init(&a, "test");
    mu_machine m = plain_machine(8, 4);
    mu_costs k = plain_costs(4);
    mu_plan_space s = space_of(&a);
    mu_plan p;
    mu_plan_change c[MU_PLAN_CHANGES];
    s.least_nodes = 8, s.n_protocols = 1; // the first by name
    assert_ok(mu_config_bind_protocol(&a, "hardsync", &s.protocol[0].how, ok_err));
    snprintf(s.protocol[0].text, sizeof s.protocol[0].text, "hardsync");
    m.network.bytes_per_s = 2e7;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    int n = mu_plan_changes(&k, &m, &s, NULL, &p.choice[0], c);
    assert_string_equal(c[0].what, "a network twice as fast");
    assert_true(c[0].gain > 1.3);
    for (int i = 1; i < n; i++) assert_true(c[i].gain <= c[i - 1].gain);
    m = plain_machine(1, 4), s.least_nodes = 1;
    assert_ok(mu_plan_search(&k, &m, &s, NULL, &p, ok_err));
    n = mu_plan_changes(&k, &m, &s, NULL, &p.choice[0], c);
    assert_int_equal(n, 3); // of a network nothing is known
    mu_costs_fini(&k);
    mu_arena_fini(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equals_brute_force),
                                       cmocka_unit_test(test_many_nodes_in_time), cmocka_unit_test(test_limits),
                                       cmocka_unit_test(test_deadline), cmocka_unit_test(test_takes_the_simplest),
                                       cmocka_unit_test(test_says_what_would_help)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

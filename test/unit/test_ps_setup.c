// SPDX-License-Identifier: Apache-2.0
// test_ps_setup.c - the section `cluster:`: defaults, what is refused, and every decision of the plan.
// This file is long because all of these are rows about one struct, with one rig.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/attr.h"
#include "updater_help.h"
#include "ps/mirror.h"
#include "ps/merge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct rig {
    mu_arena         arena;
    mu_diags         diags;
    mu_binder        binder;
    const mu_node   *node;              // NULL: no section
    mu_cluster_opts *opts;              // NULL after problems
} rig;

static const mu_registry *const registries[] = {&mu_protocols, &mu_merges, &mu_updaters, NULL};

static void rig_init_on(rig *r, const char *section, int ranks) {
    mu_err err = {0};
    mu_node *root = NULL;
    char text[400];
    mu_arena_init(&r->arena, "test");
    mu_diags_init(&r->diags, &r->arena);
    snprintf(text, sizeof text, "cluster: %s", section ? section : "{}");
    mu_srcpos origin = {"test.yaml", 1, 1, 0};
    if (mu_yaml_parse(&r->arena, &r->diags, origin, text, strlen(text), &root, &err) != MU_OK)
        fail_msg("`%s`: %s", text, err.msg);
    r->binder = (mu_binder){.arena = &r->arena, .diags = &r->diags, .folder = ".", .registries = registries};
    r->node = section ? mu_node_find(root, "cluster") : NULL;
    r->opts = mu_cluster_bind(&r->binder, r->node, ranks);
}

static void rig_init(rig *r, const char *section) { rig_init_on(r, section, 1); }

static void rig_fini(rig *r) { mu_arena_fini(&r->arena); }

// The plan of a section that must be good.
static mu_setup plan_for(const char *section, const mu_setup_task *task) {
    rig r;
    mu_err err = {0};
    mu_setup p = {0};
    rig_init(&r, section);
    if (!r.opts) fail_msg("`%s`: %s", section, r.diags.n ? r.diags.list[0].msg : "refused without a problem");
    if (mu_setup_make(&r.binder, r.node, r.opts, task, &p, &err) != MU_OK)
        fail_msg("`%s`: %s", section, r.diags.n ? r.diags.list[0].msg : err.msg);
    if (r.diags.n) fail_msg("`%s`: %s", section, r.diags.list[0].msg);
    rig_fini(&r);
    return p;
}

static mu_setup plan_of(const char *section, int64_t batch, int64_t n_records, int cores) {
    return plan_for(section, &(mu_setup_task){.batch = batch, .n_records = n_records, .cores = cores});
}

static void test_no_section_is_one_plain_learner(void **unused) {
    (void)unused;
    static const char *const texts[] = {NULL, "{}", "~", "{learners: 1}", "{learners: ~}"};
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        mu_setup p = plan_of(texts[i], 64, 1000, 8);
        assert_int_equal(p.learners, 1);
        assert_string_equal(p.protocol->name, "hardsync");
        assert_int_equal(p.rows, 64);
        assert_int_equal(p.global_batch, 64);
        assert_int_equal(p.reference_batch, 64);
        assert_int_equal(p.server, MU_SERVER_BESIDE);
        assert_int_equal(p.server_threads, 0);
        assert_int_equal(p.weights, MU_WEIGHTS_SHARED);
        assert_int_equal(p.rate_rule, MU_RATE_PLAIN);
        assert_true(p.rate_factor == 1);
        assert_true(p.expected_staleness == 0);
        assert_int_equal(p.warm_versions, 0);
        assert_true(p.hang_timeout == 10);
        assert_int_equal(p.max_losses, 20);
        assert_true(p.pin);
        assert_false(p.locks);
    }
}

// mu and mu*lambda: the job's batch is kept, exactly by hardsync and as near as whole rows allow by others.
static void test_sharing_the_batch(void **unused) {
    (void)unused;
    static const struct {
        const char *section;
        int64_t batch, learners, rows, global;
        double factor;
    } rows[] = {
        {"{learners: 4}", 64, 4, 16, 64, 1},
        {"{learners: 3}", 64, 3, 22, 64, 1},
        {"{learners: 64}", 64, 64, 1, 64, 1},
        {"{learners: 7}", 8, 7, 2, 8, 1},
        {"{learners: 4, protocol: async}", 64, 4, 16, 64, 1},
        {"{learners: 3, protocol: async}", 64, 3, 21, 63, 1},
        {"{learners: 30, protocol: async}", 128, 30, 4, 120, 1},
        {"{learners: 30, protocol: softsync}", 8, 30, 1, 30, 1},
        {"{learners: 2, protocol: hogwild}", 1, 2, 1, 2, 1},
        {"{learners: 4, batch: 16}", 64, 4, 16, 64, 1},
        {"{learners: 4, batch: 64}", 64, 4, 64, 256, 2},
        {"{learners: 4, batch: 4}", 64, 4, 4, 16, 0.5},
        {"{learners: 8, batch: 1}", 4, 8, 1, 8, 1.4142135623730951},
        {"{learners: 1, batch: 16}", 64, 1, 16, 16, 0.5},
        {"{learners: 4, batch: 64, protocol: softsync}", 64, 4, 64, 256, 1},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_setup p = plan_of(rows[i].section, rows[i].batch, 1000, 2);
        if (p.learners != rows[i].learners || p.rows != rows[i].rows || p.global_batch != rows[i].global ||
            fabs(p.rate_factor - rows[i].factor) > 1e-12 || p.reference_batch != rows[i].batch)
            fail_msg("%s of %lld: %d learners, mu %lld, in all %lld, factor %g; want %lld, %lld, %lld, %g",
                     rows[i].section, (long long)rows[i].batch, p.learners, (long long)p.rows,
                     (long long)p.global_batch, p.rate_factor, (long long)rows[i].learners,
                     (long long)rows[i].rows, (long long)rows[i].global, rows[i].factor);
    }
}

static void test_auto_learners(void **unused) {
    (void)unused;
    assert_int_equal(plan_of("{learners: auto}", 64, 0, 16).learners, 16);
    assert_int_equal(plan_of("{learners: auto}", 64, 0, 1).learners, 1);
    assert_int_equal(plan_of("{learners: auto}", 64, 0, 0).learners, 1); // nobody knows the cores
    assert_int_equal(plan_of("{learners: auto}", 4, 0, 16).learners, 4); // never more than samples to share
    assert_int_equal(plan_of("{learners: auto, batch: 4}", 4, 0, 16).learners, 16);
    assert_int_equal(plan_of("{learners: auto, protocol: hogwild}", 64, 0, 5000).learners, 64);
}

// A learner has as many slots as an update of mirrors may take gradients, whatever the job asks for.
static void test_mirrors_have_slots_for_an_update(void **unused) {
    (void)unused;
    for (int learners = 1; learners <= 64; learners++)
        for (int n = 1; n <= learners; n *= 4) {
            char section[96];
            snprintf(section, sizeof section, "{learners: %d, protocol: {type: mirror, n: %d}}", learners, n);
            const int splits = plan_of(section, 64, 0, 64).splits;
            const int most = learners / splits;
            if (most > MU_MIRROR_SLOTS || splits < n || (splits > n && most < MU_MIRROR_SLOTS / 2))
                fail_msg("`%s`: %d splits, %d gradients an update", section, splits, most);
        }
}

static void test_place_of_the_server(void **unused) {
    (void)unused;
    static const struct { const char *section; int cores; mu_server_place server; int threads; } rows[] = {
        {"{learners: 2}", 2, MU_SERVER_BESIDE, 0},
        {"{learners: 4, protocol: async}", 2, MU_SERVER_BESIDE, 0},
        {"{learners: 2}", 3, MU_SERVER_BOTH, 1},
        {"{learners: 2, protocol: ssp}", 16, MU_SERVER_BOTH, 1},
        {"{learners: 1}", 16, MU_SERVER_BESIDE, 0},
        {"{learners: 1, server: process}", 2, MU_SERVER_PROCESS, 1},
        {"{learners: 8, server: process, server_threads: 3}", 2, MU_SERVER_PROCESS, 3},
        {"{learners: 8, server_threads: 3}", 2, MU_SERVER_BOTH, 3}, // asked for threads, so for a process
        {"{learners: 2, server: beside}", 16, MU_SERVER_BESIDE, 0},
        {"{learners: 2, protocol: hogwild}", 16, MU_SERVER_BESIDE, 0},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_setup p = plan_of(rows[i].section, 64, 0, rows[i].cores);
        if (p.server != rows[i].server || p.server_threads != rows[i].threads)
            fail_msg("%s on %d cores: server %d with %d threads, want %d with %d", rows[i].section,
                     rows[i].cores, (int)p.server, p.server_threads, (int)rows[i].server, rows[i].threads);
    }
    assert_int_equal(plan_of("{learners: 2, protocol: async, locks: true}", 64, 0, 2).weights,
                     MU_WEIGHTS_COPY);
}

static void test_rate_and_staleness(void **unused) {
    (void)unused;
    static const struct {
        const char *section;
        double staleness;
        mu_rate_rule rule;
        int splits, own;
    } rows[] = {
        {"{learners: 4}", 0, MU_RATE_PLAIN, 1, 0},
        {"{learners: 30, protocol: softsync}", 1, MU_RATE_MEAN, 1, 0},
        {"{learners: 30, protocol: {type: softsync, n: 15}}", 15, MU_RATE_MEAN, 15, 0},
        {"{learners: 30, protocol: async}", 30, MU_RATE_MEAN, 30, 0},
        {"{learners: 30, protocol: async, rate_rule: plain}", 30, MU_RATE_PLAIN, 30, 0},
        {"{learners: 30, protocol: async, rate_rule: each}", 30, MU_RATE_EACH, 30, 0},
        {"{learners: 4, rate_rule: mean}", 0, MU_RATE_MEAN, 1, 0},
        {"{learners: 4, protocol: mirror}", 1, MU_RATE_MEAN, 1, 1},
        {"{learners: 4, protocol: {type: mirror, n: 2, every: 2}}", 3, MU_RATE_MEAN, 2, 2},
        {"{learners: 4, protocol: {type: mirror, every: 4}}", 2.5, MU_RATE_MEAN, 1, 4},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_setup p = plan_of(rows[i].section, 64, 0, 2);
        if (p.expected_staleness != rows[i].staleness || p.rate_rule != rows[i].rule ||
            p.splits != rows[i].splits || p.own != rows[i].own)
            fail_msg("%s: staleness %g, rule %d, splits %d, own %d; want %g, %d, %d, %d", rows[i].section,
                     p.expected_staleness, (int)p.rate_rule, p.splits, p.own, rows[i].staleness,
                     (int)rows[i].rule, rows[i].splits, rows[i].own);
    }
    static const struct { const char *protocol; int bound; } bounds[] = {
        {"{type: ssp, bound: 5}", 0},           {"softsync", 2}, // ssp's is no bound of staleness
        {"{type: softsync, n: 3}", 6},          {"{type: softsync, n: 3, bound: auto}", 6},
        {"{type: softsync, bound: 0}", 0},      {"{type: softsync, n: 2, bound: 7}", 7},
        {"async", 0},                           {"{type: async, bound: 9}", 9},
    };
    for (size_t i = 0; i < MU_COUNT(bounds); i++) {
        char section[80];
        snprintf(section, sizeof section, "{learners: 4, protocol: %s}", bounds[i].protocol);
        assert_int_equal(plan_of(section, 64, 0, 2).bound, bounds[i].bound);
    }
    assert_int_equal(plan_of("{learners: 4, protocol: {type: ssp, bound: 5}}", 64, 0, 2).own, 5);
}

static void test_warm_start(void **unused) {
    (void)unused;
    static const struct { const char *section; int64_t versions; } rows[] = {
        {"{learners: 4, protocol: async, warm_start: 200 steps}", 200},
        {"{learners: 4, protocol: async, warm_start: 1 epoch}", 16},     // 1000 records of 64, rounded up
        {"{learners: 4, protocol: hogwild, warm_start: 2 epochs}", 32},
        {"{learners: 4, protocol: async, batch: 1, warm_start: 1 epoch}", 250},
        {"{learners: 4, protocol: async, warm_start: never}", 0},
        {"{learners: 4, protocol: hardsync, warm_start: 1 epoch}", 0},   // is hardsync already
        {"{learners: 1, protocol: async, warm_start: 1 epoch}", 0},
        {"{learners: 4, protocol: async, warm_start: 1e300 epochs}", (int64_t)1 << 53},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        int64_t got = plan_of(rows[i].section, 64, 1000, 2).warm_versions;
        if (got != rows[i].versions)
            fail_msg("%s: %lld warm versions, want %lld", rows[i].section, (long long)got,
                     (long long)rows[i].versions);
    }
}

// Nobody asked for it: an epoch (1000 records of 64 are 15.6 steps), at most a fifth of the training.
static void test_warm_start_by_default(void **unused) {
    (void)unused;
    static const struct { const char *protocol; int64_t steps; double epochs; int64_t versions; } rows[] = {
        {"async", 0, 0, 16},            // the end is open
        {"async", 0, 100, 16},
        {"async", 0, 5, 16},
        {"async", 0, 4, 13},
        {"async", 0, 0.1, 1},
        {"async", 1000, 0, 16},
        {"async", 50, 0, 10},
        {"async", 50, 100, 10},         // what ends it first counts
        {"async", 1000, 1, 4},
        {"softsync", 50, 0, 10},
        {"{type: ssp, bound: 3}", 50, 0, 10},
        {"mirror", 50, 0, 10},
        {"hogwild", 50, 0, 10},
        {"hardsync", 50, 0, 0},
    };
    for (size_t i = 0; i < 2 * MU_COUNT(rows); i++) {
        const mu_setup_task task = {.batch = 64, .n_records = 1000, .cores = 2,
                                      .steps = rows[i / 2].steps, .epochs = rows[i / 2].epochs};
        char section[120];
        snprintf(section, sizeof section, "{learners: 4, protocol: %s%s}", rows[i / 2].protocol,
                 i % 2 ? ", warm_start: auto" : "");
        int64_t got = plan_for(section, &task).warm_versions;
        if (got != rows[i / 2].versions)
            fail_msg("%s, %lld steps, %g epochs: %lld warm versions, want %lld", section,
                     (long long)task.steps, task.epochs, (long long)got, (long long)rows[i / 2].versions);
    }
    const mu_setup_task alone = {.batch = 64, .n_records = 1000, .cores = 2, .steps = 100};
    assert_int_equal(plan_for("{learners: 1, protocol: async}", &alone).warm_versions, 0);
}

static void test_groups_of_workers(void **unused) {
    (void)unused;
    mu_setup p = plan_of("{groups: 2, workers: 3}", 64, 0, 8);
    assert_int_equal(p.learners, 2);
    assert_int_equal(p.workers, 3);
    assert_int_equal(p.rows, 32);
    assert_int_equal(mu_setup_processes(&p), 6);
    assert_int_equal(p.server, MU_SERVER_BOTH); // two cores are left
    assert_int_equal(plan_of("{learners: auto, workers: 3}", 64, 0, 8).learners, 2);
    assert_int_equal(plan_of("{groups: 2, workers: 4}", 64, 0, 8).server, MU_SERVER_BESIDE);
    assert_int_equal(plan_of("{workers: 2}", 64, 0, 2).learners, 1);
}

static void test_refused(void **unused) {
    (void)unused;
    static const struct { const char *section; int col; const char *says;
    } rows[] = {
        {"{learners: 0}", 21, "out of range: 0"},
        {"{learners: -2}", 21, "out of range: -2"},
        {"{learners: 1025}", 21, "out of range: 1025"},
        {"{learners: 2.5}", 21, "whole number or `auto`, found `2.5`"},
        {"{learners: ''}", 21, "whole number or `auto`"},
        {"{learners: [4]}", 21, "whole number or `auto`, not a list"},
        {"{protocol: {type: softsync, bound: -1}}", 45, "out of range: -1"},
        {"{protocol: {type: async, bound: auto}}", 42, "must be a whole number"},
        {"{learners: 65}", 21, "65 learners cannot share a batch of 64"},
        {"{learners: 2, groups: 2}", 32, "the same number"},
        {"{workers: 17}", 20, "out of range: 17"},
        {"{learners: 128, workers: 16, batch: 1}", 35, "2048 processes"},
        {"{protocol: mirror, workers: 2}", 38, "each is one process"},
        {"{learner: 4}", 11, "unknown key `learner`"},
        {"{protocol: hardsink}", 21, "unknown protocol"},
        {"{learners: 4, protocol: {type: softsync, n: 5}}", 54, "needs at least 5 learners, found 4"},
        {"{learners: 4, protocol: {type: softsync, n: 0}}", 54, "out of range"},
        {"{server: aside}", 19, "unknown value `aside` for `server`"},
        {"{server: beside, server_threads: 2}", 43, "no meaning with `server: beside`"},
        {"{protocol: hogwild, server: beside}", 38, "no server"},
        {"{protocol: hogwild, locks: yes}", 37, "no locks"},
        {"{locks: yes, weights: shared}", 32, "not copied"},
        {"{protocol: hogwild, rate_rule: each}", 41, "before their staleness is known"},
        {"{warm_start: 10s}", 23, "cannot be a time"},
        {"{hang_timeout: 0}", 25, "out of range"},
        {"{batch: -1}", 18, "out of range"},
        {"4", 10, "must be a block"},
    };
    const mu_setup_task task = {.batch = 64, .n_records = 1000, .cores = 2};
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        rig r;
        mu_err err = {0};
        mu_setup p = {.learners = -7};
        rig_init(&r, rows[i].section);
        if (r.opts && mu_setup_make(&r.binder, r.node, r.opts, &task, &p, &err) != MU_EJOB)
            fail_msg("%s was accepted", rows[i].section);
        const mu_diag *g = r.diags.list;
        if (r.diags.n != 1 || g->pos.line != 1 || g->pos.col != rows[i].col || !strstr(g->msg, rows[i].says))
            fail_msg("%s: %zu problems, the first at %d:%d: %s; want 1:%d %s", rows[i].section, r.diags.n,
                     g->pos.line, g->pos.col, r.diags.n ? g->msg : "", rows[i].col, rows[i].says);
        assert_int_equal(p.learners, -7); // outputs are written only on success
        rig_fini(&r);
    }
}

static void assert_text(const char *section, int64_t batch, const char *want) {
    char text[400];
    mu_setup p = plan_of(section, batch, 1000, 2);
    mu_setup_text(&p, 0.01, text, sizeof text);
    assert_string_equal(text, want);
}

// Each server group has its share of learners and batch; the protocol and its staleness are those of one.
static void test_server_groups(void **unused) {
    (void)unused;
    mu_setup p = plan_of("{learners: 6, server_groups: 3, protocol: async}", 66, 1000, 2);
    assert_int_equal(p.learners, 6);
    assert_int_equal(p.rows, 11);
    assert_int_equal(p.global_batch, 66);
    assert_true(p.expected_staleness == 2);
    const mu_setup g = mu_setup_of_group(&p);
    assert_int_equal(g.learners, 2);
    assert_int_equal(g.global_batch, 22);
    assert_int_equal(g.server_groups, 1);
    // A mu of its own may be more than the batch: the rate follows the whole of it.
    p = plan_of("{learners: 4, server_groups: 4, batch: 2}", 2, 1000, 2);
    assert_int_equal(p.rows, 2);
    assert_int_equal(p.global_batch, 8);
    assert_true(fabs(p.rate_factor - 2) < 1e-12);
    p = plan_of("{learners: auto, server_groups: 3}", 66, 1000, 8);
    assert_int_equal(p.learners, 6);
    // One learner a group: no gradient is stale, so there is nothing to warm up for.
    p = plan_of("{learners: 3, server_groups: 3, protocol: async}", 66, 1000, 2);
    assert_int_equal(p.warm_versions, 0);
}

static void test_text(void **unused) {
    (void)unused;
    assert_text("{learners: 3}", 64,
                "3 learners, hardsync, mu 21 to 22 x lambda 3 = 64, as the job's batch: constant when "
                "learners are added\nexpected staleness 0, rate 0.01, server beside the learners");
    assert_text("{learners: 1, batch: 16}", 64,
                "1 learner, hardsync, mu 16 x lambda 1 = 16, the job's batch is 64\n"
                "expected staleness 0, rate 0.01 x sqrt(16/64) = 0.005");
    assert_text("{learners: 4, protocol: {type: softsync, n: 2}, server: process, warm_start: 1 epoch}", 64,
                "4 learners, softsync, mu 16 x lambda 4 = 64, as the job's batch: constant when learners are "
                "added\nexpected staleness 2, rate 0.01 / 2 = 0.005 by the expected staleness, server "
                "process with 1 thread, hardsync for the first 16 steps");
    assert_text("{learners: 30, protocol: async, rate_rule: plain, warm_start: never}", 128,
                "30 learners, async, mu 4 x lambda 30 = 120, the job's batch is 128\n"
                "expected staleness 30, rate 0.01, not divided by the staleness, server beside the learners");
    char small[8];
    mu_setup p = plan_of(NULL, 64, 0, 1);
    mu_setup_text(&p, 0.01, small, sizeof small);
    assert_string_equal(small, "1 learn"); // cut, never beyond its end
}

// Rules against staleness, as the updater has them.
static void test_stale_rules(void **unused) {
    (void)unused;
    static const struct { const char *section, *updater, *says; } rows[] = {
        {"{learners: 4, protocol: async}", "{type: sgd, rate: 1, momentum: 0.9}",
         "staleness 4, rate 0.01 x 0.25 / 4 = 0.000625 by the expected staleness, momentum 0.9 -> 0.975 with "
         "weights 6 updates ahead, server beside the learners, hardsync for the first 16 steps"},
        {"{learners: 4, protocol: async, warm_start: never}", "{type: sgd, rate: 1, momentum: 0.9}",
         "server beside the learners, rate rises over the first 16 steps"},
        {"{learners: 4, protocol: async, warm_start: never}", "{type: sgd, rate: 1}",
         "staleness 4, rate 0.01 / 4 = 0.0025 by the expected staleness, server beside the learners, rate "
         "rises over the first 16 steps"},
        {"{learners: 4, protocol: async, batch: 64}", "{type: adam, rate: 1}", "staleness 4, rate 0.01, not"},
        {"{learners: 4, protocol: async, momentum_rule: total}", "{type: nesterov, rate: 1}",
         "rate 0.01 x 9 / 4 = 0.0225 by the expected staleness, momentum 0.9 -> 0.1, server"},
        {"{learners: 4, protocol: async, momentum_rule: plain, warm_start: never}",
         "{type: nesterov, rate: 1}", "rate 0.01 / 4 = 0.0025 by the expected staleness, server beside"},
        {"{learners: 4, protocol: hogwild, warm_start: never}", "{type: sgd, rate: 1, momentum: 0.9}",
         "rate 0.01 / 4 = 0.0025 by the expected staleness, momentum 0.9 -> 0.9 with weights 1.5 updates "
         "ahead, no server, rate rises over the first 16 steps"},
        {"{learners: 4, protocol: {type: hogwild, every: 3}, warm_start: never}",
         "{type: sgd, rate: 1, momentum: 0.5}",
         "staleness 8, rate 0.01 x 1.75 / 4 = 0.004375 by the expected staleness, momentum 0.5 -> 0.125 with "
         "weights 1 updates ahead"},
        {"{learners: 4, protocol: async}", "{type: adam, rate: 1}",
         "rate 0.01 / sqrt(4) = 0.005 by the expected staleness, momentum 0.9 -> 0.975, server"},
        {"{learners: 4, protocol: async, momentum_rule: total}", "{type: adam, rate: 1}",
         "rate 0.01 / sqrt(4) = 0.005 by the expected staleness, momentum 0.9 -> 0.1, server"},
        {"{learners: 4, protocol: async}", "{type: adagrad, rate: 1}",
         "rate 0.01, not divided: the updater goes by the size of gradients, server"},
        {"{learners: 4, protocol: hogwild}", "{type: adagrad, rate: 1}",
         "rate 0.01 / sqrt(4) = 0.005 by the expected staleness, no server"},
        {"{learners: 4}", "{type: sgd, rate: 1, momentum: 0.9}", "staleness 0, rate 0.01, server beside"},
        {"{learners: 4, momentum_rule: total}", "{type: adam, rate: 1}", "staleness 0, rate 0.01, server"},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        bound b;
        char text[600];
        const mu_setup_task task = {.batch = 64, .n_records = 1000, .cores = 2,
                                    .updater = bound_get(&b, rows[i].updater)};
        const mu_setup p = plan_for(rows[i].section, &task);
        mu_setup_text(&p, 0.01, text, sizeof text);
        if (!strstr(text, rows[i].says)) fail_msg("%s, %s: %s", rows[i].section, rows[i].updater, text);
        bound_fini(&b);
    }
}

// One protocol after the other: the first may be in step, and is the warm start.
static void test_turns(void **unused) {
    (void)unused;
    const mu_setup_task task = {.batch = 64, .n_records = 1000, .cores = 2, .epochs = 10};
    mu_setup p = plan_for("{learners: 4, protocol: [{type: hardsync, until: 1 epoch}, {type: softsync, n: 2, "
                          "until: 50 steps}, {name: async, bound: 9, until: 5 epochs}, "
                          "{type: ssp, bound: 1}]}",
                          &task);
    char text[600];
    assert_int_equal(p.warm_versions, 16);
    assert_int_equal(p.n_phases, 3);
    assert_true(p.in_turn);
    assert_string_equal(p.protocol->name, "ssp");
    assert_int_equal(p.own, 1);
    assert_int_equal(p.phase[0].until, 50 * 64);
    assert_int_equal(p.phase[0].splits, 2);
    assert_int_equal(p.phase[0].bound, 4);
    assert_int_equal(p.phase[1].until, 79 * 64);
    assert_int_equal(p.phase[1].bound, 9);
    assert_true(p.phase[2].until == INT64_MAX && p.phase[2].expected_staleness == 4);
    const int64_t at[] = {0, 50 * 64 - 1, 50 * 64, 79 * 64 - 1, 79 * 64}, in_force[] = {0, 0, 1, 1, 2};
    for (size_t i = 0; i < MU_COUNT(at); i++) assert_int_equal(mu_setup_phase_of(&p, at[i]), in_force[i]);
    mu_setup_text(&p, 0.01, text, sizeof text);
    assert_non_null(strstr(text, "4 learners, hardsync until step 16, softsync until step 50, async until "
                                 "step 79, then ssp, mu 16 x lambda 4"));
    assert_null(strstr(text, "for the first"));

    p = plan_for("{learners: 4, protocol: [{type: hardsync, until: 9 steps}, hogwild]}", &task);
    assert_int_equal(p.warm_versions, 9);
    assert_int_equal(p.n_phases, 1);
    assert_string_equal(p.protocol->name, "hogwild");
    p = plan_for("{learners: 4, protocol: [{type: ssp, until: 9 steps}, softsync]}", &task);
    assert_int_equal(p.warm_versions, 0);
    assert_int_equal(p.soft_steps, 16); // as nothing is in step
    const mu_setup_task large = {.batch = 65536, .n_records = 1000, .cores = 2, .epochs = 10};
    p = plan_for("{learners: 4, protocol: [{type: ssp, until: 9000000000000000 steps}, softsync]}", &large);
    assert_true(p.phase[0].until == INT64_MAX);
    p = plan_for("{learners: 4, protocol: [mirror]}", &task); // as without the brackets
    assert_int_equal(p.warm_versions, 16);
    assert_false(p.in_turn);
}

static void test_turns_refused(void **unused) {
    (void)unused;
    static const struct { const char *protocol; int col; const char *says; } rows[] = {
        {"[]", 34, "0 protocols in turn"},
        {"[async, hogwild]", 35, "needs `until`"},
        {"[{type: async, until: ~}, ssp]", 35, "needs `until`"},
        {"[{type: async, until: 1 epoch}, hardsync]", 66, "hardsync can only come first"},
        {"[{type: hogwild, until: 1 epoch}, async]", 35, "hogwild can only come last"},
        {"[{type: async, until: 1 epoch}, mirror]", 66, "mirror can follow hardsync alone"},
        {"[{type: async, until: 1 epoch}, {type: ssp, until: 2 epochs}]", 85, "the last protocol has no"},
        {"[{type: async, until: 10m}, ssp]", 56, "`until` is a number of steps or epochs"},
        {"[{type: async, until: soon}, ssp]", 56, "`until` is a number of steps or epochs"},
        {"[{type: async, until: 9 steps}, {type: ssp, until: 9 steps}, async]", 85, "ends before it begins"},
        {"[{type: async, until: 2 epochs}, {type: ssp, until: 9 steps}, async]", 86, "ends before it"},
        {"[{type: asynk, until: 1 epoch}, ssp]", 42, "unknown protocol"},
        {"[{type: async, until: 1 epoch, n: 3}, ssp]", 65, "unknown key"},
        {"[{type: softsync, n: 9, until: 1 epoch}, ssp]", 55, "needs at least 9 learners"},
        {"[{type: async, until: 1 epoch}, ssp], warm_start: 1 epoch", 84, "a list of protocols says"},
        {"[{type: async, until: 1 epoch}, {type: ssp, until: 2 epochs}, {type: ssp, until: 3 epochs}, "
         "{type: ssp, until: 4 epochs}, {type: ssp, until: 5 epochs}, ssp]", 34, "6 protocols in turn"},
        {"[{type: async, until: 1 epoch}, {type: ssp, until: 2 epochs}, {type: ssp, until: 3 epochs}, "
         "{type: ssp, until: 4 epochs}, ssp]", 34, "at most 4 protocols behind"},
    };
    const mu_setup_task task = {.batch = 64, .n_records = 1000, .cores = 2};
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        rig r;
        mu_err err = {0};
        mu_setup p;
        char section[300];
        snprintf(section, sizeof section, "{learners: 4, protocol: %s}", rows[i].protocol);
        rig_init(&r, section);
        if (r.opts && mu_setup_make(&r.binder, r.node, r.opts, &task, &p, &err) != MU_EJOB)
            fail_msg("%s was accepted", section);
        const mu_diag *g = r.diags.list;
        if (r.diags.n != 1 || g->pos.col != rows[i].col || !strstr(g->msg, rows[i].says))
            fail_msg("%s: %zu problems, the first at %d: %s; want %d %s", section, r.diags.n, g->pos.col,
                     r.diags.n ? g->msg : "", rows[i].col, rows[i].says);
        rig_fini(&r);
    }
}

// Server groups over ranks: what is not given follows from these, and each rank has its part.
static void test_ranks(void **unused) {
    (void)unused;
    static const struct { const char *section; int ranks, learners, groups; } good[] = {
        {"{learners: 8}", 2, 8, 1}, {NULL, 2, 2, 1},
        {"{learners: auto}", 4, 4, 1},
        {"{protocol: async}", 4, 4, 4}, {"{sync_every: 1}", 4, 4, 4},
        {"{workers: 2, learners: 4}", 2, 4, 1}, {"{workers: 2, learners: 4, server_groups: 2}", 2, 4, 2},
        {"{workers: 3}", 2, 2, 1}, {"{workers: 2, sync_every: 7}", 2, 2, 2},
        {"{workers: 4, learners: 1}", 2, 1, 1}, {"{workers: 4, learners: 1}", 4, 1, 1},
        {"{workers: 4, learners: 2}", 4, 2, 1}, {"{workers: 6, groups: 2}", 6, 2, 1},
        {"{learners: 8, server_groups: 4, merge: outer, sync_every: 7}", 4, 8, 4},
        {"{learners: auto, sync_every: 3}", 2, 6, 2},
        {"{learners: 3}", 1, 3, 1},
    };
    for (size_t i = 0; i < MU_COUNT(good); i++)
        for (int node = 0; node < good[i].ranks; node++) {
            const mu_setup_task task = {
                .batch = 240, .n_records = 1000, .cores = 6, .nodes = good[i].ranks, .node = node};
            rig r;
            mu_err err = {0};
            mu_setup p;
            rig_init_on(&r, good[i].section, good[i].ranks);
            if (!r.opts || mu_setup_make(&r.binder, r.node, r.opts, &task, &p, &err) != MU_OK)
                fail_msg("%s on %d ranks: %s", good[i].section, good[i].ranks,
                         r.diags.n ? r.diags.list[0].msg : err.msg);
            assert_int_equal(p.learners, good[i].learners);
            assert_int_equal(p.server_groups, good[i].groups);
            const bool joint = mu_setup_is_joint(&p);
            assert_int_equal(joint, good[i].ranks > 1 && good[i].groups == 1);
            assert_int_equal(mu_setup_own_groups(&p) * (joint ? 1 : good[i].ranks), good[i].groups);
            assert_int_equal(mu_setup_first_group(&p), joint ? 0 : node * good[i].groups / good[i].ranks);
            const mu_setup g = mu_setup_of_group(&p);
            // A learner is on one rank, or workers of one learner are.
            const int ranks = joint ? good[i].ranks : 1, learners = good[i].learners / good[i].groups;
            const int processes = learners * g.workers / ranks;
            const int own = learners >= ranks ? learners / ranks : 1;
            assert_int_equal(mu_setup_own_learners(&g), own);
            assert_int_equal(mu_setup_first_learner(&g), joint ? node * learners / ranks : 0);
            assert_int_equal(mu_setup_own_processes(&g), processes);
            assert_int_equal(mu_setup_first_process(&g), joint ? node * processes : 0);
            assert_int_equal(mu_setup_ranks_of_learner(&g), learners < ranks ? ranks / learners : 1);
            char text[400];
            mu_setup_text(&p, 0.1, text, sizeof text);
            assert_int_equal(strstr(text, "ranks") != NULL, good[i].ranks > 1);
            if (joint && learners == 1) assert_non_null(strstr(text, "4 workers of 1 learner on "));
            if (joint && learners >= ranks) assert_null(strstr(text, "workers of 1"));
            rig_fini(&r);
        }
    static const struct { const char *section, *says; } bad[] = {
        {"{server_groups: 3, learners: 6}", "3 server groups cannot be spread evenly over 2 ranks"},
        {"{server_groups: 1, protocol: async}", "on several ranks needs `protocol: hardsync`"},
        {"{learners: 3, workers: 2}", "3 learners of 2 workers cannot be spread evenly over 2 ranks"},
        {"{learners: 1, workers: 3}", "1 learner of 3 workers cannot be spread evenly over 2 ranks"},
        {"{learners: 1}", "1 learners cannot be spread evenly over 2 ranks"},
        {"{learners: 1, workers: 4, protocol: async, server_groups: 1}", "needs `protocol: hardsync`"},
        {"{learners: 1, workers: 4, protocol: async}", "workers of a learner on several ranks need"},
        {"{learners: 3}", "3 learners cannot be spread evenly over 2 ranks"},
        {"{wire: fp16, sync_every: 5}", "`wire` in `cluster` is for gradients"},
        {"{protocol: mirror}", "weights of their own already"},
    };
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        rig r;
        rig_init_on(&r, bad[i].section, 2);
        if (r.opts || r.diags.n != 1 || !strstr(r.diags.list[0].msg, bad[i].says) ||
            r.diags.list[0].pos.line != 1)
            fail_msg("%s: %s", bad[i].section, r.diags.n ? r.diags.list[0].msg : "accepted");
        rig_fini(&r);
    }
}

// Without a warm start the rate rises over as many steps.
static void test_softness(void **unused) {
    (void)unused;
    mu_setup p = {.soft_steps = 20};
    assert_near(mu_setup_softness(&p, 0), 0.05, 1e-12);
    assert_near(mu_setup_softness(&p, 10), 0.525, 1e-12);
    assert_near(mu_setup_softness(&p, 20), 1, 0);
    p.warm_versions = 5;
    assert_near(mu_setup_softness(&p, 6), 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_section_is_one_plain_learner),
        cmocka_unit_test(test_sharing_the_batch),
        cmocka_unit_test(test_auto_learners),
        cmocka_unit_test(test_mirrors_have_slots_for_an_update),
        cmocka_unit_test(test_place_of_the_server),
        cmocka_unit_test(test_rate_and_staleness),
        cmocka_unit_test(test_warm_start),
        cmocka_unit_test(test_warm_start_by_default),
        cmocka_unit_test(test_groups_of_workers),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_server_groups),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_stale_rules),
        cmocka_unit_test(test_softness),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_turns_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// conform_merge.c - every rule by which server groups merge, for all of them: what agrees keeps its bits,
// nothing outside of the parameter is touched, repeated merges bring groups together. And the formulas, by
// themselves.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "job/yaml.h"
#include "ps/merge.h"
#include "updater/updater.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 5, COUNT = 1500, GUARD = 8, ALL = COUNT + 2 * GUARD, BLOCKS = GROUPS + 1 + MU_MAX_SLOTS };

typedef struct cluster { struct { mu_class_ref merge; } s; } cluster;
static const mu_field fields[] = {
    {"merge", MU_CLASS, offsetof(cluster, s.merge), "average", NULL, "merge", "the rule"},
    {0},
};
static const mu_registry *const registries[] = {&mu_merges, &mu_updaters, NULL};

typedef struct rig {
    mu_arena  arena;
    mu_diags  diags;
    mu_class_ref ref;
    const mu_merge_class *class;
    mu_param  param;
    float     block[BLOCKS][ALL];       // groups, center, histories
    mu_merge  m;
} rig;

static void rig_init(rig *r, const char *rule) {
    mu_err err = {0};
    mu_node *root = NULL;
    char text[200];
    cluster c = {0};
    memset(r, 0, sizeof *r);
    mu_arena_init(&r->arena, "test");
    mu_diags_init(&r->diags, &r->arena);
    snprintf(text, sizeof text, "merge: %s", rule);
    const mu_srcpos origin = {"test.yaml", 1, 1, 0};
    if (mu_yaml_parse(&r->arena, &r->diags, origin, text, strlen(text), &root, &err) != MU_OK)
        fail_msg("%s: %s", rule, err.msg);
    mu_binder b = {&r->arena, &r->diags, ".", registries, 0};
    mu_bind(&b, root, origin, "`cluster`", &(mu_bind_part){fields, &c}, 1, NULL, 0);
    if (r->diags.n) fail_msg("%s: %s", rule, r->diags.list[0].msg);
    r->ref = c.s.merge;
    r->class = (const mu_merge_class *)(const void *)r->ref.plugin;
    r->param = (mu_param){.name = "p", .count = COUNT, .lr_mult = 1};
    r->m = (mu_merge){.param = &r->param, .groups = GROUPS, .n = GROUPS};
    for (int g = 0; g < GROUPS; g++) r->m.weights[g] = r->block[g] + GUARD;
    if (r->class->n_slots) r->m.center = r->block[GROUPS] + GUARD;
    for (int k = 0; k < MU_MAX_SLOTS; k++) r->m.history[k] = r->block[GROUPS + 1 + k] + GUARD;
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < GUARD; k++) r->block[i][k] = r->block[i][ALL - 1 - k] = 77;
}

static void rig_fini(rig *r) { mu_arena_fini(&r->arena); }

static void fill(rig *r, bool equal) {
    const mu_rng_key key = mu_rng_key_make(7, "merge");
    for (int g = 0; g <= GROUPS; g++)
        for (int i = 0; i < COUNT; i++) {
            uint32_t w[4];
            mu_rng_block(key, equal ? 0 : (uint64_t)g, (uint64_t)i, w);
            r->block[g][GUARD + i] = (float)((double)w[0] * 0x1p-32 - 0.5);
        }
}

// All at once, or each alone, as the rule has it.
static void merge(rig *r) {
    const mu_merge all = r->m;
    for (int g = 0; g < (r->class->most_ahead ? GROUPS : 1); g++) {
        if (r->class->most_ahead) r->m.n = 1, r->m.weights[0] = all.weights[g];
        r->class->merge(r->ref.state, &r->m);
        r->m.n = all.n;
        memcpy(r->m.weights, all.weights, sizeof all.weights);
    }
    r->m.number++;
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < GUARD; k++)
            if (r->block[i][k] != 77 || r->block[i][ALL - 1 - k] != 77)
                fail_msg("block %d: written outside", i);
}

static double spread(const rig *r) {
    double most = 0;
    for (int g = 1; g < GROUPS; g++)
        for (int i = 0; i < COUNT; i++)
            most = fmax(most, fabs((double)(r->m.weights[g][i] - r->m.weights[0][i])));
    return most;
}

static void test_what_agrees_stays(void **unused) {
    (void)unused;
    for (size_t k = 0; k < mu_merges.n; k++)
        for (int stat = 0; stat < 2; stat++) {
            static rig r;
            float was[COUNT];
            rig_init(&r, mu_merges.list[k]->name);
            r.param.is_stat = stat;
            fill(&r, true);
            memcpy(was, r.m.weights[0], sizeof was);
            merge(&r);
            for (int g = 0; g < GROUPS; g++)
                if (memcmp(was, r.m.weights[g], sizeof was))
                    fail_msg("%s: group %d changed", r.ref.plugin->name, g);
            rig_fini(&r);
        }
}

static void test_groups_come_together(void **unused) {
    (void)unused;
    for (size_t k = 0; k < mu_merges.n; k++) {
        static rig r;
        rig_init(&r, mu_merges.list[k]->name);
        fill(&r, false);
        const double before = spread(&r);
        for (int i = 0; i < 60; i++) merge(&r);
        if (!(spread(&r) < 1e-3 * before))
            fail_msg("%s: %g apart, were %g", r.ref.plugin->name, spread(&r), before);
        const int slots = r.class->n_slots ? r.class->n_slots(r.ref.state) : 0;
        assert_in_range(slots, 0, MU_MAX_SLOTS);
        for (int i = 0; i < slots; i++) assert_non_null(r.class->slot_name(r.ref.state, i));
        rig_fini(&r);
    }
}

static void assert_near(float got, double want, const char *what, int i) {
    if (fabs((double)got - want) > 2e-6) fail_msg("%s [%d]: %.9g, want %.9g", what, i, (double)got, want);
}

static void test_average(void **unused) {
    (void)unused;
    static rig r;
    rig_init(&r, "average");
    fill(&r, false);
    double mean[COUNT] = {0};
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < COUNT; i++) mean[i] += (double)r.m.weights[g][i] / GROUPS;
    merge(&r);
    for (int i = 0; i < COUNT; i++) assert_near(r.m.weights[3][i], mean[i], "mean", i);
    assert_true(spread(&r) <= 0); // all have the same bits
    rig_fini(&r);
}

// In a ring of 5 with one neighbour on either side: of groups 4, 0, 1 for group 0.
static void test_neighbours(void **unused) {
    (void)unused;
    static rig r;
    static float was[GROUPS][COUNT];
    rig_init(&r, "{type: average, neighbours: 1}");
    fill(&r, false);
    for (int g = 0; g < GROUPS; g++) memcpy(was[g], r.m.weights[g], sizeof was[g]);
    merge(&r);
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < COUNT; i++) {
            const double a = was[(g + 4) % GROUPS][i], b = was[g][i], c = was[(g + 1) % GROUPS][i];
            assert_near(r.m.weights[g][i], (a + b + c) / 3, "ring", i);
        }
    rig_fini(&r);
}

static void test_elastic(void **unused) {
    (void)unused;
    static rig r;
    rig_init(&r, "{type: elastic, alpha: 0.25}");
    fill(&r, false);
    r.m.n = 1;
    r.m.weights[0] = r.m.weights[2];
    const double w = r.m.weights[0][9], c = r.m.center[9];
    r.class->merge(r.ref.state, &r.m);
    assert_near(r.m.weights[0][9], w - 0.25 * (w - c), "group", 9);
    assert_near(r.m.center[9], c + 0.25 * (w - c), "center", 9);
    rig_fini(&r);
}

// Plain descent at rate 1 is averaging; Nesterov's momentum goes further the second time.
static void test_outer(void **unused) {
    (void)unused;
    static rig r;
    rig_init(&r, "{type: outer, rate: 1, rule: {type: sgd, momentum: 0}}");
    fill(&r, false);
    double mean = 0;
    for (int g = 0; g < GROUPS; g++) mean += (double)r.m.weights[g][1200] / GROUPS;
    merge(&r);
    for (int g = 0; g < GROUPS; g++) assert_near(r.m.weights[g][1200], mean, "mean", g);
    assert_near(r.m.center[1200], mean, "center", 1200);
    rig_fini(&r);

    rig_init(&r, "{type: outer, rate: 0.5, rule: {type: nesterov, momentum: 0.9}}");
    double c = 0, v = 0;
    for (int step = 0; step < 3; step++) { // each group goes on by 0.1
        for (int g = 0; g < GROUPS; g++) r.m.weights[g][4] += 0.1f;
        merge(&r);
        const double u = 0.9 * v - 0.5 * 0.1;
        c -= 1.9 * u - 0.9 * v;
        v = u;
        assert_near(r.m.center[4], c, "center", step);
        assert_near(r.m.weights[2][4], c, "group", step);
    }
    rig_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_agrees_stays), cmocka_unit_test(test_groups_come_together),
        cmocka_unit_test(test_average),           cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_elastic),           cmocka_unit_test(test_outer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

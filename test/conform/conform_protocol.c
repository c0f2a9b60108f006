// SPDX-License-Identifier: Apache-2.0
// conform_protocol.c - what every protocol must do, run over the registry with default options.
#include "unit/core_rig.h"

#include "base/attr.h"
#include "job/bind.h"
#include "ps/exchange.h"

static const mu_protocol_class *class_at(size_t i) { return mu_protocol_at((int)i); }

// The protocol's own numbers for so many learners.
static mu_core_config configured(size_t i, int learners, double *expected) {
    const mu_protocol_class *p = class_at(i);
    mu_core_config config = rig_config(p->name, learners);
    void *state = calloc(1, p->state_size + 1);
    mu_arena arena;
    mu_arena_init(&arena, "test");
    assert_non_null(state);
    if (p->fields && !mu_bind_defaults(&arena, p->fields, state, NULL))
        fail_msg("%s: a field without a default", p->name);
    if (p->configure) p->configure(state, &config);
    *expected = p->expected_staleness(state, learners);
    mu_arena_fini(&arena);
    free(state);
    return config;
}

static void test_class(void **unused) {
    (void)unused;
    static const char *const words[] = {"hardsync", "softsync", "async", "hogwild", "ssp", "mirror"};
    for (size_t i = 0; i < MU_COUNT(words); i++) assert_true(mu_protocol_index(words[i]) >= 0);
    assert_int_equal(mu_protocol_index("none"), -1);
    for (size_t i = 0; i < mu_protocols.n; i++) {
        const mu_protocol_class *p = class_at(i);
        if (!p->name || !p->help || !p->expected_staleness)
            fail_msg("protocol %zu lacks a name, help or expected_staleness", i);
        mu_objection no;
        if (!p->take && !mu_protocol_objects(p, MU_CHOICE_SERVER, &no))
            fail_msg("%s: nothing ever waits for a server, but it does not say so", p->name);
        if (!p->take && !p->exchange) fail_msg("%s: nothing takes gradients from the queue", p->name);
        if (p->exchange && (!p->exchange->slots || !p->exchange->enter || !p->exchange->copy_out))
            fail_msg("%s: its exchange lacks slots, enter or copy_out", p->name);
        assert_int_equal(mu_protocol_index(p->name), i);
        for (const mu_field *f = p->fields; f && f->key; f++)
            if (!f->help) fail_msg("%s: key `%s` has no help", p->name, f->key);
    }
}

static void test_configure(void **unused) {
    (void)unused;
    for (size_t i = 0; i < mu_protocols.n; i++)
        for (int learners = 1; learners < 40; learners += 6) {
            double expected;
            const mu_core_config g = configured(i, learners, &expected);
            if (g.splits < 1 || g.splits > learners || g.bound < 0)
                fail_msg("%s with %d: splits %d, bound %d", class_at(i)->name, learners, g.splits, g.bound);
            mu_core_config all = g;
            all.end_sample = 1000000;
            rig r = rig_make(&all);
            const bool in_step = mu_core_is_in_step(r.c);
            rig_fini(&r);
            if (in_step != (expected <= 0) || expected > learners)
                fail_msg("%s with %d: expects staleness %g", class_at(i)->name, learners, expected);
        }
}

// One learner never sees old weights, and uses every sample once, in order.
static void test_one_learner(void **unused) {
    (void)unused;
    for (size_t i = 0; i < mu_protocols.n; i++) {
        double expected;
        mu_core_config g = configured(i, 1, &expected);
        g.end_sample = 4 * 50 + 1;
        rig r = rig_make(&g);
        for (int64_t step = 0; step < 51; step++) {
            rig_gradient(&r, 0);
            assert_grant(&r, 0, step, step, 4 * step, step < 50 ? 4 : 1, step < 50 ? 4 : 1);
            if (class_at(i)->take) rig_update(&r, 1);
        }
        assert_int_equal(rig_begin(&r, 0), MU_END);
        assert_int_equal(r.c->samples_applied, 201);
        rig_fini(&r);
    }
}

// The expected staleness is what learners of equal speed have.
static void test_expected_staleness(void **unused) {
    (void)unused;
    for (size_t i = 0; i < mu_protocols.n; i++) {
        double expected;
        const mu_core_config g = configured(i, 12, &expected);
        const staleness s = rig_staleness(&g, 1);
        print_message("%s: staleness %.2f, expected %g\n", class_at(i)->name, s.mean, expected);
        const double room = expected > 1.5 ? 0.2 * expected : expected > 0 ? 0.3 : 0;
        if (s.mean < expected - room || s.mean > expected + room)
            fail_msg("%s: mean staleness %g, expected %g", class_at(i)->name, s.mean, expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class),
        cmocka_unit_test(test_configure),
        cmocka_unit_test(test_one_learner),
        cmocka_unit_test(test_expected_staleness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

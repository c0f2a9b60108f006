// SPDX-License-Identifier: Apache-2.0
// conform_schedule.c - what every schedule must do, run over the registry.
//
// Keys without a default get a value from the table below; a new schedule with a new required key
// still runs, with the value 10.
#include "unit/updater_help.h"

#include "base/attr.h"

static mu_updater *with_required(bound *b, const mu_plugin *c) {
    char text[512];
    int n = snprintf(text, sizeof text, "{type: sgd, rate: {type: %s, base: 0.5", c->name);
    for (const mu_field *f = c->fields; f && f->key; f++)
        if (!f->def) n += snprintf(text + n, sizeof text - (size_t)n, ", %s: 10", f->key);
    snprintf(text + n, sizeof text - (size_t)n, "}}");
    return bound_get(b, text);
}

static void test_class(void **unused) {
    (void)unused;
    assert_true(mu_schedules.n > 0);
    assert_non_null(mu_registry_find(&mu_schedules, "fixed")); // what a plain number means
    for (size_t i = 0; i < mu_schedules.n; i++) {
        const mu_schedule_class *c = (const mu_schedule_class *)(const void *)mu_schedules.list[i];
        if (!c->name || !c->help || !c->rate) fail_msg("schedule %zu has no name, help or rate", i);
        for (const mu_field *f = c->fields; f && f->key; f++) {
            if (!f->help) fail_msg("%s: key `%s` has no help", c->name, f->key);
            for (const mu_field *own = mu_rate_fields; own->key; own++)
                if (!strcmp(f->key, own->key))
                    fail_msg("%s: key `%s` belongs to every schedule", c->name, f->key);
        }
    }
}

// Rates are finite, never negative, never above base, and never rise with default options; the length of
// the training may be known or not. A second look at an earlier time gives the same rate.
static void test_falls(void **unused) {
    (void)unused;
    static const double ends[] = {0, 500, 1e6};
    for (size_t i = 0; i < mu_schedules.n; i++)
        for (size_t k = 0; k < MU_COUNT(ends); k++) {
            bound b;
            mu_updater *u = with_required(&b, mu_schedules.list[i]);
            double last = u->base * (1 + 1e-12), early = mu_updater_rate(u, 7, 0, ends[k], 0, 0);
            for (int64_t t = 0; t < 2000000; t += 1 + t / 3) {
                double r = mu_updater_rate(u, t, 0, ends[k], 0, 0);
                if (!isfinite(r) || r < 0 || r > last + 1e-12)
                    fail_msg("%s: rate %g at %lld after %g, end %g", u->schedule->name, r, (long long)t, last,
                             ends[k]);
                last = r;
            }
            assert_near(mu_updater_rate(u, 7, 0, ends[k], 0, 0), early, 0);
            bound_fini(&b);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_class), cmocka_unit_test(test_falls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
// test_updater_updater.c - the `updater:` block: what binds, what is refused and where; schedules against
// their closed forms; warm-up; steps and epochs.
#include "base/attr.h"
#include "unit/updater_help.h"

static double rate_in_time(const char *rate, double t, double end, double share) {
    char text[256];
    snprintf(text, sizeof text, "{type: sgd, rate: %s}", rate);
    bound b;
    mu_updater *u = bound_get(&b, text);
    double r = mu_updater_rate(u, u->per ? -1 : (int64_t)t, u->per ? t : -1, u->per ? -1 : end,
                               u->per ? end : -1, share);
    bound_fini(&b);
    return r;
}

static double rate_at(const char *rate, double t, double end) { return rate_in_time(rate, t, end, 0); }

#define assert_rate(rate, t, end, want)                                                                      \
    do {                                                                                                     \
        double g_ = rate_at(rate, t, end), w_ = (want);                                                      \
        if (!(fabs(g_ - w_) <= 1e-7 * fabs(w_) + 1e-18))                                                     \
            fail_msg("%s at %g: got %.12g, want %.12g", rate, (double)(t), g_, w_);                          \
    } while (0)

static void test_smooth_schedules(void **unused) {
    (void)unused;
    static const double times[] = {0, 1, 10, 99, 100, 101, 5000, 1e6};
    for (size_t i = 0; i < MU_COUNT(times); i++) {
        const double t = times[i], p = fmin(t / 100, 1), q = fmin(t / 4000, 1);
        assert_rate("0.01", t, 0, 0.01);
        assert_rate("{base: 0.01}", t, 0, 0.01);
        assert_rate("{type: fixed, base: 0.01}", t, 0, 0.01);
        assert_rate("{type: linear, base: 0.1, final: 0.02, over: 100}", t, 7, (1 - p) * 0.1 + p * 0.02);
        assert_rate("{type: linear, base: 0.1}", t, 4000, (1 - q) * 0.1);
        assert_rate("{type: exponential, base: 0.1, every: 100}", t, 0, 0.1 / pow(2, t / 100));
        assert_rate("{type: exponential, base: 0.1, gamma: 0.9999}", t, 0, 0.1 * pow(0.9999, t));
        assert_rate("{type: inverse, base: 0.01}", t, 0, 0.01 * pow(1 + 1e-4 * t, -0.75));
        assert_rate("{type: inverse_t, base: 0.1, scale: 50}", t, 0, 0.1 / (1 + t / 50));
        assert_rate("{type: poly, base: 0.1, power: 0.5, over: 100}", t, 9, 0.1 * pow(1 - p, 0.5));
        assert_rate("{type: poly, base: 0.1}", t, 4000, 0.1 * (1 - q));
        assert_rate("{type: sigmoid, base: 0.1, gamma: 0.01, at: 100}", t, 0,
                    0.1 / (1 + exp(0.01 * (t - 100))));
        assert_rate("{type: cosine, base: 0.1, final: 0.01, over: 100}", t, 0,
                    0.01 + 0.045 * (1 + cos(M_PI * p)));
        assert_rate("{type: cosine, base: 0.1}", t, 4000, 0.05 * (1 + cos(M_PI * q)));
        // Without a length and without a planned end there is nothing to fall towards.
        assert_rate("{type: linear, base: 0.1}", t, 0, 0.1);
        assert_rate("{type: poly, base: 0.1}", t, 0, 0.1);
        assert_rate("{type: cosine, base: 0.1}", t, 0, 0.1);
    }
}

static void test_stepped_schedules(void **unused) {
    (void)unused;
    for (int64_t t = 0; t < 1000; t++)
        assert_rate("{type: step, base: 0.1, every: 60, gamma: 0.997}", (double)t, 0,
                    0.1 * pow(0.997, (double)(t / 60)));
    assert_rate("{type: step, base: 0.01, every: 100k}", 99999, 0, 0.01);
    assert_rate("{type: step, base: 0.01, every: 100k}", 100000, 0, 0.001);
    static const struct {
        double t, gamma, rates;
    } want[] = {
        {0, 1e-3, 1e-3},     {59999, 1e-3, 1e-3}, {60000, 1e-4, 2e-4},
        {64999, 1e-4, 2e-4}, {65000, 1e-5, 3e-5}, {1e6, 1e-5, 3e-5}, // the last jumps past both
    };
    for (size_t i = 0; i < MU_COUNT(want); i++) {
        assert_rate("{type: multi_step, base: 0.001, at: [60k, 65000]}", want[i].t, 0, want[i].gamma);
        assert_rate("{type: multi_step, base: 0.001, at: [60000, 65000], rates: [2e-4, 3e-5]}", want[i].t, 0,
                    want[i].rates);
    }
    assert_rate("{type: multi_step, base: 0.001, at: [0, 10], rates: [0.5, 0.25]}", 0, 0, 0.5);
    assert_rate("{type: multi_step, base: 0.1, at: 5}", 5, 0, 0.01);
}

static void test_epochs(void **unused) {
    (void)unused;
    assert_rate("{type: multi_step, per: epoch, base: 0.001, at: [34, 37]}", 33.998, 40, 1e-3);
    assert_rate("{type: multi_step, per: epoch, base: 0.001, at: [34, 37]}", 34.0 - 1e-13, 40, 1e-4);
    assert_rate("{type: step, per: epoch, base: 1, every: 3}", 0.1 * 30, 40, 0.1);
    assert_rate("{type: linear, per: epoch, base: 1}", 2.5, 10, 0.75);
    assert_rate("{per: epoch, base: 1, warmup: 5, warmup_from: 0.2}", 2.5, 10, 0.6);
}

static void test_warmup(void **unused) {
    (void)unused;
    for (int64_t t = 0; t <= 200; t++) {
        double share = t < 100 ? 0.1 + 0.9 * (double)t / 100 : 1;
        assert_rate("{base: 0.5, warmup: 100}", (double)t, 0, 0.5 * share);
        assert_rate("{type: step, base: 0.5, every: 50, gamma: 0.5, warmup: 100}", (double)t, 0,
                    0.5 * pow(0.5, (double)(t / 50)) * share);
    }
    assert_rate("{base: 0.5, warmup: 10, warmup_from: 0}", 0, 0, 0);
}

static void test_block(void **unused) {
    (void)unused;
    bound b;
    mu_updater *u = bound_get(
        &b, "{type: adam, beta2: 0.99, decay: 0.5, l1: 0.25, clip_value: 2, clip_norm: 3, rate: 0.1}");
    assert_string_equal(u->class->name, "adam");
    assert_string_equal(u->schedule->name, "fixed");
    assert_near(u->l2, 0.5, 0);
    assert_near(u->l1, 0.25, 0);
    assert_near(u->clip_value, 2, 0);
    assert_near(u->clip_norm, 3, 0);
    assert_near(u->base, 0.1, 0);
    assert_near(u->warmup, 0, 0);
    bound_fini(&b);
}

// One mistake gives one problem at its place.
static void test_mistakes(void **unused) {
    (void)unused;
    static const struct {
        const char *text;
        int line, col;
        const char *says;
    } cases[] = {
        {"type: sgd", 1, 1, "rate"},
        {"type: sgd\nrate: -1", 2, 7, "rate"},
        {"type: sdg\nrate: 1", 1, 7, "sdg"},
        {"type: sgd\nmomentun: 0.9\nrate: 1", 2, 1, "momentun"},
        {"type: sgd\nmomentum: 1.5\nrate: 1", 2, 11, "momentum"},
        {"type: sgd\nbeta1: 0.9\nrate: 1", 2, 1, "beta1"},
        {"type: sgd\ndecay: -1\nrate: 1", 2, 8, "decay"},
        {"rate: 1", 1, 1, "type"},
        {"type: sgd\nrate: fast", 2, 7, "fast"},
        {"type: sgd\nrate: cosine", 2, 7, "base"},
        {"type: sgd\nrate: {type: cosin, base: 1}", 2, 14, "cosin"},
        {"type: sgd\nrate: {type: step, base: 1}", 2, 7, "every"},
        {"type: sgd\nrate: {type: step, base: 1, every: 0}", 2, 36, "every"},
        {"type: sgd\nrate: {base: 1, every: 10}", 2, 17, "every"},
        {"type: sgd\nrate: {type: fixed, base: 1, per: day}", 2, 35, "day"},
        {"type: sgd\nrate: {type: fixed, base: 1, warmup_from: 2}", 2, 43, "warmup_from"},
        {"type: sgd\nrate: {type: multi_step, base: 1, at: []}", 2, 7, "empty"},
        {"type: sgd\nrate: {type: multi_step, base: 1, at: [5, 5]}", 2, 7, "rise"},
        {"type: sgd\nrate: {type: multi_step, base: 1, at: [5, 6], rates: [1]}", 2, 7, "lengths"},
        {"type: sgd\nrate: [1, 2]", 2, 7, "list"},
        {"type: sgd\nrte: 0.1", 2, 1, "rte"},
        {"type: sgd\nrate:", 2, 1, "rate"},
        {"type: sgd\nrate: {type: step, bas: 1, every: 5}", 2, 20, "bas"},
        {"type: sgd\nrate: {type: step, base: 1, evry: 5}", 2, 29, "evry"},
        {"type: sgd\nrate: {type: step, base: 1, every: 5, rate: 1}", 2, 39, "rate"},
        {"type: adam\nbeta: 0.5\nrate: 1", 2, 1, "beta"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        bound b;
        bound_init(&b, cases[i].text);
        const mu_diag *d = &b.diags.list[0];
        if (b.u) fail_msg("`%s` was taken", cases[i].text);
        if (b.diags.n_errors != 1)
            fail_msg("`%s`: %zu problems, the last: %s", cases[i].text, b.diags.n_errors,
                     b.diags.list[b.diags.n - 1].msg);
        if (d->pos.line != cases[i].line || d->pos.col != cases[i].col || !strstr(d->msg, cases[i].says))
            fail_msg("`%s`: got %d:%d %s, want %d:%d and `%s`", cases[i].text, d->pos.line, d->pos.col,
                     d->msg, cases[i].line, cases[i].col, cases[i].says);
        bound_fini(&b);
    }
}

// Wherever memory runs out, binding answers NULL with a problem.
static void test_out_of_memory(void **unused) {
    (void)unused;
    const char *text = "{type: adam, rate: {type: multi_step, base: 1, at: [1, 2]}, decay: 0.1}";
    mu_err err = {0};
    for (int64_t n = 1;; n++) {
        mu_arena tree, arena;
        mu_diags diags;
        mu_node *node = NULL;
        mu_arena_init(&tree, "test"), mu_arena_init(&arena, "test");
        mu_diags_init(&diags, &tree);
        assert_int_equal(
            mu_yaml_parse(&tree, &diags, (mu_srcpos){"t", 1, 1, 0}, text, strlen(text), &node, &err), MU_OK);
        mu_binder binder = {&arena, &diags, ".", NULL, 0};
        mu_alloc_fail_at(n);
        mu_updater *u = mu_updater_bind(&binder, node);
        mu_alloc_fail_at(0);
        if (!u) assert_true(diags.n_errors > 0);
        bool done = u != NULL;
        mu_arena_fini(&arena), mu_arena_fini(&tree);
        if (done) break;
        assert_true(n < 100);
    }
}

// A deadline that comes first is the end of the schedule; steps that come first are.
static void test_schedules_follow_the_time(void **unused) {
    (void)unused;
    static const char *const following[] = {
        "{type: cosine, base: 0.1, final: 0.01}", "{type: linear, base: 0.1, final: 0.01}",
        "{type: poly, base: 0.1}", "{type: linear, base: 0.1, per: epoch}",
        "{type: cosine, base: 0.1, over: 1000}", "{type: poly, base: 0.1, over: 1000, power: 2}"};
    static const char *const others[] = {"0.1", "{type: step, base: 0.1, every: 100}",
                                         "{type: multi_step, base: 0.1, at: [100, 900]}",
                                         "{type: exponential, base: 0.1, every: 100}",
                                         "{type: sigmoid, base: 0.1, at: 500}"};
    for (size_t i = 0; i < MU_COUNT(following); i++)
        for (int k = 0; k <= 10; k++) {
            const char *r = following[i];
            const double share = k / 10.0, by_steps = rate_at(r, 1000 * share, 1000);
            assert_near(rate_in_time(r, 0, 1000, share), by_steps, 1e-12);
            assert_near(rate_in_time(r, 300, 1000, share), k > 3 ? by_steps : rate_at(r, 300, 1000), 1e-12);
            assert_near(rate_in_time(r, 1000, 1000, share), rate_at(r, 1000, 1000), 1e-12);
        }
    // Only the time ends it; `over` counts all the same.
    for (int k = 1; k <= 10; k++) {
        assert_near(rate_in_time("{type: linear, base: 0.1}", 123456, 0, k / 10.0), 0.1 * (1 - k / 10.0),
                    1e-12);
        assert_near(rate_in_time("{type: linear, base: 0.1, over: 500}", 400, 0, k / 10.0),
                    0.1 * fmin(0.2, 1 - k / 10.0), 1e-12);
    }
    for (size_t i = 0; i < MU_COUNT(others); i++)
        assert_near(rate_in_time(others[i], 50, 1000, 0.95), rate_at(others[i], 50, 1000), 0);
    // Warm-up is a matter of steps.
    assert_near(rate_in_time("{type: linear, base: 0.1, warmup: 100}", 50, 1000, 0.5), 0.05 * 0.55, 1e-12);
}

static void test_where_schedules_end(void **unused) {
    (void)unused;
    static const struct { const char *rate; double ends; } rows[] = {
        {"0.1", 0}, {"{type: step, base: 0.1, every: 100}", 0}, {"{type: cosine, base: 0.1}", 700},
        {"{type: cosine, base: 0.1, over: 50}", 50}, {"{type: multi_step, base: 0.1, at: [10, 30]}", 30},
        {"{type: sigmoid, base: 0.1, at: 500, gamma: 0.04}", 600},
        {"{type: linear, base: 1, per: epoch}", 7}};
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        char text[256];
        snprintf(text, sizeof text, "{type: sgd, rate: %s}", rows[i].rate);
        bound b;
        assert_near(mu_updater_rate_ends(bound_get(&b, text), 700, 7), rows[i].ends, 1e-9);
        bound_fini(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules_follow_the_time),
        cmocka_unit_test(test_where_schedules_end),
        cmocka_unit_test(test_smooth_schedules),
        cmocka_unit_test(test_stepped_schedules),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_warmup),
        cmocka_unit_test(test_block),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

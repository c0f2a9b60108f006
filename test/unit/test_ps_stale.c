// SPDX-License-Identifier: Apache-2.0
// test_ps_stale.c - rate and momentum of stale gradients, of every updater: a step goes as far as that of one
// learner, weight decay keeps its strength, and late gradients of a parabola stay harmless at larger rates.
#include "updater_help.h"

#include "ps/stale.h"

typedef struct one_weight { // of one updater, by itself
    bound b;
    const mu_updater *u;
    mu_param p;
    float w, h[MU_MAX_SLOTS];
    int64_t updates;
} one_weight;

static void one_init(one_weight *o, const char *rule, float w) {
    *o = (one_weight){.w = w, .p = {.shape = MU_SHAPE(1), .count = 1, .lr_mult = 1, .decay_mult = 1}};
    o->u = bound_get(&o->b, rule);
}

static void one_update(one_weight *o, double gradient, float weight, const mu_step_rate *r) {
    float g = (float)gradient;
    float *slots[MU_MAX_SLOTS];
    for (int k = 0; k < MU_MAX_SLOTS; k++) slots[k] = &o->h[k];
    const mu_grad grad = {.form = MU_GRAD_DENSE, .dense = &g}, *list = &grad;
    const mu_target t = target(o->u, &o->p, &o->w, slots);
    const mu_rule_step step = {o->updates++, r->young, r->stale};
    mu_updater_apply(&t, &(mu_update){1, &list, &weight, r->rate, step});
}

// What the core makes of a gradient that is an update of its own.
static float weight_of(const mu_stale *s) {
    return (float)((double)mu_stale_gradient_scale(s) / mu_stale_updates(s));
}

// Of learners that share the job's batch, each update of an n-th.
static mu_stale stale_of(double n, int own, mu_rate_rule rate, mu_momentum_rule momentum,
                         const mu_updater *u) {
    return mu_stale_make(&(mu_stale_task){n, 1 / n, own, 1, rate, momentum}, u);
}

static mu_step_rate changed(const mu_stale *s, const mu_updater *u, double rate, double before) {
    mu_step_rate r = {.rate = rate};
    mu_stale_change(s, u, before, &r);
    return r;
}

static const char *const adding[] = {
    "{type: sgd, rate: 1}", "{type: sgd, rate: 1, momentum: 0.9}", "{type: sgd, rate: 1, momentum: 0.5}",
    "{type: nesterov, rate: 1, momentum: 0.9}", "{type: nesterov, rate: 1, momentum: 0.95}"};
static const mu_momentum_rule rules[] = {MU_MOMENTUM_PLAIN, MU_MOMENTUM_TOTAL, MU_MOMENTUM_AHEAD};

static void test_numbers(void **unused) {
    (void)unused;
    static const struct {
        const char *rule;
        mu_rate_rule rate;
        mu_momentum_rule momentum;
        double n;
        int own;
        double want_rate, keep, ahead, share; // of rate 1; keep -1: the rule's own
    } t[] = {
        {"{type: sgd, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_AHEAD, 4, 1, 0.25, -1, 0, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_MEAN, MU_MOMENTUM_PLAIN, 4, 1, 0.25, -1, 0, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_MEAN, MU_MOMENTUM_TOTAL, 4, 1, 0.25 * 9, 0.1, 0, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_PLAIN, MU_MOMENTUM_TOTAL, 1, 1, 6, 0.4, 0, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_MEAN, MU_MOMENTUM_TOTAL, 16, 1, 10. / 16, 0, 0, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_MEAN, MU_MOMENTUM_AHEAD, 4, 1, 1. / 16, 0.975, 6, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_PLAIN, MU_MOMENTUM_AHEAD, 4, 1, 0.25, 0.975, 6, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_EACH, MU_MOMENTUM_AHEAD, 4, 1, 1. / 16, 0.975, 6, 1},
        {"{type: sgd, rate: 1, momentum: 0.9}", MU_RATE_MEAN, MU_MOMENTUM_AHEAD, 4, 4, 0.25, 0.9, 1.5, 1},
        {"{type: nesterov, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_AHEAD, 2, 1, 0.25, 0.95, 3, 1},
        {"{type: adagrad, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_AHEAD, 4, 1, 1, -1, 0, 0.25},
        {"{type: adagrad, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_PLAIN, 4, 4, 0.5, -1, 0, 1},
        {"{type: rmsprop, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_PLAIN, 4, 1, 0.5, -1, 0, 0.5},
        {"{type: adam, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_PLAIN, 4, 1, 0.5, -1, 0, 0.5},
        {"{type: adam, rate: 1}", MU_RATE_PLAIN, MU_MOMENTUM_PLAIN, 4, 1, 1, -1, 0, 1},
        {"{type: adam, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_AHEAD, 4, 1, 0.5, 0.975, 0, 0.5},
        {"{type: adam, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_TOTAL, 1, 1, 1, 0.4, 0, 1},
        {"{type: adamax, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_TOTAL, 4, 4, 0.5, 0.4, 0, 1},
        {"{type: adadelta, rate: 1}", MU_RATE_MEAN, MU_MOMENTUM_PLAIN, 9, 1, 1. / 3, -1, 0, 1. / 3},
    };
    for (size_t i = 0; i < MU_COUNT(t); i++) {
        bound b;
        const mu_updater *u = bound_get(&b, t[i].rule);
        const mu_stale s = stale_of(t[i].n, t[i].own, t[i].rate, t[i].momentum, u);
        const mu_step_rate r = changed(&s, u, 1, 0);
        const double keep = r.stale.lowers ? (double)r.stale.keep : -1;
        if (fabs(r.rate - t[i].want_rate) > 1e-5 || fabs(keep - t[i].keep) > 1e-5 ||
            fabs((double)r.stale.ahead - t[i].ahead) > 1e-5 ||
            fabs((double)r.stale.share - t[i].share) > 1e-5)
            fail_msg("row %zu, %s: rate %g, momentum %g, %g ahead, share %g", i, t[i].rule, r.rate, keep,
                     (double)r.stale.ahead, (double)r.stale.share);
        bound_fini(&b);
    }
}

// Each learner with a batch as large as the job's: those rules that go by the rate alone are not slower then.
static void test_whole_batches(void **unused) {
    (void)unused;
    static const struct {
        const char *rule;
        double divisor, gradient;
    } t[] = {{"{type: sgd, rate: 1}", 8, 1},
             {"{type: adam, rate: 1}", 1, 1},
             {"{type: rmsprop, rate: 1}", 1, 1},
             {"{type: adagrad, rate: 1}", 1, 1}};
    for (size_t i = 0; i < MU_COUNT(t); i++)
        for (int k = 0; k < 2; k++) { // larger ones do not make it faster, either
            bound b;
            const mu_stale_task task = {8, 1 + k, 1, 1, MU_RATE_MEAN, MU_MOMENTUM_PLAIN};
            const mu_stale s = mu_stale_make(&task, bound_get(&b, t[i].rule));
            assert_near(s.divisor, t[i].divisor, 1e-9);
            assert_near(s.gradient, t[i].gradient, 1e-9);
            bound_fini(&b);
        }
}

// How far the weight goes in `steps` steps by gradients of 1 with noise: n updates a step or, with n 1, one.
// Noise of a share of the samples is larger by sqrt(n) and cancels over eight updates.
static double way(const char *rule, const mu_stale *s, int n, int steps, double noise) {
    static const int sign[] = {1, 1, -1, -1, 1, -1, -1, 1};
    one_weight o;
    one_init(&o, rule, 0);
    for (int i = 0; i < steps * n; i++) {
        const mu_step_rate fresh = {.rate = 1e-3}, r = s ? changed(s, o.u, 1e-3, 0) : fresh;
        one_update(&o, 1 + noise * sqrt(n) * sign[i % 8], s ? weight_of(s) : 1, &r);
    }
    bound_fini(&o.b);
    return -(double)o.w;
}

static void expect_way(const char *rule, mu_momentum_rule momentum, int n, double noise, double tolerance) {
    bound b;
    const mu_updater *u = bound_get(&b, rule);
    const mu_stale s = stale_of(n, 1, MU_RATE_MEAN, momentum, u);
    // Of the last steps alone: at the beginning momentum is only coming up.
    const double one = way(rule, NULL, 1, 600, noise) - way(rule, NULL, 1, 400, noise);
    const double many = way(rule, &s, n, 600, noise) - way(rule, &s, n, 400, noise);
    if (!(fabs(many / one - 1) <= tolerance))
        fail_msg("%s, %d updates a step, momentum rule %d: %g, by one learner %g", rule, n, (int)momentum,
                 many, one);
    bound_fini(&b);
}

static void test_a_step_goes_as_far(void **unused) {
    (void)unused;
    static const char *const dividing[] = {"{type: adam, rate: 1}", "{type: rmsprop, rate: 1}",
                                           "{type: adamax, rate: 1}", "{type: adagrad, rate: 1}"};
    for (int n = 2; n <= 16; n *= 2) {
        for (size_t r = 0; r < MU_COUNT(rules); r++)
            for (size_t i = 0; i < MU_COUNT(adding); i++) expect_way(adding[i], rules[r], n, 0, 0.01);
        for (size_t i = 0; i < MU_COUNT(dividing); i++) {
            expect_way(dividing[i], MU_MOMENTUM_PLAIN, n, 30, 0.08);
            expect_way(dividing[i], MU_MOMENTUM_TOTAL, n, 30, 0.08);
            expect_way(dividing[i], MU_MOMENTUM_AHEAD, n, 30, 0.08);
        }
    }
}

// Parameters that descend by the rate alone, whatever the rule: as far as by one learner.
static void test_descent(void **unused) {
    (void)unused;
    for (size_t i = 0; i < mu_updaters.n; i++)
        for (int own = 1; own <= 8; own += 7) {
            char text[80];
            one_weight o;
            snprintf(text, sizeof text, "{type: %s, rate: 1}", mu_updaters.list[i]->name);
            one_init(&o, text, 0);
            o.p.descends = true;
            const mu_stale s = stale_of(8, own, MU_RATE_MEAN, mu_stale_usual(o.u), o.u);
            const mu_step_rate r = changed(&s, o.u, 0.1, 0);
            for (int k = 0; k < 8; k++) one_update(&o, 1, own > 1 ? 1 : weight_of(&s), &r);
            assert_near((double)o.w, -0.1, 1e-6);
            bound_fini(&o.b);
        }
}

// What an own history begins with: as if its learner alone had added its gradients from the beginning.
static void test_own_histories(void **unused) {
    (void)unused;
    static const struct { const char *rule; double share, want; } t[] = {
        {"{type: sgd, rate: 1, momentum: 0.9}", 0.125, 0.125}, {"{type: adam, rate: 1}", 0.125, 1},
        {"{type: adagrad, rate: 1}", 0.125, 8},                {"{type: adagrad, rate: 1}", 1, 0.125}};
    for (size_t i = 0; i < MU_COUNT(t); i++) {
        bound b;
        const mu_updater *u = bound_get(&b, t[i].rule);
        const mu_stale_task task = {8, t[i].share, 8, 1, MU_RATE_MEAN, mu_stale_usual(u)};
        const mu_stale s = mu_stale_make(&task, u);
        assert_near((double)mu_stale_share(&s, u), t[i].want, 1e-6);
        bound_fini(&b);
    }
}

// A learner that adds K gradients up: a lasting gradient moves the weight as far, and momentum remembers it
// for as many gradients.
static void test_sums_of_gradients(void **unused) {
    (void)unused;
    enum { LEARNERS = 4, K = 3, STEPS = 600 * K };
    for (size_t i = 0; i < MU_COUNT(adding); i++)
        for (size_t r = 0; r < MU_COUNT(rules); r++) {
            one_weight one, own;
            one_init(&one, adding[i], 0), one_init(&own, adding[i], 0);
            const mu_stale_task task = {LEARNERS * 0.5 * (K + 1), (double)K / LEARNERS, LEARNERS, K,
                                        MU_RATE_MEAN, rules[r]};
            const mu_stale s = mu_stale_make(&task, own.u);
            const mu_step_rate fresh = {.rate = 1e-3}, stale = changed(&s, own.u, 1e-3, 0);
            for (int k = 0; k < STEPS; k++) one_update(&one, 1, 1, &fresh);
            for (int k = 0; k < STEPS / K; k++) one_update(&own, K, weight_of(&s), &stale);
            assert_near((double)own.w * LEARNERS / (double)one.w, 1, 0.03);
            const double m = mu_updater_momentum(own.u, false);
            if (rules[r] == MU_MOMENTUM_AHEAD && m > 0)
                assert_near((double)stale.stale.keep, pow(m, K), 1e-6);
            bound_fini(&one.b), bound_fini(&own.b);
        }
}

// Without gradients only weight decay is left: as strong in a step as by one learner.
static void test_decay(void **unused) {
    (void)unused;
    for (size_t r = 0; r < MU_COUNT(rules); r++)
        for (int n = 2; n <= 16; n *= 2) {
            one_weight one, many;
            one_init(&one, "{type: sgd, rate: 1, momentum: 0.9, decay: 0.1}", 1);
            one_init(&many, "{type: sgd, rate: 1, momentum: 0.9, decay: 0.1}", 1);
            const mu_stale s = stale_of(n, 1, MU_RATE_MEAN, rules[r], one.u);
            const mu_step_rate fresh = {.rate = 1e-3}, stale = changed(&s, many.u, 1e-3, 0);
            for (int i = 0; i < 1000; i++) one_update(&one, 0, 1, &fresh);
            for (int i = 0; i < 1000 * n; i++) one_update(&many, 0, weight_of(&s), &stale);
            assert_near(log((double)many.w) / log((double)one.w), 1, 0.03);
            bound_fini(&one.b), bound_fini(&many.b);
        }
}

// A parabola of curvature 1 by gradients that are n updates old: does the weight come to rest?
static bool comes_to_rest(const char *rule, mu_momentum_rule momentum, int n, double rate) {
    enum { MOST = 16, UPDATES = 6000 };
    double seen[MOST + 1];
    one_weight o;
    one_init(&o, rule, 1);
    const mu_stale s = stale_of(n, 1, MU_RATE_MEAN, momentum, o.u);
    const mu_step_rate r = changed(&s, o.u, rate, 0);
    for (int i = 0; i <= MOST; i++) seen[i] = 1;
    double last = 0;
    for (int i = 0; i < UPDATES && fabs((double)o.w) < 1e6; i++) {
        one_update(&o, seen[i % (n + 1)], weight_of(&s), &r);
        seen[i % (n + 1)] = (double)o.w;
        if (i >= UPDATES - 300) last = fmax(last, fabs((double)o.w));
    }
    bound_fini(&o.b);
    return fabs((double)o.w) < 1e6 && last < 1;
}

// The largest stable way of a step, rate / (1 - momentum), in units of 1 / curvature.
static double largest(const char *rule, mu_momentum_rule momentum, int n) {
    double low = 0, high = 40;
    for (int i = 0; i < 12; i++) {
        const double middle = (low + high) / 2;
        *(comes_to_rest(rule, momentum, n, middle * 0.1) ? &low : &high) = middle;
    }
    return low;
}

static void test_late_gradients(void **unused) {
    (void)unused;
    static const char *const tested[] = {"{type: sgd, rate: 1, momentum: 0.9}",
                                         "{type: nesterov, rate: 1, momentum: 0.9}"};
    for (size_t i = 0; i < MU_COUNT(tested); i++)
        for (int n = 4; n <= 16; n *= 2) {
            const double plain = largest(tested[i], MU_MOMENTUM_PLAIN, n),
                         total = largest(tested[i], MU_MOMENTUM_TOTAL, n),
                         ahead = largest(tested[i], MU_MOMENTUM_AHEAD, n);
            print_message("%s, n %d: plain %.2f, total %.2f, ahead %.2f\n", tested[i], n, plain, total,
                          ahead);
            assert_true(total > 0.99 * plain && total < 1.6);
            assert_true(ahead > 2.5 * plain && ahead > 4.5);
        }
}

// The history of fresh gradients has steps of a whole step in it. The first stale update takes over an n-th
// of that, so that without gradients the weight coasts as far as by one learner.
static void test_the_change(void **unused) {
    (void)unused;
    for (size_t i = 1; i < MU_COUNT(adding); i++) // the first has no momentum
        for (size_t r = 1; r < MU_COUNT(rules); r++) {
            one_weight one, many;
            one_init(&one, adding[i], 0), one_init(&many, adding[i], 0);
            const mu_stale s = stale_of(8, 1, MU_RATE_MEAN, rules[r], one.u);
            const mu_step_rate fresh = {.rate = 1e-2};
            for (int k = 0; k < 200; k++) one_update(&one, 1, 1, &fresh), one_update(&many, 1, 1, &fresh);
            const double before = (double)one.w;
            for (int k = 0; k < 2000; k++) one_update(&one, 0, 1, &fresh);
            for (int k = 0; k < 16000; k++) {
                const mu_step_rate now = changed(&s, many.u, 1e-2, k == 0 ? 1 : 0);
                one_update(&many, 0, weight_of(&s), &now);
            }
            const double coasted = ((double)many.w - before) / ((double)one.w - before);
            // Weights that look ahead have gone a part of it already; `total` has hardly any momentum left.
            const double least = rules[r] == MU_MOMENTUM_AHEAD ? 0.3 : 0, most = least > 0 ? 1.1 : 0.3;
            if (coasted < least || coasted > most)
                fail_msg("%s, rule %d: coasted %g of the way", adding[i], (int)rules[r], coasted);
            bound_fini(&one.b), bound_fini(&many.b);
        }
}

// Every rule with momentum takes another one when it is told; what is left of the history is no secret.
static void test_all_rules_obey(void **unused) {
    (void)unused;
    for (size_t i = 0; i < mu_updaters.n; i++) {
        char text[80];
        one_weight own, lowered;
        snprintf(text, sizeof text, "{type: %s, rate: 1}", mu_updaters.list[i]->name);
        one_init(&own, text, 0), one_init(&lowered, text, 0);
        const double m = mu_updater_momentum(own.u, false);
        const mu_step_rate r = {.rate = 0.01},
                           less = {.rate = 0.01, .stale = {.lowers = m > 0, .keep = (float)(m / 2)}};
        for (int k = 0; k < 5; k++) one_update(&own, 1 + k, 1, &r), one_update(&lowered, 1 + k, 1, &less);
        if ((own.w != lowered.w) != (m > 0)) fail_msg("%s: momentum %g does not matter", text, m);
        bound_fini(&own.b), bound_fini(&lowered.b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_whole_batches),
        cmocka_unit_test(test_a_step_goes_as_far),
        cmocka_unit_test(test_own_histories),
        cmocka_unit_test(test_sums_of_gradients),
        cmocka_unit_test(test_descent),
        cmocka_unit_test(test_decay),
        cmocka_unit_test(test_late_gradients),
        cmocka_unit_test(test_the_change),
        cmocka_unit_test(test_all_rules_obey),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

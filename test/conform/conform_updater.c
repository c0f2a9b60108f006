// SPDX-License-Identifier: Apache-2.0
// conform_updater.c - what every rule must do, run over the registry: a new u_<rule>.c is tested untouched.
#include "unit/updater_help.h"

#include "base/attr.h"

static const mu_updater_class *rule_at(size_t i) {
    return (const mu_updater_class *)(const void *)mu_updaters.list[i];
}

// Defaults must be enough: `type` and `rate` are all a user has to write.
static mu_updater *with_defaults(bound *b, const mu_updater_class *c, double rate) {
    char text[128];
    snprintf(text, sizeof text, "{type: %s, rate: %g}", c->name, rate);
    return bound_get(b, text);
}

static void test_class(void **unused) {
    (void)unused;
    assert_true(mu_updaters.n > 0);
    for (size_t i = 0; i < mu_updaters.n; i++) {
        const mu_updater_class *c = rule_at(i);
        if (!c->name || !c->help || !c->apply) fail_msg("updater %zu has no name, help or apply", i);
        if (c->n_slots < 0 || c->n_slots > MU_MAX_SLOTS) fail_msg("%s: %d slots", c->name, c->n_slots);
        for (int k = 0; k < c->n_slots; k++) {
            if (!c->slot_name[k]) fail_msg("%s: slot %d has no name", c->name, k);
            for (int j = 0; j < k; j++)
                if (!strcmp(c->slot_name[k], c->slot_name[j]))
                    fail_msg("%s: two slots `%s`", c->name, c->slot_name[k]);
        }
        for (const mu_field *f = c->fields; f && f->key; f++) {
            if (!f->help) fail_msg("%s: key `%s` has no help", c->name, f->key);
            for (const mu_field *own = mu_updater_fields; own->key; own++)
                if (!strcmp(f->key, own->key))
                    fail_msg("%s: key `%s` belongs to every updater", c->name, f->key);
        }
    }
}

enum { N = 32 };

// f(w) = sum of a_i (w_i - t_i)^2 / 2 with a_i in [0.5, 2].
static double loss(const float *w, float *g) {
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        float a = 1.25f + 0.75f * noise(1, i), d = w[i] - noise(2, i);
        g[i] = a * d;
        sum += 0.5 * (double)a * (double)d * (double)d;
    }
    return sum;
}

// With a small rate each rule with its defaults walks downhill on a quadratic. Momentum may overshoot
// near the bottom, so the way is judged in stretches of 50 steps and only while the loss is large.
static void test_goes_downhill(void **unused) {
    (void)unused;
    for (size_t r = 0; r < mu_updaters.n; r++) {
        bound b;
        mu_updater *u = with_defaults(&b, rule_at(r), 0.01);
        mu_param p = {.shape = MU_SHAPE(N), .count = N, .lr_mult = 1, .decay_mult = 1};
        float w[N] = {0}, g[N], h[MU_MAX_SLOTS][N] = {{0}};
        float *const slots[MU_MAX_SLOTS] = {h[0], h[1], h[2]};
        double first = loss(w, g), last = first;
        for (int64_t step = 0; step < 400; step++) {
            mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
            apply_one(u, &p, w, slots, &grad, 1, 0.01, step);
            double now = loss(w, g);
            if (!isfinite(now)) fail_msg("%s: loss %g at step %d", u->class->name, now, (int)step);
            if (step % 50 != 49) continue;
            if (now > 1e-3 * first && !(now < last))
                fail_msg("%s: loss %g at step %d, %g before", u->class->name, now, (int)step, last);
            last = now;
        }
        if (!(last < first)) fail_msg("%s: loss %g at the start, %g at the end", u->class->name, first, last);
        bound_fini(&b);
    }
}

// Zero, tiny and large gradients, first steps and late ones: everything stays finite.
static void test_stays_finite(void **unused) {
    (void)unused;
    static const float sizes[] = {0, 1e-30f, 1e-8f, 1, 1e4f, 1e9f};
    for (size_t r = 0; r < mu_updaters.n; r++)
        for (size_t k = 0; k < MU_COUNT(sizes); k++) {
            bound b;
            mu_updater *u = with_defaults(&b, rule_at(r), 0.01);
            mu_param p = {.shape = MU_SHAPE(N), .count = N, .lr_mult = 1, .decay_mult = 1};
            float w[N], g[N], h[MU_MAX_SLOTS][N] = {{0}};
            float *const slots[MU_MAX_SLOTS] = {h[0], h[1], h[2]};
            fill(w, N, 3, 1);
            for (int64_t step = 0; step < 20; step++) {
                fill(g, N, 50 + (uint64_t)step, sizes[k]);
                mu_grad grad = {.form = MU_GRAD_DENSE, .dense = g};
                apply_one(u, &p, w, slots, &grad, 1, 0.01, step < 10 ? step : step * 100000000);
            }
            for (size_t i = 0; i < N; i++) {
                bool good = isfinite(w[i]);
                for (int s = 0; s < MU_MAX_SLOTS; s++) good = good && isfinite(h[s][i]);
                if (!good)
                    fail_msg("%s, gradients of %g: weight %zu is %g", u->class->name, (double)sizes[k], i,
                             (double)w[i]);
            }
            bound_fini(&b);
        }
}

// A rule touches its own slice and its own history only, at any length and alignment.
static void test_stays_inside(void **unused) {
    (void)unused;
    enum { PAD = 5, LONGEST = 70 };
    for (size_t r = 0; r < mu_updaters.n; r++)
        for (size_t n = 0; n <= LONGEST; n++) {
            bound b;
            mu_updater *u = with_defaults(&b, rule_at(r), 0.01);
            float g[LONGEST], block[1 + MU_MAX_SLOTS][LONGEST + 2 * PAD];
            fill(g, LONGEST, 1, 1);
            for (int k = 0; k <= MU_MAX_SLOTS; k++)
                for (size_t i = 0; i < LONGEST + 2 * PAD; i++) block[k][i] = 0.25f;
            mu_slice s = {.n = n, .value = block[0] + PAD, .grad = g, .scale = 1};
            for (int k = 0; k < u->class->n_slots; k++) s.slot[k] = block[k + 1] + PAD;
            u->class->apply(u->state, &s, 0.1f, (mu_rule_step){.update = 3});
            for (int k = 0; k <= MU_MAX_SLOTS; k++)
                for (size_t i = 0; i < LONGEST + 2 * PAD; i++) {
                    bool inside = i >= PAD && i < PAD + n && k <= u->class->n_slots;
                    if (!inside && (block[k][i] < 0.25f || block[k][i] > 0.25f))
                        fail_msg("%s: length %zu changed element %zu of block %d", u->class->name, n, i, k);
                }
            bound_fini(&b);
        }
}

// ---- fused rules -----------------------------------------------------------------------------

enum { LONG = 100, ROOM = LONG + 40 };

typedef struct bench { // a slice of n elements in the middle of blocks
    float block[1 + MU_MAX_SLOTS][ROOM], old[1 + MU_MAX_SLOTS][ROOM], back[ROOM];
} bench;

static mu_slice slice_of(const mu_updater *u, bench *b, size_t at, size_t n) {
    for (int k = 0; k <= MU_MAX_SLOTS; k++) {
        fill(b->block[k], ROOM, 10 + (uint64_t)k, 0.5f);
        for (size_t i = 0; k && i < ROOM; i++) b->block[k][i] = fabsf(b->block[k][i]); // may be squares
        for (size_t i = 0; i < ROOM; i++) b->old[k][i] = NAN;
    }
    fill(b->back, ROOM, 20, 1);
    mu_slice s = {.n = n, .value = b->block[0] + at, .scale = 1};
    for (int k = 0; k < u->class->n_slots; k++) s.slot[k] = b->block[k + 1] + at;
    return s;
}

static void compare(const mu_updater *u, const char *what, size_t n, const float *got, const float *want,
                    double tolerance) {
    for (size_t i = 0; i < ROOM; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance))
            fail_msg("%s, %s, length %zu: element %zu is %.9g, not %.9g", u->class->name, what, n, i,
                     (double)got[i], (double)want[i]);
}

// What a fused rule does in one pass is what is done around every other rule.
static void check_fused(const mu_updater *u, mu_rule_step step, size_t at, size_t n) {
    const float scale = -0.7f, decay = 0.03f;
    static bench plain, fused, logs;
    float g[LONG], finished[LONG], back[ROOM];
    fill(g, LONG, 1, 1);
    mu_slice p = slice_of(u, &plain, at, n), f = slice_of(u, &fused, at, n), c = slice_of(u, &logs, at, n);
    memcpy(back, plain.back, sizeof back);
    for (size_t i = 0; i < n; i++) finished[i] = scale * g[i] + decay * p.value[i];
    for (size_t i = 0; i < n; i++) back[at + i] += scale * p.value[i];
    p.grad = finished, f.grad = c.grad = g;
    f.scale = c.scale = scale, f.decay = c.decay = decay;
    f.back = fused.back + at;
    size_t kept = 0;
    const int n_changed = u->class->n_changed ? u->class->n_changed(u->state) : u->class->n_slots;
    mu_undo_log undo = {.value = logs.old[0] + at, .n = &kept};
    for (int k = 0; k < n_changed; k++) undo.slot[k] = logs.old[k + 1] + at;
    c.undo = &undo;
    bench was = logs;
    u->class->apply(u->state, &p, 0.1f, step);
    u->class->apply(u->state, &f, 0.1f, step);
    u->class->apply(u->state, &c, 0.1f, step);
    for (int k = 0; k <= u->class->n_slots; k++) {
        compare(u, "scale and decay", n, fused.block[k], plain.block[k], 1e-6);
        compare(u, "undo log", n, logs.block[k], fused.block[k], 0);
    }
    compare(u, "back", n, fused.back, back, 1e-6);
    assert_int_equal(kept, n);
    for (int k = 0; k <= n_changed; k++)
        for (size_t i = 0; i < ROOM; i++)
            if (i >= at && i < at + n) assert_true(logs.old[k][i] == was.block[k][i]);
            else assert_true(isnan(logs.old[k][i]));
}

static void test_fused(void **unused) {
    (void)unused;
    static const char *const more[] = {"", ", momentum: 0.9",
                                       ", momentum: 0.9, early_momentum: 0, early: 10 steps"};
    for (size_t r = 0; r < mu_updaters.n; r++)
        for (size_t m = 0; rule_at(r)->fused && m < MU_COUNT(more); m++)
            for (size_t n = 0; n <= LONG; n++) {
                char text[160];
                snprintf(text, sizeof text, "{type: %s, rate: 0.1%s}", rule_at(r)->name, more[m]);
                bound b;
                mu_updater *u = bound_get(&b, text);
                const mu_rule_step usual = {.update = 3}, young = {.update = 3, .young = true},
                                   lowered = {.update = 3, .stale = {.lowers = true}},
                                   ahead = {.update = 3,
                                            .stale = {.lowers = true, .keep = 0.95f, .ahead = 3}};
                check_fused(u, usual, n % 17, n);
                if (strstr(more[m], "early")) check_fused(u, young, n % 17, n);
                if (mu_updater_momentum(u, false) > 0) check_fused(u, lowered, n % 17, n);
                if (mu_updater_momentum(u, false) > 0) check_fused(u, ahead, n % 17, n);
                bound_fini(&b);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class),
        cmocka_unit_test(test_goes_downhill),
        cmocka_unit_test(test_stays_finite),
        cmocka_unit_test(test_stays_inside),
        cmocka_unit_test(test_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

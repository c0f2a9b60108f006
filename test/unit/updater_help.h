// SPDX-License-Identifier: Apache-2.0
// updater_help.h - shared by the tests of src/updater: an updater from the text of its block, random numbers.
#ifndef TEST_UNIT_UPDATER_HELP_H
#define TEST_UNIT_UPDATER_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/yaml.h"
#include "updater/updater.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bound { // one bound `updater:` block and what it lives in
    mu_arena arena;
    mu_diags diags;
    mu_updater *u; // NULL after problems
} bound;

static inline void bound_init(bound *b, const char *text) {
    static const mu_registry *const registries[] = {&mu_schedules, NULL};
    mu_err err = {0};
    mu_node *node = NULL;
    mu_arena_init(&b->arena, "test");
    mu_diags_init(&b->diags, &b->arena);
    mu_srcpos origin = {"test.yaml", 1, 1, 0};
    if (mu_yaml_parse(&b->arena, &b->diags, origin, text, strlen(text), &node, &err) != MU_OK)
        fail_msg("`%s`: %s", text, err.msg);
    mu_binder binder = {.arena = &b->arena, .diags = &b->diags, .folder = ".", .registries = registries};
    b->u = mu_updater_bind(&binder, node);
}

static inline void bound_fini(bound *b) { mu_arena_fini(&b->arena); }

static inline mu_updater *bound_get(bound *b, const char *text) {
    bound_init(b, text);
    if (!b->u) fail_msg("`%s`: %s", text, b->diags.n ? b->diags.list[0].msg : "no updater and no problem");
    return b->u;
}

static inline mu_target target(const mu_updater *u, const mu_param *p, float *value, float *const *slots) {
    mu_target t = {.updater = u, .param = p, .value = value};
    for (int k = 0; k < MU_MAX_SLOTS; k++) t.slot[k] = slots[k];
    return t;
}

// The whole parameter by one gradient.
static inline void apply_one(const mu_updater *u, const mu_param *p, float *value, float *const *slots,
                             const mu_grad *g, float scale, double rate, int64_t update) {
    const mu_target t = target(u, p, value, slots);
    mu_updater_apply(&t, &(mu_update){1, &g, &scale, rate, {.update = update}});
}
static inline void apply_rows(const mu_updater *u, const mu_param *p, float *value, float *const *slots,
                              int64_t row0, int64_t n, const float *g, double rate, int64_t update) {
    const mu_target t = target(u, p, value, slots);
    mu_updater_apply_rows(&t, &(mu_update){.rate = rate, .step = {.update = update}}, row0, n, g);
}

// Uniform in [-1, 1), a function of (seed, i).
static inline float noise(uint64_t seed, size_t i) {
    uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (float)(int32_t)(z >> 32) * 0x1p-31f;
}
static inline void fill(float *v, size_t n, uint64_t seed, float size) {
    for (size_t i = 0; i < n; i++) v[i] = size * noise(seed, i);
}
static inline float *floats(size_t n) {
    float *p = calloc(n ? n : 1, sizeof *p);
    assert_non_null(p);
    return p;
}

#define assert_near(got, want, tolerance)                                                                    \
    do {                                                                                                     \
        double g_ = (got), w_ = (want), t_ = (tolerance);                                                    \
        if (!(fabs(g_ - w_) <= t_))                                                                          \
            fail_msg("%s: got %.9g, want %.9g, off by %.3g, tolerance %.3g", #got, g_, w_, fabs(g_ - w_),    \
                     t_);                                                                                    \
    } while (0)

#endif

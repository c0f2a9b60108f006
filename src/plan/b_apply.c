// SPDX-License-Identifier: Apache-2.0
// b_apply.c - how fast each update rule goes over weights, gradient and histories, with its defaults: blocks
// that a core's cache holds, and blocks in memory. By the same call as in a training.
#include "plan/crew.h"
#include "plan/profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "job/yaml.h"
#include "ps/shared.h"
#include "updater/updater.h"

#include <stdio.h>
#include <string.h>

enum { BLOCKS = 2 + MU_MAX_SLOTS, PAGE = 4096 };

typedef struct bench { // of one rule
    const mu_updater *u;
    mu_param param;
    mu_grad grad;
    mu_target target;
    int histories; // that an update changes
    int64_t updates;
    size_t floats;
} bench;

// Weights, gradient and histories as a run has them: no two begin at the same offset of a page.
static bool prepare(void *ctx, int who) {
    bench *b = ctx;
    float *block[BLOCKS];
    (void)who;
    for (int k = 0; k < 2 + b->u->class->n_slots; k++) {
        char *p = mu_alloc_block(b->floats * sizeof(float) + PAGE, "probe");
        if (!p) return false;
        block[k] = (float *)(void *)(p + (k < 1 + MU_MAX_SLOTS ? mu_shared_shift(k) : 0));
        for (size_t i = 0; i < b->floats; i++) block[k][i] = k > 1 ? 0 : 1e-3f + 1e-6f * (float)(i % 64);
    }
    b->target.value = block[0];
    b->grad = (mu_grad){.form = MU_GRAD_DENSE, .dense = block[1]};
    for (int k = 0; k < b->u->class->n_slots; k++) b->target.slot[k] = block[2 + k];
    b->target.updater = b->u;
    b->target.param = &b->param;
    return true;
}

// Bytes, each block of an update counted once.
static double work(void *ctx, const mu_crew_turn *t) {
    bench *b = ctx;
    const mu_grad *g = &b->grad;
    const float one = 1;
    double bytes = 0;
    do {
        const mu_update u = {
            .n = 1, .grad = &g, .weight = &one, .rate = 1e-4, .step = {.update = b->updates++}};
        mu_updater_apply(&b->target, &u);
        bytes += (double)(b->floats * sizeof(float)) * (2 + b->histories);
    } while (mu_clock_ns() < t->end_ns);
    return bytes;
}

static mu_status measure(mu_profile *p, bench *b, double bytes, double *out, mu_err *err) {
    mu_crew_result r;
    const mu_crew c = {.name = "muster:probe",
                       .n = 1,
                       .windows = mu_profile_windows(p),
                       .window_s = 0.01,
                       .ctx = b,
                       .prepare = prepare,
                       .work = work};
    b->floats = (size_t)(bytes / (2 + b->histories) / sizeof(float)) / 64 * 64;
    b->param.shape = MU_SHAPE((int64_t)b->floats);
    b->param.count = b->floats;
    MU_TRY(mu_crew_run(&c, &r, err));
    *out = mu_crew_best_rate(&r);
    mu_profile_note(p, &r);
    mu_crew_fini(&r);
    return MU_OK;
}

static double in_memory(const mu_machine *m) {
    double bytes = 2 * (m->shared_cache_bytes + m->cache_bytes);
    if (bytes < 64e6) bytes = 64e6;
    if (bytes > 512e6) bytes = 512e6;
    return m->memory_bytes > 0 && bytes > m->memory_bytes / 8 ? m->memory_bytes / 8 : bytes;
}

// The rule as a job has it that says nothing of it. NULL: it has keys that must be given.
static const mu_updater *make_rule(const char *name, mu_arena *arena, mu_err *err) {
    static const mu_registry *const registries[] = {&mu_schedules, NULL};
    mu_diags diags;
    mu_node *node = NULL;
    char text[80];
    mu_diags_init(&diags, arena);
    snprintf(text, sizeof text, "{type: %s, rate: 0.001}", name);
    const mu_srcpos origin = {"probe", 1, 1, 0};
    if (mu_yaml_parse(arena, &diags, origin, text, strlen(text), &node, err) != MU_OK) return NULL;
    return mu_updater_bind(&(mu_binder){arena, &diags, ".", registries, 0}, node);
}

static mu_status measure_rule(mu_profile *p, const char *name, mu_arena *arena, mu_err *err) {
    mu_machine *m = p->m;
    mu_machine_rule *r = &m->rule[m->n_rules];
    bench b = {.param = {.name = "probe", .lr_mult = 1, .decay_mult = 1, .n_users = 1}};
    mu_err own = {0};
    b.u = make_rule(name, arena, &own);
    if (!b.u)
        return own.status == MU_OK ? MU_OK : mu_err_pass(own.status, &own, err); // OK: it will be derived
    b.histories = mu_updater_n_changed(b.u);
    const double cache = m->cache_bytes > 0 ? m->cache_bytes : 512e3;
    MU_TRY(measure(p, &b, 0.5 * cache, &r->cached_bytes_per_s, err));
    MU_TRY(measure(p, &b, in_memory(m), &r->bytes_per_s, err));
    snprintf(r->name, sizeof r->name, "%s", name);
    m->n_rules++;
    return MU_OK;
}

static mu_status run(mu_profile *p, mu_err *err) {
    mu_arena arena;
    mu_status st = MU_OK;
    mu_arena_init(&arena, "probe");
    for (size_t i = 0; i < mu_updaters.n && p->m->n_rules < MU_MACHINE_RULES && st == MU_OK; i++)
        st = measure_rule(p, mu_updaters.list[i]->name, &arena, err);
    mu_arena_fini(&arena);
    return st;
}

const mu_probe_class mu_probe_apply = {
    .name = "apply",
    .help = "update rules over weights, gradient and histories",
    .share = 12,
    .run = run,
};

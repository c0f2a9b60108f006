// SPDX-License-Identifier: Apache-2.0
// m_outer.c - an updater of its own over the mean way of the groups (DiLoCo, Douillard et al. 2023).
//
//   g = c - mean of w_g;  c by `rule` with gradient g and `rate`;  w_g = c
//
// What the groups have done since the last merge is one gradient of the center. With Nesterov's momentum the
// center goes on in directions that many merges agree on, which makes up for merging seldom. Running
// statistics become their mean.
#include "ps/merge.h"

#include <string.h>

struct outer {
    double       rate;
    mu_class_ref rule;
};

static const mu_field fields[] = {
    MU_FIELD(struct outer, rate, MU_DOUBLE, "0.7", "(0,)", "rate of the outer updater"),
    MU_FIELD_CLASS(struct outer, rule, "nesterov", "updater",
                   "the outer updater: any rule, with its own keys"),
    {0},
};

static const mu_updater_class *rule_of(const struct outer *o) {
    return (const mu_updater_class *)(const void *)o->rule.plugin;
}

static int n_slots(const void *state) { return rule_of(state)->n_slots; }
static const char *slot_name(const void *state, int k) { return rule_of(state)->slot_name[k]; }

static const char *check(const void *state) {
    const struct outer *o = state;
    return o->rule.plugin && rule_of(o)->check ? rule_of(o)->check(o->rule.state) : NULL;
}

enum { PIECE = 1024 };

// way: center - mean of the groups.
static void mean_way(const mu_merge *m, size_t begin, size_t n, float *restrict way) {
    const float share = 1.0f / (float)m->n;
    memset(way, 0, n * sizeof *way);
    for (int g = 0; g < m->n; g++) {
        const float *restrict w = m->weights[g] + begin, *restrict c = m->center + begin;
        for (size_t i = 0; i < n; i++) way[i] += share * (c[i] - w[i]);
    }
}

static void merge(const void *state, const mu_merge *m) {
    const struct outer *o = state;
    const size_t count = m->param->count;
    float way[PIECE];
    for (size_t at = 0; at < count; at += PIECE) {
        const size_t n = count - at < PIECE ? count - at : PIECE;
        mean_way(m, at, n, way);
        mu_slice s = {.n = n, .value = m->center + at, .grad = way, .scale = 1};
        for (int k = 0; k < rule_of(o)->n_slots; k++) s.slot[k] = m->history[k] + at;
        if (m->param->is_stat)
            for (size_t i = 0; i < n; i++) s.value[i] -= way[i];
        else rule_of(o)->apply(o->rule.state, &s, (float)o->rate, (mu_rule_step){.update = m->number});
        for (int g = 0; g < m->n; g++) memcpy(m->weights[g] + at, m->center + at, n * sizeof *way);
    }
}

const mu_merge_class mu_merge_outer = {
    .name = "outer",
    .help = "an updater applies the mean change of all server groups to a center, which they all get",
    .fields = fields,
    .state_size = sizeof(struct outer),
    .n_slots = n_slots,
    .slot_name = slot_name,
    .check = check,
    .merge = merge,
};

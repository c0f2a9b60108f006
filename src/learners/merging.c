// SPDX-License-Identifier: Apache-2.0
// merging.c - see merging.h.
#include "learners/merging.h"

#include <stdio.h>
#include <string.h>

static int64_t parts_of(const mu_merging *m) { return m->t->s->setup.sync_parts; }

// The version at which a group is merged for the k-th time (from 0) in this run.
static int64_t halt_of(const mu_merging *m, int64_t k) {
    const mu_position *begin = &m->group->begin;
    const int64_t every = m->t->s->setup.sync_every, parts = parts_of(m);
    return begin->step + begin->extra_updates + ((k + 1) * every + parts - 1) / parts;
}

static bool set_halt(const mu_merging *m, mu_server_group *g) {
    const int64_t at = halt_of(m, g->merged);
    if (!mu_server_set_halt(&g->shared, at)) return false;
    g->halt = at;
    return true;
}

// ---- the beginning ----

// By floats: a parameter goes into the part in which its middle lies.
static mu_status cut_parts(mu_merging *m, mu_err *err) {
    const mu_params *ps = m->t->s->params;
    const int64_t parts = parts_of(m);
    size_t all = 0, at = 0;
    m->first_param = mu_alloc_array((size_t)parts + 1, sizeof *m->first_param, "merge");
    if (!m->first_param) return MU_FAIL_NOMEM(err, "the parts of a merge");
    for (int i = 0; i < ps->n; i++) all += ps->list[i]->count;
    for (int64_t p = 0; p <= parts; p++) m->first_param[p] = ps->n;
    for (int i = ps->n - 1; i >= 0; i--) {
        at += ps->list[i]->count;
        const double middle = (double)(all - at) + 0.5 * (double)ps->list[i]->count;
        const int64_t part = (int64_t)(middle / (double)all * (double)parts);
        for (int64_t p = 0; p <= part; p++) m->first_param[p] = i;
    }
    return MU_OK;
}

// Structs first, then their blocks: children have them at the same address.
static mu_status open_center(mu_merging *m, mu_err *err) {
    const mu_merge_blocks *kept = m->t->s->merge;
    char name[96];
    if (!kept) return MU_OK;
    const size_t floats = mu_merge_blocks_floats(kept), head = 64 * ((2 * sizeof *kept + 63) / 64);
    snprintf(name, sizeof name, "%.60s-center", m->group->shared.head->run_id);
    MU_TRY(mu_region_create(name, head + 2 * floats * sizeof(float), &m->room, err));
    float *blocks = (float *)(void *)(m->room.base + head);
    m->center = (mu_merge_blocks *)(void *)m->room.base;
    m->copy = m->center + 1;
    *m->center = *m->copy = (mu_merge_blocks){.count = kept->count, .n_slots = kept->n_slots};
    mu_merge_blocks_point(m->center, blocks);
    mu_merge_blocks_point(m->copy, blocks + floats);
    mu_merge_blocks_copy(m->center, kept);
    if (!kept->filled) memcpy(m->center->center, m->group->shared.weights, kept->count * sizeof(float));
    m->center->filled = true;
    m->before = m->center->merges;
    mu_merging_snapshot(m);
    return MU_OK;
}

mu_status mu_merging_open(mu_merging *m, mu_server_group *group, int n, mu_err *err) {
    mu_training *t = group->t;
    *m = (mu_merging){.group = group, .n = n, .t = t, .room.fd = -1};
    if (n < 2) return MU_OK;
    m->class = mu_merge_class_of(&t->s->setup);
    MU_TRY(cut_parts(m, err));
    MU_TRY(open_center(m, err));
    for (int g = 0; g < n; g++)
        if (!set_halt(m, &group[g])) return MU_FAIL(err, MU_EBACKEND, "server group %d cannot be held", g);
    return MU_OK;
}

// ---- merging ----

static void merge_part(mu_merging *m, mu_server_group *const *at, int n, int64_t k) {
    const mu_params *ps = m->t->s->params;
    const int64_t parts = parts_of(m), all = m->before + k, part = all % parts;
    const int end = m->first_param[part + 1];
    for (int i = m->first_param[part]; i < end; i++) {
        const mu_param *p = ps->list[i];
        if (p->is_state) continue;
        mu_merge one = {.param = p, .groups = m->n, .n = n, .number = all / parts};
        for (int g = 0; g < n; g++) {
            mu_shared_head *h = at[g]->shared.head;
            one.weights[g] = at[g]->shared.weights + p->offset;
            atomic_fetch_add(&h->merged_bytes, 2 * (int64_t)(p->count * sizeof(float)));
        }
        if (m->center) one.center = m->center->center + p->offset;
        for (int j = 0; m->center && j < m->center->n_slots; j++)
            one.history[j] = m->center->history[j] + p->offset;
        m->class->merge(m->t->s->setup.merge.state, &one);
    }
}

// The weights are changed first; where a halt cannot be moved now, it is at the next look.
static void merge(mu_merging *m, mu_server_group *const *at, int n) {
    const int64_t k = at[0]->merged;
    merge_part(m, at, n, k);
    for (int g = 0; g < n; g++) {
        at[g]->merged++;
        atomic_fetch_add(&at[g]->shared.head->merges, 1);
        (void)set_halt(m, at[g]);
    }
    if (m->center && m->center->merges < m->before + k + 1) m->center->merges = m->before + k + 1;
}

static bool has_ended(const mu_server_group *g) { return g->started && mu_watchdog_all_ended(&g->dog); }

static bool is_held(const mu_server_group *g) {
    return g->halt != INT64_MAX && atomic_load(&g->shared.head->version) >= g->halt;
}

// Nothing changes its weights until it is merged or let go.
static bool hold(const mu_merging *m, mu_server_group *g) {
    if (g->halt == halt_of(m, g->merged)) return mu_server_hold(&g->shared, has_ended(g));
    if (g->halt != INT64_MAX) (void)set_halt(m, g); // it could not be moved after the last merge
    return false;
}

static void merge_together(mu_merging *m) {
    mu_server_group *at[MU_MERGE_GROUPS] = {0};
    int held = 0, ready = 0, n = 0;
    for (int g = 0; g < m->n; g++) {
        const bool ended = has_ended(&m->group[g]), waits = is_held(&m->group[g]);
        held += waits && !ended;
        ready += waits || ended;
    }
    // Those that have ended have nothing more to learn from each other before the end.
    if (!held || ready < m->n) return;
    for (int g = 0; g < m->n; g++) // behind one that is not to be had, too: a halt may have to be moved there
        if (hold(m, &m->group[g])) at[n++] = &m->group[g];
    if (n == m->n) merge(m, at, n);
    for (int i = 0; i < n; i++) mu_server_let_go(&at[i]->shared);
}

static void merge_alone(mu_merging *m) {
    int64_t least = INT64_MAX;
    for (int g = 0; g < m->n; g++)
        if (!has_ended(&m->group[g]) && m->group[g].merged < least) least = m->group[g].merged;
    for (int g = 0; g < m->n; g++) {
        mu_server_group *one = &m->group[g];
        const bool near = one->merged - least < m->class->most_ahead;
        if (!near || has_ended(one) || !is_held(one) || !hold(m, one)) continue;
        merge(m, &one, 1);
        mu_server_let_go(&one->shared);
    }
}

// A group that waits sees that others move, and goes on waiting.
static void tell_those_that_wait(mu_merging *m) {
    uint64_t moved = 0;
    for (int g = 0; g < m->n; g++)
        moved += mu_shared_done(&m->group[g].shared) - atomic_load(&m->group[g].shared.head->held_pulse);
    if (moved == m->moved) return;
    m->moved = moved;
    for (int g = 0; g < m->n; g++)
        if (is_held(&m->group[g])) atomic_fetch_add(&m->group[g].shared.head->held_pulse, 1);
}

bool mu_merging_look(mu_merging *m) {
    if (m->n < 2) return false;
    if (m->class->most_ahead) merge_alone(m);
    else merge_together(m);
    tell_those_that_wait(m);
    bool waits = false;
    for (int g = 0; g < m->n; g++) waits |= is_held(&m->group[g]) && !has_ended(&m->group[g]);
    return waits;
}

// ---- the end ----

void mu_merging_end(mu_merging *m) {
    mu_server_group *at[MU_MERGE_GROUPS];
    bool due = m->n > 1 && !m->class->most_ahead;
    for (int g = 0; g < m->n && m->n > 1; g++) {
        mu_server_group *one = at[g] = &m->group[g];
        const bool there = atomic_load(&one->shared.head->version) >= halt_of(m, one->merged);
        due &= there;
        if (m->class->most_ahead && there) merge(m, &one, 1);
    }
    if (due) merge(m, at, m->n);
}

void mu_merging_snapshot(mu_merging *m) {
    if (m->center) mu_merge_blocks_copy(m->copy, m->center);
}

void mu_merging_close(mu_merging *m) {
    if (m->center) mu_merge_blocks_copy(m->t->s->merge, m->center);
    m->center = m->copy = NULL;
    if (m->room.base) mu_region_close(&m->room);
    mu_free(m->first_param);
    m->first_param = NULL;
}

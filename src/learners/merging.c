// SPDX-License-Identifier: Apache-2.0
// merging.c - see merging.h.
#include "learners/merging.h"

#include "base/clock.h"

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

static mu_status cut_parts(mu_merging *m, mu_err *err) {
    m->first_param = mu_alloc_array((size_t)parts_of(m) + 1, sizeof *m->first_param, "merge");
    if (!m->first_param) return MU_FAIL_NOMEM(err, "the parts of a merge");
    mu_merge_cut(m->t->s->params, parts_of(m), m->first_param);
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

static int all_groups(const mu_merging *m) { return m->rounds ? m->rounds->all : m->n; }

mu_status mu_merging_open(mu_merging *m, mu_server_group *group, int n, mu_rounds *rounds, mu_err *err) {
    mu_training *t = group->t;
    *m = (mu_merging){.group = group, .n = n, .t = t, .room.fd = -1, .rounds = rounds};
    if (all_groups(m) < 2) return MU_OK;
    m->class = mu_merge_class_of(&t->s->setup);
    MU_TRY(cut_parts(m, err));
    MU_TRY(open_center(m, err));
    for (int g = 0; g < n; g++)
        if (!set_halt(m, &group[g])) return MU_FAIL(err, MU_EBACKEND, "server group %d cannot be held", g);
    return MU_OK;
}

// ---- merging ----

// The parameters of the part that is merged as the k-th, and so many parts were before it, by all runs.
typedef struct merge_place { int first, end; int64_t number; } merge_place;

static merge_place place_of(const mu_merging *m, int64_t k) {
    const int64_t parts = parts_of(m), all = m->before + k, part = all % parts;
    return (merge_place){m->first_param[part], m->first_param[part + 1], all / parts};
}

// The weights of the groups that merge: of these, or of all ranks.
static int list_weights(const mu_merging *m, mu_server_group *const *at, int n, float **weights) {
    const mu_rounds *r = m->rounds;
    for (int g = 0; g < n; g++) weights[r ? r->first + g : g] = at[g]->shared.weights;
    for (int g = 0; r && g < r->all; g++)
        if (r->theirs[g]) weights[g] = r->theirs[g];
    return r ? r->all : n;
}

static void merge_part(mu_merging *m, mu_server_group *const *at, int n, int64_t k) {
    const mu_params *ps = m->t->s->params;
    const merge_place place = place_of(m, k);
    float *weights[MU_MERGE_GROUPS];
    const int together = list_weights(m, at, n, weights);
    for (int i = place.first; i < place.end; i++) {
        const mu_param *p = ps->list[i];
        if (p->is_state) continue;
        mu_merge one = {.param = p, .groups = all_groups(m), .n = together, .number = place.number};
        for (int g = 0; g < together; g++) one.weights[g] = weights[g] + p->offset;
        for (int g = 0; g < n; g++)
            atomic_fetch_add(&at[g]->shared.head->merged_bytes, 2 * (int64_t)(p->count * sizeof(float)));
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
        at[g]->merged_version = atomic_load(&at[g]->shared.head->version);
        at[g]->merged_ns = mu_clock_ns();
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

static mu_status begin_round(mu_merging *m, mu_err *err) {
    const mu_params *ps = m->t->s->params;
    const merge_place place = place_of(m, m->rounds->round);
    float *weights[MU_MERGE_GROUPS];
    for (int g = 0; g < m->n; g++) weights[g] = m->group[g].shared.weights;
    if (place.first == place.end)
        return mu_rounds_begin(m->rounds, 0, 1, weights, err); // others have to hear of it
    const mu_param *first = ps->list[place.first], *last = ps->list[place.end - 1];
    return mu_rounds_begin(m->rounds, (int64_t)first->offset, (int64_t)(last->offset + last->count), weights,
                           err);
}

static void end_round(mu_merging *m) {
    mu_server_group *at[MU_MERGE_GROUPS] = {0};
    for (int g = 0; g < m->n; g++) at[g] = &m->group[g];
    merge(m, at, m->n);
    mu_rounds_next(m->rounds);
}

// Of several ranks: also of a group that has ended anywhere, where its clock is stopped.
static bool hold_anywhere(const mu_merging *m, mu_server_group *g) {
    return has_ended(g) ? mu_server_hold(&g->shared, true) : hold(m, g);
}

static mu_status merge_over_ranks(mu_merging *m, mu_err *err) {
    mu_server_group *at[MU_MERGE_GROUPS] = {0};
    int held = 0, n = 0;
    for (int g = 0; g < m->n; g++) held += is_held(&m->group[g]) && !has_ended(&m->group[g]);
    if (!m->rounds->begun ? !held && !m->rounds->asked : !mu_rounds_is_complete(m->rounds)) return MU_OK;
    for (int g = 0; g < m->n; g++) // also behind one that is not to be had: a halt may have to be moved there
        if (hold_anywhere(m, &m->group[g])) at[n++] = &m->group[g];
    mu_status st = MU_OK;
    if (n == m->n && m->rounds->begun) end_round(m);
    else if (n == m->n) st = begin_round(m, err); // clocks stay at their halts; learners may copy meanwhile
    for (int i = 0; i < n; i++) mu_server_let_go(&at[i]->shared);
    return st;
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
    if (m->rounds) moved += (uint64_t)m->rounds->nodes->bytes_received; // who is silent for long is lost
    if (moved == m->moved) return;
    m->moved = moved;
    for (int g = 0; g < m->n; g++)
        if (is_held(&m->group[g])) atomic_fetch_add(&m->group[g].shared.head->held_pulse, 1);
}

// How long each waited since the last look, and who waits now.
static bool count_waiting(mu_merging *m) {
    const int64_t now = mu_clock_ns();
    bool any = false;
    for (int i = 0; i < m->n; i++) {
        mu_server_group *g = &m->group[i];
        if (g->waits) g->waited_ns += now - m->looked_ns;
        g->waits = is_held(g) && !has_ended(g);
        any |= g->waits;
    }
    m->looked_ns = now;
    return any;
}

mu_status mu_merging_look(mu_merging *m, bool *waits, mu_err *err) {
    *waits = false;
    if (all_groups(m) < 2) return MU_OK;
    if (m->rounds) MU_TRY(merge_over_ranks(m, err));
    else if (m->class->most_ahead) merge_alone(m);
    else merge_together(m);
    tell_those_that_wait(m);
    *waits = count_waiting(m);
    return MU_OK;
}

bool mu_merging_is_under_way(const mu_merging *m) { return m->rounds && m->rounds->begun; }

// ---- the end ----

void mu_merging_end(mu_merging *m) {
    mu_server_group *at[MU_MERGE_GROUPS] = {0};
    bool due = m->n > 1 && !m->class->most_ahead;
    for (int g = 0; g < m->n && m->n > 1; g++) {
        mu_server_group *one = at[g] = &m->group[g];
        const bool there = atomic_load(&one->shared.head->version) >= halt_of(m, one->merged);
        due &= there;
        if (m->class->most_ahead && there) merge(m, &one, 1);
    }
    if (due) merge(m, at, m->n);
}

static bool is_complete(void *rounds) { return mu_rounds_is_complete(rounds); }

mu_status mu_merging_end_together(mu_merging *m, const int64_t *version, mu_err *err) {
    for (int g = 0; g < m->rounds->all; g++)
        if (version[g] != halt_of(m, m->rounds->round)) return MU_OK;
    MU_TRY(begin_round(m, err));
    MU_TRY(mu_nodes_wait(m->rounds->nodes, is_complete, m->rounds, err));
    end_round(m);
    return MU_OK;
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

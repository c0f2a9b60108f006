// SPDX-License-Identifier: Apache-2.0
// standing.c - see standing.h.
#include "learners/standing.h"

#include "layer/rowstate.h"
#include "ps/merge.h"

#include <string.h>

// updates: of all groups since the training began; samples: of the training.
static mu_position position_of(const mu_server_group *group, int n, int64_t samples, int64_t changes,
                               int64_t updates) {
    const mu_position *begin = &group->begin;
    mu_position p = mu_position_at(group->t->s, begin, samples);
    p.extra_updates = updates / n + begin->step + begin->extra_updates - p.step;
    p.version = begin->version + changes;
    p.applied = begin->applied + samples - begin->samples;
    p.time_share = atomic_load(&group->shared.head->time_share);
    return p;
}

static int64_t first_version(const mu_server_group *g) { return g->begin.step + g->begin.extra_updates; }

mu_position mu_standing_now(const mu_server_group *group, int n, int ranks) {
    int64_t samples = 0, changes = 0, updates = 0;
    for (int i = 0; i < n; i++) {
        const mu_shared *s = &group[i].shared;
        const int64_t version = atomic_load(&s->head->version);
        samples += atomic_load(&s->head->samples) - group->begin.samples;
        changes += version - first_version(group);
        updates += mu_shared_updates(s, version) - first_version(group);
    }
    return position_of(group, n, group->begin.samples + ranks * samples, ranks * changes, updates);
}

mu_standing_part mu_standing_part_of(const mu_server_group *group) {
    return (mu_standing_part){group->stripe, group->point,
                              mu_shared_updates(&group->shared, group->point.version)};
}

typedef struct range_list { mu_range *range; size_t n, cap; } range_list;

static bool add_range(void *ctx, mu_range r) {
    range_list *l = ctx;
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 256;
        mu_range *more = mu_realloc(l->range, cap * sizeof *more, "open samples");
        if (!more) return false;
        l->range = more;
        l->cap = cap;
    }
    l->range[l->n++] = r;
    return true;
}

// What is open of the samples below next: promised, or of a group that is not there yet.
static bool list_open(const mu_standing_part *part, int n, int64_t next, range_list *out) {
    for (int i = 0; i < n; i++) {
        const mu_server_point *p = &part[i].point;
        const mu_stripe *s = &part[i].stripe;
        for (int k = 0; k < p->n_open; k++)
            if (!mu_stripe_each(s, p->open[k], add_range, out)) return false;
        if (!mu_stripe_each(s, (mu_range){p->next, mu_stripe_count(s, next)}, add_range, out)) return false;
    }
    return true;
}

mu_status mu_standing_of_points(const mu_server_group *first, const mu_standing_part *part, int n,
                                mu_position *at, mu_finished *finished, mu_err *err) {
    const mu_position *begin = &first->begin;
    int64_t next = begin->samples, changes = 0, updates = 0, applied = 0;
    range_list open = {0};
    for (int i = 0; i < n; i++) {
        const mu_server_point *p = &part[i].point;
        const int64_t end = p->next > begin->samples ? mu_stripe_sample(&part[i].stripe, p->next - 1) + 1 : 0;
        if (end > next) next = end;
        changes += p->version - first_version(first);
        updates += part[i].updates - first_version(first);
        applied += p->applied;
    }
    const bool listed = list_open(part, n, next, &open);
    if (listed) {
        *finished = first->t->finished;
        mu_finished_extend(finished, open.range, (int)open.n, next);
        *at = position_of(first, n, mu_finished_count(finished), changes, updates);
        at->applied = begin->applied + applied;
        at->repeated = begin->repeated + finished->dropped;
        finished->dropped = 0;
    }
    mu_free(open.range);
    return listed ? MU_OK : MU_FAIL_NOMEM(err, "the list of open samples");
}

static void mean_of(float *restrict to, int n, float *const *from, size_t at, size_t count) {
    const float share = 1.0f / (float)n;
    for (size_t i = at; i < at + count; i++) {
        float sum = 0;
        for (int g = 1; g < n; g++) sum += from[g][i] - to[i]; // groups that agree keep their bits
        to[i] += share * sum;
    }
}

void mu_standing_mean(const mu_params *ps, int n, float *const *value, float *const *const *slot) {
    for (int i = 0; n > 1 && i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        if (p->is_state) {
            const float *copy[MU_MERGE_GROUPS];
            for (int g = 1; g < n; g++) copy[g - 1] = value[g] + p->offset;
            mu_rowstate_merge(p, value[0] + p->offset, 0, mu_param_rows(p), n - 1, copy);
            continue;
        }
        mean_of(value[0], n, value, p->offset, p->count);
        for (int k = 0; k < ps->n_slots; k++) {
            float *history[MU_MERGE_GROUPS];
            for (int g = 0; g < n; g++) history[g] = slot[g][k];
            mean_of(history[0], n, history, p->offset, p->count);
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
// partition_auto.c - the cheapest way to cut all layers; see partition_auto.h.
#include "net/partition_auto.h"

#include <stdlib.h>
#include <string.h>

typedef struct way {
    int64_t price;
    int32_t rank; // of equally cheap ones the least
    uint8_t option[];
} way;

typedef struct ways {
    char *at;
    size_t n, stride;
    int32_t *table; // by the frontier: number + 1
    size_t cells;
} ways;

static way *way_at(const ways *w, size_t i) { return (way *)(void *)(w->at + i * w->stride); }

static mu_status make_room(ways *w, int n_choices, size_t most, mu_err *err) {
    w->stride = (sizeof(way) + (size_t)n_choices + 7) / 8 * 8;
    w->n = 0;
    for (w->cells = 16; w->cells < 2 * most;) w->cells *= 2;
    w->at = mu_alloc_array(most, w->stride, "partition");
    w->table = mu_alloc_array(w->cells, sizeof *w->table, "partition");
    return w->at && w->table ? MU_OK : MU_FAIL_NOMEM(err, "the choice of a partition");
}

static void free_room(ways *w) {
    mu_free(w->at);
    mu_free(w->table);
    *w = (ways){0};
}

static int compare_ways(const way *a, const way *b) {
    if (a->price != b->price) return a->price < b->price ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static int by_price(const void *a, const void *b) { return compare_ways(a, b); }

static bool same_frontier(const way *a, const way *b, const int *open, int n) {
    for (int i = 0; i < n; i++)
        if (a->option[open[i]] != b->option[open[i]]) return false;
    return true;
}

// Of ways with the same frontier the cheapest stays, of equal ones the first.
static void keep(ways *w, const way *new, const int *open, int n_open) {
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < n_open; i++) h = (h ^ new->option[open[i]]) * 1099511628211u;
    h ^= h >> 29;
    for (size_t cell = (size_t)h & (w->cells - 1);; cell = (cell + 1) & (w->cells - 1)) {
        if (!w->table[cell]) {
            memcpy(way_at(w, w->n), new, w->stride);
            w->table[cell] = (int32_t)++w->n;
            return;
        }
        way *old = way_at(w, (size_t)w->table[cell] - 1);
        if (!same_frontier(old, new, open, n_open)) continue;
        if (compare_ways(new, old) < 0) memcpy(old, new, w->stride);
        return;
    }
}

static mu_status decide_next(mu_chooser *c, int v, const ways *from, ways *to, int *open, mu_err *err) {
    int n_open = 0;
    for (int i = 0; i <= v; i++)
        if (c->choice[i].last > v) open[n_open++] = i;
    MU_TRY(make_room(to, c->n, from->n * (size_t)c->choice[v].n + 1, err));
    way *new = way_at(to, from->n * (size_t)c->choice[v].n); // the last one is room to work in
    for (size_t i = 0; i < from->n; i++)
        for (int k = 0; k < c->choice[v].n; k++) {
            memcpy(new, way_at(from, i), to->stride);
            new->option[v] = (uint8_t)k;
            new->rank += k;
            new->price = mu_price_sum(new->price, mu_chooser_price_ending(c, v, new->option));
            keep(to, new, open, n_open);
        }
    if (to->n <= MU_MOST_WAYS) return MU_OK;
    qsort(to->at, to->n, to->stride, by_price);
    to->n = MU_MOST_WAYS;
    c->exact = false;
    return MU_OK;
}

mu_status mu_chooser_solve(mu_chooser *c, mu_err *err) {
    ways now = {0}, next = {0};
    int *open = mu_arena_array(&c->arena, (size_t)c->n + 1, sizeof *open);
    if (!open) return MU_FAIL_NOMEM(err, "the choice of a partition");
    mu_status st = make_room(&now, c->n, 1, err);
    now.n = 1;
    c->exact = true;
    for (int v = 0; v < c->n && st == MU_OK; v++) {
        st = decide_next(c, v, &now, &next, open, err);
        free_room(&now);
        now = next;
        next = (ways){0};
    }
    if (st == MU_OK) memcpy(c->best, way_at(&now, 0)->option, (size_t)c->n); // nothing is open any more
    free_room(&now);
    return st;
}

// ---- of a partition ----

mu_status mu_partition_choose(mu_partitioner *pr, mu_err *err) {
    const mu_net *net = pr->o->whole;
    mu_chooser *c = NULL;
    bool any = false;
    for (int i = 1; i < net->n_layers; i++) any |= pr->plan[i].open;
    if (!any) return MU_OK;
    MU_TRY(mu_chooser_open(pr, &c, err));
    const mu_status st = mu_chooser_solve(c, err);
    for (int i = 1; i < net->n_layers && st == MU_OK; i++) {
        if (!pr->plan[i].open) continue;
        const mu_option *o = &c->choice[c->of[i]].option[c->best[c->of[i]]];
        pr->plan[i].grid = o->grid;
        pr->plan[i].location = o->location;
    }
    mu_chooser_close(c);
    return st;
}

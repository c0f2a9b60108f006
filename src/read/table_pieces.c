// SPDX-License-Identifier: Apache-2.0
// table_pieces.c - see table.h: columns of numbers cut into pieces of equally many rows.
//
// The cuts are quantiles of the training values: a pass of its own over the file collects them, of long or
// wide tables from evenly spaced rows. Equal cuts fall together, and a column of fewer than three different
// cuts has no pieces, because they would say what its first place says.
#include "read/table.h"

#include "read/learnt.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 10000, VALUES = 1 << 24 }; // that are looked at, at most

typedef struct pass {
    const mu_table *t;
    bool header;        // the first row is still to come, and names the columns
    int64_t row, stride;
    size_t room;        // rows
    float *value;       // [n_known][room]
    size_t *n;          // [n_known] collected
} pass;

static mu_status collect(void *ctx, const mu_csv_row *row, MU_UNUSED mu_err *err) {
    pass *p = ctx;
    const bool names = p->header;
    p->header = false;
    if (names || row->n != p->t->n_columns || p->row++ % p->stride) return MU_OK;
    for (size_t i = 0; i < p->t->n_known; i++) {
        const char *cell = mu_csv_column(row, i);
        double v;
        if (p->t->column[i].kind != MU_TABLE_NUMBER || p->n[i] == p->room) continue;
        if (!mu_table_missing(p->t, cell) && mu_table_number(cell, &v))
            p->value[i * p->room + p->n[i]++] = (float)v;
    }
    return MU_OK;
}

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Value at a share of the sorted values, between its neighbours.
static double quantile(const float *sorted, size_t n, double share) {
    const double at = share * (double)(n - 1);
    const size_t below = (size_t)at, above = below + 1 < n ? below + 1 : below;
    return (double)sorted[below] + (at - (double)below) * ((double)sorted[above] - (double)sorted[below]);
}

static mu_status cut(mu_table *t, mu_table_column *c, float *value, size_t n, int64_t pieces, mu_err *err) {
    if (n < 2 || c->deviation <= 0) return MU_OK;
    qsort(value, n, sizeof *value, ascending);
    int64_t different = 1;
    for (size_t i = 1; i < n; i++) different += value[i] > value[i - 1];
    if (pieces > different - 1) pieces = different - 1;
    if (pieces < 2) return MU_OK;
    c->cut = mu_arena_array(t->arena, (size_t)pieces + 1, sizeof *c->cut);
    if (!c->cut) return MU_FAIL_NOMEM(err, "the pieces of a column");
    for (int64_t i = 0; i <= pieces; i++) {
        const double v = quantile(value, n, (double)i / (double)pieces);
        const float at = (float)((v - (double)c->mean) / (double)c->deviation);
        if (!c->n_cuts || at > c->cut[c->n_cuts - 1]) c->cut[c->n_cuts++] = at;
    }
    if (c->n_cuts < 3) c->n_cuts = 0;
    return MU_OK;
}

mu_status mu_table_learn_pieces(mu_table *t, const mu_infile *in, char separator, int64_t pieces,
                                mu_err *err) {
    if (!pieces) return MU_OK;
    int64_t most = VALUES / (int64_t)t->n_known < ROWS ? VALUES / (int64_t)t->n_known : ROWS;
    pass p = {.t = t, .header = t->header, .stride = (t->n_rows + most - 1) / most};
    p.room = (size_t)((t->n_rows + p.stride - 1) / p.stride);
    p.value = mu_alloc_array(t->n_known * p.room, sizeof *p.value, "read/table");
    p.n = mu_arena_array(t->arena, t->n_known, sizeof *p.n);
    mu_status st = p.value && p.n ? MU_OK : MU_FAIL_NOMEM(err, "the pieces of a column");
    if (st == MU_OK) st = mu_csv_parse(in, separator, collect, &p, err);
    for (size_t i = 0; st == MU_OK && i < t->n_known; i++)
        if (t->column[i].kind == MU_TABLE_NUMBER)
            st = cut(t, &t->column[i], p.value + i * p.room, p.n[i], pieces, err);
    mu_free(p.value);
    return st;
}

// ---- to and from a model ----

json_t *mu_table_put_cuts(const mu_table_column *c) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < c->n_cuts; i++)
        if (json_array_append_new(list, json_real((double)c->cut[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

mu_status mu_table_take_cuts(mu_table *t, mu_table_column *c, const json_t *list, mu_err *err) {
    if (!list || c->kind != MU_TABLE_NUMBER) return MU_OK;
    const size_t n = json_array_size(list);
    if (n < 3 || n > MU_TABLE_PIECES + 1)
        return mu_learnt_damaged("a column has no pieces, or too many", err);
    c->cut = mu_arena_array(t->arena, n, sizeof *c->cut);
    if (!c->cut) return MU_FAIL_NOMEM(err, "the pieces of a column");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        c->cut[i] = (float)json_number_value(v);
        if (!json_is_number(v) || !isfinite(c->cut[i]) || (i && !(c->cut[i] > c->cut[i - 1])))
            return mu_learnt_damaged("the cuts of a column do not ascend", err);
    }
    c->n_cuts = n;
    return MU_OK;
}

void mu_table_spread_pieces(const mu_table_column *c, float value, float *to) {
    for (size_t i = 1; i < c->n_cuts; i++) {
        const float inside = (value - c->cut[i - 1]) / (c->cut[i] - c->cut[i - 1]);
        *to++ = (inside < 0 ? 0 : inside > 1 ? 1 : inside) - 0.5f;
    }
}

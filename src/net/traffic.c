// SPDX-License-Identifier: Apache-2.0
// traffic.c - bytes of a step, as traffic.h defines them.
#include "net/partition_inner.h"

#include <string.h>

enum { VALUE = 4 };

int64_t mu_price_in_bytes(MU_UNUSED const void *ctx, const mu_cut_load *l) {
    return mu_traffic_sum(&l->moved) + (int64_t)(l->idle / MU_FLOPS_PER_BYTE);
}

void mu_cut_load_add(mu_cut_load *to, const mu_cut_load *l) {
    mu_traffic_add(&to->moved, &l->moved);
    to->largest += l->largest;
    to->idle += l->idle;
}

// ---- messages ----

// The piece as the parameter that its worker's net has.
static mu_param piece_of(const mu_param *whole, const mu_held *h) {
    mu_param p = *whole;
    p.count = whole->count / (size_t)mu_param_rows(whole) * (size_t)h->rows;
    if (p.shape.n) p.shape.d[0] = h->rows;
    p.n_users = h->n_users;
    p.max_batch = whole->max_batch * h->batch / h->whole_batch;
    p.max_rows = whole->max_rows * h->batch / h->whole_batch;
    return p;
}

static mu_grad_form form_of(const mu_param *p, bool learns, bool dense) {
    if (p->is_stat) return MU_GRAD_DENSE;
    if (!learns) return MU_GRAD_NONE;
    if (dense) return MU_GRAD_DENSE;
    if (mu_param_factors_pay(p)) return p->max_x ? MU_GRAD_GATHERED : MU_GRAD_FACTORS;
    return mu_param_rows_pay(p) ? MU_GRAD_ROWS : MU_GRAD_DENSE;
}

static int64_t message_bytes(const mu_param *p, mu_grad_form form) {
    const int64_t rows = mu_param_rows(p), cols = (int64_t)p->count / rows;
    switch (form) {
    case MU_GRAD_NONE:
        return 0;
    case MU_GRAD_FACTORS:
        return p->max_batch * (cols + rows) * VALUE;
    case MU_GRAD_GATHERED:
        return p->max_batch * (p->max_x * cols + 2 * rows) * VALUE;
    case MU_GRAD_ROWS:
        return p->max_rows * (1 + cols) * VALUE;
    case MU_GRAD_DENSE:
        break;
    }
    return rows * cols * VALUE;
}

// ---- parameters ----

static void add_piece(const mu_param *whole, const mu_held *at, const mu_traffic_opts *o, mu_traffic *out) {
    const int64_t learners = mu_traffic_learners(o), groups = mu_traffic_groups(o);
    int64_t holders = 0, sent = 0, own = 0, named = 0, count = 0;
    bool all = false;
    for (int w = 0; w < MU_MAX_PARTS; w++) {
        if (!at[w].n_users) continue;
        const mu_param part = piece_of(whole, &at[w]);
        const mu_grad_form form = form_of(&part, at[w].learns, o->dense);
        const int64_t bytes = message_bytes(&part, form);
        count = (int64_t)part.count;
        if (!holders++) own = bytes;
        sent += bytes;
        if (form == MU_GRAD_ROWS) named += part.max_rows * (count / mu_param_rows(&part));
        all |= form != MU_GRAD_NONE && form != MU_GRAD_ROWS;
    }
    holders *= learners;
    sent *= learners;
    named *= learners;
    out->gradients += groups * (sent - (o->apart ? 0 : own));
    if (all || named > count) named = count;
    if (whole->is_stat || whole->lr_mult > 0) out->weights += groups * (holders - !o->apart) * named * VALUE;
}

void mu_users_begin(mu_users *u, const mu_param *whole) {
    memset(u, 0, sizeof *u);
    u->whole = whole;
}

void mu_users_take(mu_users *u, const mu_layer *l, const mu_cut *cut, int worker, int piece) {
    const mu_extent rows = mu_extent_scaled(&cut->feature, mu_param_rows(u->whole));
    const bool cut_batch = mu_is_cut(&cut->batch);
    mu_held *h = &u->at[piece][worker];
    h->rows = rows.end - rows.begin;
    h->batch = cut_batch ? cut->batch.end - cut->batch.begin : 1;
    h->whole_batch = cut_batch ? cut->batch.whole : 1;
    h->learns |= mu_layer_runs_in_backward(l);
    h->n_users++;
}

void mu_users_end(const mu_users *u, const mu_traffic_opts *o, mu_traffic *out) {
    for (int i = 0; i < MU_MAX_PARTS; i++) add_piece(u->whole, u->at[i], o, out);
}

// ---- a partition ----

static void take_part(mu_users *u, const mu_part *l) {
    for (int k = 0; l->whole && k < l->whole->n_param; k++)
        if (l->whole->param[k] == u->whole) mu_users_take(u, l->whole, &l->cut, l->worker, l->piece);
}

mu_traffic mu_partition_traffic(const mu_partition *p, const mu_traffic_opts *o) {
    const int64_t all = (int64_t)mu_traffic_groups(o) * mu_traffic_learners(o);
    mu_traffic out = {.values = (int64_t)mu_partition_bytes(p) * all};
    for (int i = 0; i < p->whole->params->n; i++) {
        mu_users u;
        mu_users_begin(&u, p->whole->params->list[i]);
        for (int k = 0; k < p->n_layers; k++) take_part(&u, p->layer[k]);
        mu_users_end(&u, o, &out);
    }
    return out;
}

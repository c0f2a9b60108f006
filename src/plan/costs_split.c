// SPDX-License-Identifier: Apache-2.0
// costs_split.c - what workers would make of a net: how much of each layer the largest part has, and what moves.
//
// The cuts are those that a training has (net/partition.h): by batch, and as `partition: auto` chooses them.
// A part by batch takes as long as the layer takes with so few rows; a part by feature has its share.
#include "plan/costs_inner.h"

#include "net/unroll.h"

#include <math.h>
#include <string.h>

static const int workers_of[MU_COST_SPLITS] = {2, 4, 8, 16};

static double layer_s(const mu_costs *c, const mu_cost_layer *l, double rows) {
    return mu_cost_at(c, l->forward_s, rows) + mu_cost_at(c, l->backward_s, rows);
}

// Rows of the table are families of copies in the order of the net (train/timing.c).
static double share_of(const mu_costs *c, const mu_partition *p, double rows) {
    const mu_net *net = p->whole;
    double whole = 0, largest = 0;
    for (int i = 1, row = 0; i < net->n_layers && row < c->n_layers; i++) {
        if (mu_net_family(net->layer[i]) != net->layer[i]) continue;
        const mu_cost_layer *l = &c->layer[row++];
        const mu_grid g = p->grid[i];
        whole += layer_s(c, l, rows);
        largest += layer_s(c, l, rows / g.batch) / g.feature;
    }
    // Layers are short, and times of them noisy: a part is no more than the whole, and no less than its share.
    return whole > 0 ? fmin(fmax(largest / whole, 1.0 / p->workers), 1) : 1;
}

// Layers one after the other that wait for a value of another worker, forward and back.
static int hops_of(const mu_partition *p) {
    int n = 0;
    for (int i = 0; i < p->n_bridges; i++) {
        bool seen = false;
        for (int k = 0; k < i && !seen; k++) seen = p->bridge[k].source->blob == p->bridge[i].source->blob;
        if (!seen) n += 1 + p->bridge[i].gradient;
    }
    return n;
}

static bool split_one(const mu_cost_job *j, int workers, bool auto_cut, int k, const mu_costs *c,
                      mu_cost_split *out) {
    mu_partition *p = NULL;
    mu_err ignored = {0};
    mu_partition_opts o = {.whole = j->s->train.net, .workers = workers,
                           .split = auto_cut ? MU_SPLIT_AUTO : MU_SPLIT_BATCH};
    o.traffic = (mu_traffic_opts){.learners = 1};
    if (mu_partition_create(&j->s->binder, &o, &p, &ignored) != MU_OK) return false;
    const mu_traffic t = mu_partition_traffic(p, &o.traffic);
    *out = (mu_cost_split){workers, auto_cut, .bridges = hops_of(p)};
    out->share[k] = share_of(c, p, (double)c->size[k]);
    out->values_bytes[k] = (double)t.values;
    out->gradient_bytes[k] = (double)t.gradients;
    out->weight_bytes[k] = (double)t.weights;
    mu_partition_destroy(p);
    return true;
}

static bool split_size(const mu_cost_job *j, int workers, bool auto_cut, int k, const mu_costs *c,
                       mu_cost_split *to) {
    mu_cost_split one;
    if (c->size[k] < workers) { // so few rows that some have none
        to->share[k] = 1;
        return true;
    }
    if (!split_one(j, workers, auto_cut, k, c, &one)) return false;
    to->workers = workers, to->auto_cut = auto_cut, to->bridges = one.bridges;
    to->share[k] = one.share[k];
    to->values_bytes[k] = one.values_bytes[k];
    to->gradient_bytes[k] = one.gradient_bytes[k];
    to->weight_bytes[k] = one.weight_bytes[k];
    return true;
}

// A net that cannot be cut so has no row: it is not proposed.
mu_status mu_cost_splits(const mu_cost_task *t, mu_costs *c, mu_err *err) {
    enum { WAYS = MU_COST_SPLITS * 2 };
    bool good[WAYS];
    for (int i = 0; i < WAYS; i++) good[i] = workers_of[i / 2] <= t->cores;
    for (int k = 0; k < c->n_sizes; k++) {
        mu_cost_job j;
        MU_TRY(mu_cost_open(t, c->size[k], true, &j, err));
        for (int i = 0; i < WAYS; i++)
            good[i] = good[i] && split_size(&j, workers_of[i / 2], i % 2, k, c, &c->split[i]);
        mu_cost_close(&j);
    }
    for (int i = 0; i < WAYS; i++)
        if (good[i] && c->split[i].workers) c->split[c->n_splits++] = c->split[i];
    memset(&c->split[c->n_splits], 0, (size_t)(WAYS - c->n_splits) * sizeof *c->split);
    return MU_OK;
}

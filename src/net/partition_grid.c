// SPDX-License-Identifier: Apache-2.0
// partition_grid.c - which grid each layer of a net is cut into, and where whole ones stand.
//
// What is wrong is said of the layer as the job has it, with what would be possible. With one worker nothing
// is cut, so a job that is written for several runs on one as it is.
#include "net/partition_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static mu_srcpos place_of(const mu_layer *l, const char *key) {
    const mu_node *n = mu_node_find(l->node, key);
    return n ? n->pos : l->pos;
}

static const char *possible(const mu_cut_rules *r) {
    switch (r->cuts & (MU_CUT_BATCH | MU_CUT_FEATURE)) {
    case MU_CUT_BATCH:
        return "It may be cut by batch, or stay whole: `partition: none`.";
    case MU_CUT_FEATURE:
        return "It may be cut by feature, or stay whole: `partition: none`.";
    case MU_CUT_BATCH | MU_CUT_FEATURE:
        return "It may be cut into fewer parts, or stay whole: `partition: none`.";
    default:
        return "It stays whole: `partition: none`, at the worker `location`.";
    }
}

static void refuse(mu_partitioner *pr, const mu_layer *l, const mu_cut_rules *r, const char *why) {
    mu_diags *d = pr->b->diags;
    mu_diag *g =
        mu_diags_add(d, MU_DIAG_ERROR, place_of(l, "partition"), "layer `%s` of type `%s` cannot be cut %s",
                     mu_layer_job_name(l), l->class->name, why);
    mu_diag_hint(d, g, "%s", possible(r));
}

// The most parts that there can be by batch, or by feature.
static int64_t most_parts(const mu_layer *l, const mu_cut_rules *r, bool batch) {
    if (!(r->cuts & (batch ? MU_CUT_BATCH : MU_CUT_FEATURE))) return 1;
    return batch ? mu_layer_src_shape(l, 0)->d[0] : mu_layer_features(l) / r->grain;
}

int mu_plan_grids(const mu_layer *l, const mu_cut_rules *rules, int workers, mu_grid out[MU_MOST_GRIDS]) {
    int n = 0;
    for (int f = 1; f <= workers && n < MU_MOST_GRIDS; f++) {
        const int b = workers / f;
        if (b * f == workers && b <= most_parts(l, rules, true) && f <= most_parts(l, rules, false))
            out[n++] = (mu_grid){b, f};
    }
    return n;
}

static bool check_axis(mu_partitioner *pr, const mu_layer *l, const mu_cut_rules *r, bool batch, int parts) {
    const char *by = batch ? "batch" : "feature", *uncut = l->class->uncut;
    const int64_t have = most_parts(l, r, batch);
    char why[200];
    if (parts <= 1) return true;
    if (!(r->cuts & (batch ? MU_CUT_BATCH : MU_CUT_FEATURE)))
        snprintf(why, sizeof why, "by %s%s%s", by, uncut ? ": " : "", uncut ? uncut : "");
    else if (parts > have)
        snprintf(why, sizeof why, "by %s into %d parts: it has %" PRId64 " %s", by, parts, have,
                 batch          ? "rows"
                 : r->grain > 1 ? "groups of features"
                                : "features");
    else return true;
    refuse(pr, l, r, why);
    return false;
}

static void check_grid(mu_partitioner *pr, const mu_layer *l, mu_cut_plan *c, int64_t location) {
    mu_diags *d = pr->b->diags;
    const int parts = c->grid.batch * c->grid.feature;
    if (parts > pr->o->workers) {
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, place_of(l, "partition"),
                                  "layer `%s` is cut into %d x %d parts, the group has %d worker%s",
                                  mu_layer_job_name(l), c->grid.batch, c->grid.feature, pr->o->workers,
                                  pr->o->workers > 1 ? "s" : "");
        mu_diag_hint(d, g, "Every part needs a worker of its own.");
    }
    if (location >= 0 && c->open) {
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, place_of(l, "location"),
                                  "layer `%s` has a `location`, and `partition: auto` may cut it",
                                  mu_layer_job_name(l));
        mu_diag_hint(d, g, "A location is for whole layers: write `partition: none`, or leave it out.");
    } else if (location >= 0 && parts > 1) {
        mu_diag *g =
            mu_diags_add(d, MU_DIAG_ERROR, place_of(l, "location"),
                         "layer `%s` has a `location` and is cut into %d parts", mu_layer_job_name(l), parts);
        mu_diag_hint(d, g, "A location is for whole layers: add `partition: none`, or leave it out.");
    } else if (location >= pr->o->workers) {
        mu_diags_add(d, MU_DIAG_ERROR, place_of(l, "location"),
                     "layer `%s` stands at worker %" PRId64 ", the group has workers 0 to %d",
                     mu_layer_job_name(l), location, pr->o->workers - 1);
    }
    if (!check_axis(pr, l, &c->rules, true, c->grid.batch)) return;
    check_axis(pr, l, &c->rules, false, c->grid.feature);
}

static void decide_layer(mu_partitioner *pr, const mu_layer *l, mu_cut_plan *c) {
    const mu_layer_split s = mu_layer_split_read(pr->b, l->node, mu_layer_job_name(l));
    int how = (int)s.kind, n = pr->o->workers;
    if (how == MU_LAYER_SPLIT_DEFAULT)
        how = s.location >= 0 ? MU_LAYER_SPLIT_NONE : MU_LAYER_SPLIT_NONE + (int)pr->o->split;
    c->grid = (mu_grid){1, 1};
    if (n == 1) return;
    if (s.kind == MU_LAYER_SPLIT_DEFAULT && (how == MU_LAYER_SPLIT_BATCH || how == MU_LAYER_SPLIT_FEATURE) &&
        most_parts(l, &c->rules, how == MU_LAYER_SPLIT_BATCH) < n)
        how = MU_LAYER_SPLIT_NONE;
    c->open = how == MU_LAYER_SPLIT_AUTO;
    if (how == MU_LAYER_SPLIT_BATCH) c->grid.batch = n;
    if (how == MU_LAYER_SPLIT_FEATURE) c->grid.feature = n;
    if (how == MU_LAYER_SPLIT_GRID) c->grid = s.grid;
    c->location = s.location > 0 ? (int)s.location : 0;
    check_grid(pr, l, c, s.location);
}

// ---- layers that unrolling has inserted ----

// The first layer of the job that reads an output of l; NULL = none.
static const mu_layer *reader_of(const mu_net *net, const mu_layer *l) {
    for (int i = l->at + 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++) {
            const mu_layer *r = net->layer[i];
            if (mu_is_net_split(r) || mu_true_source(r->src[k])->producer != l) continue;
            const mu_layer *found = r->inserted ? reader_of(net, r) : r;
            if (found) return found;
        }
    return NULL;
}

// What they read, or their reader when that is data.
const mu_layer *mu_plan_like(const mu_net *net, const mu_layer *l) {
    const mu_layer *below = mu_true_source(l->src[0])->producer;
    return below->at ? below : reader_of(net, l);
}

void mu_plan_follow(const mu_layer *l, const mu_cut_plan *like, mu_cut_plan *out) {
    out->grid = (mu_grid){1, 1};
    if (!like || !like->grid.batch) return;
    out->location = like->location;
    if (out->rules.cuts & MU_CUT_BATCH) out->grid.batch = like->grid.batch;
    if ((out->rules.cuts & MU_CUT_FEATURE) && like->grid.feature <= mu_layer_features(l) / out->rules.grain)
        out->grid.feature = like->grid.feature;
}

static void follow_neighbour(mu_partitioner *pr, const mu_layer *l) {
    const mu_layer *as = mu_plan_like(pr->o->whole, l);
    mu_plan_follow(l, as ? &pr->plan[as->at] : NULL, &pr->plan[l->at]);
}

// ---- shared parameters ----

// Have the parts of both the same rows of a parameter that they share?
bool mu_plan_same_rows(const mu_layer *a, const mu_cut_plan *ca, const mu_layer *b, const mu_cut_plan *cb) {
    if (ca->grid.feature != cb->grid.feature) return false;
    return ca->grid.feature == 1 ||
           (ca->rules.grain == cb->rules.grain && mu_layer_features(a) == mu_layer_features(b));
}

static mu_status check_shared(mu_partitioner *pr, mu_err *err) {
    const mu_net *net = pr->o->whole;
    const mu_layer **user = mu_arena_array(&pr->p->arena, (size_t)net->params->n + 1, sizeof *user);
    if (!user) return MU_FAIL_NOMEM(err, "the partition");
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_param; k++) {
            const mu_layer *l = net->layer[i];
            const mu_param *p = l->param[k];
            const mu_layer *first = user[p->index];
            if (!first) user[p->index] = l;
            else if (!mu_plan_same_rows(first, &pr->plan[first->at], l, &pr->plan[i])) {
                mu_diag *g =
                    mu_diags_add(pr->b->diags, MU_DIAG_ERROR, place_of(l, "partition"),
                                 "layers `%s` and `%s` share `%s` and are cut differently by feature",
                                 mu_layer_job_name(first), mu_layer_job_name(l), p->name);
                mu_diag_hint(pr->b->diags, g,
                             "Cut both alike, or by batch: then each part has the whole parameter.");
            }
        }
    return MU_OK;
}

mu_status mu_partition_decide(mu_partitioner *pr, mu_err *err) {
    const mu_net *net = pr->o->whole;
    const size_t before = pr->b->diags->n_errors;
    pr->plan = mu_arena_array(&pr->p->arena, (size_t)net->n_layers, sizeof *pr->plan);
    if (!pr->plan) return MU_FAIL_NOMEM(err, "the partition");
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (mu_is_net_split(l)) continue;
        pr->plan[i].rules = mu_layer_cut_rules(l);
        if (!l->inserted) decide_layer(pr, l, &pr->plan[i]);
    }
    if (pr->b->diags->n_errors == before) MU_TRY(mu_partition_choose(pr, err));
    for (int i = 1; i < net->n_layers; i++)
        if (net->layer[i]->inserted && net->layer[i]->node) follow_neighbour(pr, net->layer[i]);
    MU_TRY(check_shared(pr, err));
    return pr->b->diags->n_errors > before ? MU_FAIL(err, MU_EJOB, "the net cannot be split like that")
                                           : MU_OK;
}

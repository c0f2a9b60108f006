// SPDX-License-Identifier: Apache-2.0
// evaluate.c - see evaluate.h.
#include "train/evaluate.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <string.h>

#define TAG "evaluate"

// Of one metric of a layer, or of all copies of an unrolled one.
typedef struct total {
    const mu_metric *of;
    double sum, weight;
    int copies;
} total;

typedef struct totals {
    int *first; // [n_layers] of each layer: its totals begin at v[first]
    total *v;
    int n;
} totals;

static const mu_layer *first_copy(const mu_layer *l) {
    while (l->copy_before) l = l->copy_before;
    return l;
}

static void totals_fini(totals *t) {
    mu_free(t->first);
    mu_free(t->v);
}

static mu_status totals_init(totals *t, const mu_net *net, mu_err *err) {
    size_t most = 1;
    for (int i = 1; i < net->n_layers; i++) most += (size_t)net->layer[i]->n_metric;
    t->first = mu_alloc_array((size_t)net->n_layers, sizeof *t->first, TAG);
    t->v = mu_alloc_array(most, sizeof *t->v, TAG);
    if (!t->first || !t->v) return MU_FAIL_NOMEM(err, "the metrics");
    for (int i = 0; i < net->n_layers; i++) t->first[i] = -1;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        const int family = first_copy(l)->at;
        if (t->first[family] < 0) {
            t->first[family] = t->n;
            for (int k = 0; k < l->n_metric; k++) t->v[t->n++].of = &l->metric[k];
        }
        t->first[i] = t->first[family];
        for (int k = 0; k < l->n_metric; k++) t->v[t->first[i] + k].copies++;
    }
    return MU_OK;
}

static void add_metrics(const mu_net *net, totals *t) {
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_metric; k++) {
            const mu_metric *m = &net->layer[i]->metric[k];
            t->v[t->first[i] + k].sum += m->sum;
            t->v[t->first[i] + k].weight += m->weight;
        }
}

// Metrics of one name: losses of several layers add up, as they do in training; others are averaged. The
// copies of an unrolled loss have one share each of its weight, so their mean is taken as often as they are:
// what the loss over the whole sequence reports, also where steps ignore different numbers of labels.
static double combined(const total *t, int n, const char *name) {
    double losses = 0, sum = 0, weight = 0;
    bool is_loss = false;
    for (int j = 0; j < n; j++) {
        if (strcmp(t[j].of->name, name)) continue;
        is_loss |= t[j].of->is_loss;
        if (t[j].weight > 0) losses += t[j].copies * t[j].sum / t[j].weight;
        sum += t[j].sum;
        weight += t[j].weight;
    }
    return weight <= 0 ? NAN : is_loss ? losses : sum / weight;
}

static void fill(mu_scores *out, const total *t, int n) {
    out->n = 0;
    out->loss = out->accuracy = NAN;
    for (int j = 0; j < n; j++) {
        const char *name = t[j].of->name;
        bool seen = false;
        for (int k = 0; k < out->n; k++) seen |= !strcmp(out->name[k], name);
        if (seen || out->n == MU_SCORES_MAX) continue;
        double value = combined(t, n, name);
        out->name[out->n] = name;
        out->value[out->n++] = value;
        if (t[j].of->is_loss) out->loss = isnan(out->loss) ? value : out->loss + value;
        if (!strcmp(name, "accuracy")) out->accuracy = value;
    }
}

static mu_status pass(mu_session_phase *p, mu_phase phase, mu_batch_visitor visit, void *ctx, totals *t,
                      mu_scores *out, mu_err *err) {
    out->samples = 0;
    for (;;) {
        const mu_batch *batch;
        MU_TRY(mu_source_next(p->source, &batch, err));
        if (!batch) break;
        if (!batch->n) continue; // all of its records were bad
        mu_net_set_input(p->net, batch->field, mu_source_n_fields(p->source));
        mu_step s = {.phase = phase, .first_sample = batch->first, .rows = batch->n, .global_rows = batch->n};
        MU_TRY(mu_net_forward(p->net, &s, err));
        if (batch->first < 0) continue; // leaves states, counts nothing
        add_metrics(p->net, t);
        if (visit) MU_TRY(visit(ctx, p->net, batch, err));
        out->samples += batch->n;
    }
    if (!out->samples)
        return MU_FAIL(err, MU_EDATA, "no record of the data of phase %s could be read",
                       mu_phase_name(phase));
    fill(out, t->v, t->n);
    return MU_OK;
}

mu_status mu_evaluate(mu_session_phase *p, mu_phase phase, mu_batch_visitor visit, void *ctx, mu_scores *out,
                      mu_err *err) {
    double start = mu_clock_s();
    if (!mu_source_n_records(p->source))
        return MU_FAIL(err, MU_EDATA, "the data of phase %s has no records", mu_phase_name(phase));
    MU_TRY(mu_net_ready(p->net, mu_device_cpu(), err));
    totals t = {0};
    memset(out, 0, sizeof *out);
    mu_source_stop(p->source);
    mu_status st = totals_init(&t, p->net, err);
    if (st == MU_OK) st = mu_source_seek_warmup(p->source, err);
    if (st == MU_OK) st = mu_source_start(p->source, err);
    if (st == MU_OK) st = pass(p, phase, visit, ctx, &t, out, err);
    mu_source_stop(p->source);
    totals_fini(&t);
    out->seconds = mu_clock_s() - start;
    return st;
}

// SPDX-License-Identifier: Apache-2.0
// evaluate.c - see evaluate.h.
#include "run/evaluate.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

#define TOTALS_MAX 4096 // an unrolled loss has some for each time step

typedef struct total { const mu_metric *of; double sum, weight; } total;

static void add_metrics(const mu_net *net, total *t, int *n) {
    for (int i = 1, j = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_metric && j < TOTALS_MAX; k++, j++) {
            const mu_metric *m = &net->layer[i]->metric[k];
            if (j == *n) t[(*n)++] = (total){m, 0, 0};
            t[j].sum += m->sum;
            t[j].weight += m->weight;
        }
}

// Metrics of one name: losses of several layers add up, as they do in training; others are averaged.
static double combined(const total *t, int n, const char *name) {
    double losses = 0, sum = 0, weight = 0;
    bool is_loss = false;
    for (int j = 0; j < n; j++) {
        if (strcmp(t[j].of->name, name)) continue;
        is_loss |= t[j].of->is_loss;
        if (t[j].weight > 0) losses += t[j].sum / t[j].weight;
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

static mu_status pass(mu_session_phase *p, mu_phase phase, mu_batch_visitor visit, void *ctx, mu_scores *out,
                      mu_err *err) {
    total t[TOTALS_MAX];
    int n = 0;
    out->samples = 0;
    for (;;) {
        const mu_batch *batch;
        MU_TRY(mu_source_next(p->source, &batch, err));
        if (!batch) break;
        if (!batch->n) continue; // all of its records were bad
        mu_net_set_input(p->net, batch->field, mu_source_n_fields(p->source));
        mu_step s = {.phase = phase, .first_sample = batch->first, .rows = batch->n, .global_rows = batch->n};
        MU_TRY(mu_net_forward(p->net, &s, err));
        add_metrics(p->net, t, &n);
        if (visit) MU_TRY(visit(ctx, p->net, batch, err));
        out->samples += batch->n;
    }
    fill(out, t, n);
    return MU_OK;
}

mu_status mu_evaluate(mu_session_phase *p, mu_phase phase, mu_batch_visitor visit, void *ctx, mu_scores *out,
                      mu_err *err) {
    double start = mu_clock_s();
    if (!mu_source_n_records(p->source))
        return MU_FAIL(err, MU_EDATA, "the data of phase %s has no records", mu_phase_name(phase));
    mu_source_stop(p->source);
    MU_TRY(mu_source_seek(p->source, 0, err));
    MU_TRY(mu_source_start(p->source, err));
    memset(out, 0, sizeof *out);
    mu_status st = pass(p, phase, visit, ctx, out, err);
    mu_source_stop(p->source);
    out->seconds = mu_clock_s() - start;
    return st;
}

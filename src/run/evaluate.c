// SPDX-License-Identifier: Apache-2.0
// evaluate.c - see evaluate.h.
#include "run/evaluate.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

typedef struct total { const char *name; double sum, weight; bool is_loss; } total;

static void add_metrics(const mu_net *net, total *t, int *n) {
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_metric; k++) {
            const mu_metric *m = &net->layer[i]->metric[k];
            int j = 0;
            while (j < *n && strcmp(t[j].name, m->name)) j++;
            if (j == MU_SCORES_MAX) continue;
            if (j == *n) t[(*n)++] = (total){m->name, 0, 0, m->is_loss};
            t[j].sum += m->sum;
            t[j].weight += m->weight;
        }
}

static void fill(mu_scores *out, const total *t, int n) {
    out->n = n;
    out->loss = out->accuracy = NAN;
    for (int j = 0; j < n; j++) {
        out->name[j] = t[j].name;
        out->value[j] = t[j].weight > 0 ? t[j].sum / t[j].weight : NAN;
        if (t[j].is_loss) out->loss = isnan(out->loss) ? out->value[j] : out->loss + out->value[j];
        if (!strcmp(t[j].name, "accuracy")) out->accuracy = out->value[j];
    }
}

static mu_status pass(mu_session_phase *p, mu_phase phase, mu_batch_visitor visit, void *ctx, mu_scores *out,
                      mu_err *err) {
    total t[MU_SCORES_MAX];
    int n = 0;
    out->samples = 0;
    for (;;) {
        const mu_batch *batch;
        MU_TRY(mu_source_next(p->source, &batch, err));
        if (!batch) break;
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

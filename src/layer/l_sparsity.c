// SPDX-License-Identifier: Apache-2.0
// l_sparsity.c - hands its source through and asks that every unit is active for a small share of the
// samples only (sparse auto-encoder). The source is meant to be in (0, 1), as after a sigmoid.
//
//   m_j  = mean of unit j over the valid rows of this learner's batch
//   KL_j = t log(t / m_j) + (1 - t) log((1 - t) / (1 - m_j))
//   loss = weight * sum of KL_j * rows / global_rows;   dx_rj = dy_rj + weight * KL_j' / global_rows
//
// With several learners each one takes the mean of its own rows, and their shares of the loss add up: the
// penalty is of the same size, but not the same number as over the whole batch. Below EDGE and above
// 1 - EDGE the divergence goes on as a straight line, so that a unit that is silent in a batch is pushed,
// and not thrown, back. Each value of a sample is a unit, also in a 4-D source. Where nothing learns through
// its output (a branch of its own), dy is 0.
#include "layer/infer.h"
#include "layer/pass.h"

#include <math.h>

#define EDGE 1e-3

struct sparsity {
    float target, weight;
    mu_metric *loss, *mean;
};

static const mu_field fields[] = {
    MU_FIELD(struct sparsity, target, MU_FLOAT, "0.05", "(0,1)", "wanted mean activation of a unit"),
    MU_FIELD(struct sparsity, weight, MU_FLOAT, "0.1", "[0,)", "factor of the penalty in the objective"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct sparsity *s = l->state;
    if (l->contrast)
        return mu_err_hinted(mu_layer_fail(l, err, "`sparsity` is a penalty of backward, `cd` has none"), err,
                             "A `rbm` has the keys `sparsity` and `sparsity_cost`.");
    MU_TRY(mu_infer_float(l, 0, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    l->keep_bytes = (size_t)mu_shape_inner(in, 1) * sizeof(float); // the slopes KL_j'
    s->loss = mu_layer_add_metric(l, "sparsity", true);
    s->mean = mu_layer_add_metric(l, "activation", false);
    return mu_layer_add_out(l, NULL, *in, MU_F32, err);
}

// KL of a unit with mean m, and its slope.
static double divergence(double t, double m, double *slope) {
    double at = fmin(fmax(m, EDGE), 1 - EDGE);
    *slope = (1 - t) / (1 - at) - t / at;
    return t * log(t / at) + (1 - t) * log((1 - t) / (1 - at)) + *slope * (m - at);
}

static mu_status forward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct sparsity *s = l->state;
    const float *x = l->src[0]->value.f;
    float *sums = l->keep;
    const int64_t units = mu_shape_inner(mu_layer_src_shape(l, 0), 1), rows = step->rows;
    memset(sums, 0, (size_t)units * sizeof *sums);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < units; j++) sums[j] += x[r * units + j];
    double loss = 0, mean = 0;
    for (int64_t j = 0; j < units; j++) {
        double slope, m = rows ? (double)sums[j] / (double)rows : (double)s->target;
        loss += divergence((double)s->target, m, &slope);
        mean += m;
        sums[j] = (float)slope;
    }
    const double counted = (double)rows * mu_cut_share(&l->cut); // parts by feature count a row once together
    *s->loss = (mu_metric){s->loss->name, (double)s->weight * loss * (double)rows, counted, true};
    *s->mean = (mu_metric){s->mean->name, mean / (double)units * counted, counted, false};
    mu_pass_on(l->out[0].value.f, x, &l->out[0].value);
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct sparsity *s = l->state;
    const float *dy = l->out[0].grad.f, *slope = l->keep, scale = s->weight / (float)step->global_rows;
    float *dx = l->src[0]->grad.f;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    const int64_t units = mu_shape_inner(in, 1), valid = step->rows * units, all = mu_shape_count(in);
    for (int64_t r = 0; dx && r < step->rows; r++)
        for (int64_t j = 0, i = r * units; j < units; j++, i++)
            dx[i] = (dy ? dy[i] : 0.0f) + scale * slope[j];
    for (int64_t i = valid; dx && i < all; i++) dx[i] = dy ? dy[i] : 0.0f;
    return MU_OK;
}

const mu_layer_class mu_layer_sparsity = {
    .name = "sparsity",
    .help = "hands its source through; penalty on units that are often active",
    .fields = fields,
    .state_size = sizeof(struct sparsity),
    .flags = MU_LAYER_IN_PLACE | MU_LAYER_PENALTY,
    .cuts = MU_CUT_FEATURE,
    .uncut = "the mean activation is that of all rows",
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

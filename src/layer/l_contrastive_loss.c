// SPDX-License-Identifier: Apache-2.0
// l_contrastive_loss.c - codes of pairs: each one shall know its partner among all in the batch.
//
// Sources a and b (n, d) hold the codes of n pairs; with lengths of 1 (l2_normalise) products are cosines.
//   s[i][j] = a[i] . b[j] / temperature
//   loss = loss_weight * 1/2 * sum over i of (-log softmax(s[i][.])[i] - log softmax(s[.][i])[i]) / batch
//   ds[i][j] = loss_weight / (2 batch) * (p[i][j] + q[i][j] - 2 [i = j]),   p over the row, q over the column
//   da = ds b / temperature,  db = ds^T a / temperature
// A third source may name the group of each pair: others of the same group are no wrong answers, they are
// left out of both softmaxes. Forward leaves p + q - 2 [i = j] in `keep`.
//
// The wrong answers are the rows this learner holds. Several learners that share a batch therefore have
// fewer of them each: the loss is that of smaller batches, as it is with batch_norm. One row alone
// has none: its loss is 0 whatever the codes, so training with it is refused.
#include "layer/infer.h"
#include "ops/gemm.h"

#include <math.h>
#include <string.h>

struct contrastive_loss {
    float loss_weight, temperature;
    int64_t n, d;
    mu_metric *loss, *match;
};

static const mu_field fields[] = {
    MU_FIELD(struct contrastive_loss, loss_weight, MU_FLOAT, "1", NULL,
             "factor of this loss in the training objective"),
    MU_FIELD(struct contrastive_loss, temperature, MU_FLOAT, "0.07", "(0,)",
             "products are divided by it: smaller = the nearest wrong answers count more"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct contrastive_loss *s = l->state;
    int64_t n, d;
    MU_TRY(mu_infer_matrix(l, 0, &s->n, &s->d, err));
    MU_TRY(mu_infer_matrix(l, 1, &n, &d, err));
    if (d != s->d)
        return mu_layer_fail(l, err, "`%s` gives %lld values a sample, `%s` %lld", mu_infer_src_name(l, 0),
                             (long long)s->d, mu_infer_src_name(l, 1), (long long)d);
    if (l->n_src == 3) MU_TRY(mu_infer_label(l, 2, s->n, INT32_MAX, err));
    if (mu_layer_trains(l) && s->n < 2)
        return mu_err_hinted(mu_layer_fail(l, err, "a batch of %lld has no wrong answers", (long long)s->n),
                             err, "Train with at least 2 rows for each learner.");
    size_t square = (size_t)(s->n * s->n) * sizeof(float);
    l->keep_bytes = square;
    l->scratch_bytes = square;
    s->loss = mu_layer_add_metric(l, "loss", true);
    s->match = mu_layer_add_metric(l, "match", false);
    return MU_OK;
}

static bool same_group(const int32_t *group, int64_t i, int64_t j) {
    return group && i != j && group[i] == group[j];
}

// Softmax over the n scores at x[0], x[stride], ..., of which `own` is the right one; adds it to keep and
// returns -log of its share there. Pairs of the same group have the score -inf.
static double add_softmax(const float *x, float *keep, int64_t n, int64_t stride, int64_t own,
                          bool *is_best) {
    float top = x[own * stride];
    *is_best = true;
    for (int64_t j = 0; j < n; j++) {
        float v = x[j * stride];
        if (j != own && !(v < x[own * stride])) *is_best = false;
        if (v > top) top = v;
    }
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += (double)expf(x[j * stride] - top);
    for (int64_t j = 0; j < n; j++) keep[j * stride] += expf(x[j * stride] - top) / (float)sum;
    keep[own * stride] -= 1;
    return log(sum) - (double)(x[own * stride] - top);
}

static mu_status forward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    struct contrastive_loss *s = l->state;
    const int64_t n = step->rows;
    const int32_t *group = l->n_src == 3 ? l->src[2]->value.i : NULL;
    float *score = l->scratch, *g = l->keep;
    mu_gemm(false, true, n, n, s->d, l->src[0]->value.f, s->d, l->src[1]->value.f, s->d, 0, score, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            float *x = &score[i * n + j];
            *x = same_group(group, i, j) ? -INFINITY : *x / s->temperature;
        }
    memset(g, 0, (size_t)(n * n) * sizeof *g);
    double sum = 0;
    int64_t matches = 0;
    for (int64_t i = 0; i < n; i++) {
        bool best;
        sum += add_softmax(score + i * n, g + i * n, n, 1, i, &best);
        matches += best;
        sum += add_softmax(score + i, g + i, n, n, i, &best);
        matches += best;
    }
    s->loss->sum = (double)s->loss_weight * sum / 2;
    s->match->sum = (double)matches / 2;
    s->loss->weight = s->match->weight = (double)n;
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct contrastive_loss *s = l->state;
    const int64_t n = step->rows;
    float scale = s->loss_weight / (2 * s->temperature * (float)step->global_rows), *ds = l->scratch;
    for (int64_t i = 0; i < n * n; i++) ds[i] = scale * ((const float *)l->keep)[i];
    for (int k = 0; k < 2; k++) {
        float *dx = l->src[k]->grad.f;
        if (!dx) continue;
        mu_gemm(k == 1, false, n, s->d, n, ds, n, l->src[1 - k]->value.f, s->d, 0, dx, s->d);
        memset(dx + n * s->d, 0, (size_t)((s->n - n) * s->d) * sizeof *dx);
    }
    return MU_OK;
}

const mu_layer_class mu_layer_contrastive_loss = {
    .name = "contrastive_loss",
    .help = "each code finds its partner among those of the batch; sources: codes, codes[, group]",
    .fields = fields,
    .state_size = sizeof(struct contrastive_loss),
    .n_src_min = 2,
    .n_src_max = 3,
    .flags = MU_LAYER_LOSS | MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_NEVER,
    .uncut = "the wrong answers are all rows of the batch",
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

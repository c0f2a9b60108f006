// SPDX-License-Identifier: Apache-2.0
// l_best_of.c - one answer from the scores of several paths: the mean of their probabilities, or those of one
// path, whichever is right most often on validation data.
//
// Sources are scores (n, c) or (n, t, c) of the same classes; each becomes probabilities by a softmax. The
// parameter `choice` is 0 for the mean, k for source k, counted from 1. It is no weight: no gradient changes
// it. A training sets it when it evaluates on validation data (train/choice.h), and models keep it; without
// validation data the mean answers.
//
// No gradient passes: each path learns from a loss of its own, as if it stood alone.
#include "layer/infer.h"

#include <string.h>

struct best_of {
    int64_t rows; // of the whole batch: samples times time steps
    int64_t t, c;
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct best_of *s = l->state;
    int64_t n, t, c;
    char first[96], other[96];
    MU_TRY(mu_infer_scores(l, 0, &n, &s->t, &s->c, err));
    for (int k = 1; k < l->n_src; k++) {
        int64_t m;
        MU_TRY(mu_infer_scores(l, k, &m, &t, &c, err));
        if (m == n && t == s->t && c == s->c) continue;
        return mu_err_hinted(
            mu_layer_fail(l, err, "`%s` gives %s, `%s` gives %s", mu_infer_src_name(l, 0),
                          mu_shape_text(mu_layer_src_shape(l, 0), first), mu_infer_src_name(l, k),
                          mu_shape_text(mu_layer_src_shape(l, k), other)),
            err, "All sources must score the same classes.");
    }
    s->rows = n * s->t;
    MU_TRY(mu_layer_add_choice(l, "choice", l->n_src + 1, err));
    return mu_layer_add_out(l, NULL, *mu_layer_src_shape(l, 0), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    const struct best_of *s = l->state;
    const mu_softmax_desc d = {.n = s->rows, .c = s->c};
    MU_TRY(mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_SOFTMAX, .softmax = d}, err));
    l->keep_bytes += (size_t)(s->rows * s->c) * sizeof(float); // probabilities of one path
    return MU_OK;
}

static mu_status softmax(mu_layer *l, int k, int64_t rows, float *to, mu_err *err) {
    mu_op_args a = {.src = l->src[k]->value.f, .dst = to, .keep = l->keep, .scratch = l->scratch,
                    .rows = rows};
    return mu_op_forward(l->op, &a, err);
}

static mu_status add_means(mu_layer *l, int64_t rows, float *y, mu_err *err) {
    const struct best_of *s = l->state;
    float *one = (float *)(void *)((char *)l->keep + l->keep_bytes) - s->rows * s->c;
    const float share = 1 / (float)l->n_src;
    memset(y, 0, (size_t)(rows * s->c) * sizeof *y);
    for (int k = 0; k < l->n_src; k++) {
        MU_TRY(softmax(l, k, rows, one, err));
        for (int64_t i = 0; i < rows * s->c; i++) y[i] += share * one[i];
    }
    return MU_OK;
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct best_of *s = l->state;
    const int64_t rows = step->rows * s->t;
    float *y = l->out[0].value.f;
    const int choice = mu_layer_choice(l->param[0]);
    if (choice) MU_TRY(softmax(l, choice - 1, rows, y, err));
    else MU_TRY(add_means(l, rows, y, err));
    memset(y + rows * s->c, 0, (size_t)((s->rows - rows) * s->c) * sizeof *y);
    return MU_OK;
}

const mu_layer_class mu_layer_best_of = {
    .name = "best_of",
    .help = "probabilities by the mean of several scores or by one of them; validation data choose",
    .state_size = sizeof(struct best_of),
    .n_src_min = 2,
    .n_src_max = MU_MAX_SRC,
    .flags = MU_LAYER_PROBABILITIES,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .setup = setup,
    .forward = forward,
};

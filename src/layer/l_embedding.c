// SPDX-License-Identifier: Apache-2.0
// l_embedding.c - a learned vector for each word number: (n) -> (n, dim), (n, t) -> (n, t, dim).
//
// The gradient touches only the rows of the words in the batch. Where the receiver takes rows, they
// are collected at the start of the parameter's own gradient block, which is free in this form (a
// batch with more words than the vocabulary has is better off dense): they live to the end of the step.
#include "layer/grad.h"
#include "layer/infer.h"

#include <inttypes.h>
#include <string.h>

struct embedding {
    int64_t vocab, dim;
    int64_t per_sample; // words in a sample
};

static const mu_field fields[] = {
    MU_FIELD(struct embedding, vocab, MU_INT, NULL, "[1,2147483647]",
             "number of words; word numbers are below it"),
    MU_FIELD(struct embedding, dim, MU_INT, NULL, "[1,1000000]", "length of a word's vector"),
    {0},
};
static const char *const params[] = {"weight", NULL};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct embedding *s = l->state;
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (l->src[0]->value.dtype != MU_I32 || in->n < 1 || in->n > 2) {
        mu_status st =
            mu_layer_fail(l, err, "embedding needs integers (batch) or (batch, words), `%s` gives %s%s",
                          mu_infer_src_name(l, 0), l->src[0]->value.dtype == MU_I32 ? "" : "numbers ",
                          mu_shape_text(in, text));
        mu_err_hint(err, "Its source is a field of word numbers in the data.");
        return st;
    }
    s->per_sample = mu_shape_inner(in, 1);
    MU_TRY(mu_layer_add_param(l, "weight", MU_SHAPE(s->vocab, s->dim), s->vocab, s->dim, "gaussian", err));
    if (!l->param[0]->value) l->param[0]->max_rows = mu_shape_count(in); // of the training net
    mu_shape out = *in;
    out.d[out.n++] = s->dim;
    return mu_layer_add_out(l, NULL, out, MU_F32, err);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct embedding *s = l->state;
    const int32_t *word = l->src[0]->value.i;
    float *y = l->out[0].value.f;
    size_t row_bytes = (size_t)s->dim * sizeof(float);
    int64_t n = step->rows * s->per_sample, all = mu_shape_count(mu_layer_src_shape(l, 0));
    for (int64_t k = 0; k < n; k++) {
        if (MU_UNLIKELY(word[k] < 0 || word[k] >= s->vocab)) {
            mu_status st =
                MU_FAIL_AT(err, MU_EDATA, l->pos,
                           "layer `%s`: word %" PRId32 " of sample %" PRId64 " is not in 0..%" PRId64,
                           l->name, word[k], step->first_sample + k / s->per_sample, s->vocab - 1);
            mu_err_hint(err, "`vocab` is %" PRId64 "; make it larger than every word number.", s->vocab);
            return st;
        }
        memcpy(y + k * s->dim, l->param[0]->value + word[k] * s->dim, row_bytes);
    }
    memset(y + n * s->dim, 0, (size_t)(all - n) * row_bytes); // rows beyond may hold any number
    return MU_OK;
}

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    (void)err;
    const struct embedding *s = l->state;
    mu_param *w = l->param[0];
    const int32_t *word = l->src[0]->value.i;
    const float *dy = l->out[0].grad.f;
    int64_t n = step->rows * s->per_sample;
    if (w->allow_factors && w->n_users <= 1 && w->grad.form == MU_GRAD_NONE && n <= s->vocab) {
        memcpy(w->grad.dense, dy, (size_t)(n * s->dim) * sizeof(float));
        w->grad.form = MU_GRAD_ROWS;
        w->grad.n_rows = n;
        w->grad.row = word;
        w->grad.row_value = w->grad.dense;
        return MU_OK;
    }
    float *dw = mu_grad_add_to(w);
    for (int64_t k = 0; k < n; k++) {
        float *restrict row = dw + word[k] * s->dim;
        for (int64_t i = 0; i < s->dim; i++) row[i] += dy[k * s->dim + i];
    }
    return MU_OK;
}

const mu_layer_class mu_layer_embedding = {
    .name = "embedding",
    .help = "a learned vector for each word number",
    .fields = fields,
    .state_size = sizeof(struct embedding),
    .params = params,
    .n_src_min = 1,
    .n_src_max = 1,
    .flags = MU_BACK_NEEDS_SRC,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

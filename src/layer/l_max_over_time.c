// SPDX-License-Identifier: Apache-2.0
// l_max_over_time.c - one vector for a sentence: the largest or the mean of each value over its words,
// (n, t, d) -> (n, d).
//
// With a second source, the word numbers (n, t), padding (word 0) takes no part; a sentence of padding alone
// gives zeros. Without it all t vectors count. The first of equal maxima gets the gradient.
#include "layer/infer.h"

#include <math.h>
#include <string.h>

enum { MAX, MEAN };

struct over_time {
    int method;
    int64_t n, t, d; // derived
};

static const mu_field fields[] = {
    MU_FIELD_ENUM(struct over_time, method, "max", "max|mean", "what is taken of each value over the words"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct over_time *s = l->state;
    char text[96], words[96];
    MU_TRY(mu_infer_float(l, 0, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->n != 3)
        return mu_layer_fail(l, err, "max_over_time needs a source (batch, words, values), `%s` gives %s",
                             mu_infer_src_name(l, 0), mu_shape_text(in, text));
    s->n = in->d[0], s->t = in->d[1], s->d = in->d[2];
    if (l->n_src > 1) {
        const mu_shape *w = mu_layer_src_shape(l, 1);
        if (l->src[1]->value.dtype != MU_I32 || w->n != 2 || w->d[0] != s->n || w->d[1] != s->t)
            return mu_err_hinted(
                mu_layer_fail(l, err, "`%s` gives %s, not the word numbers of %s", mu_infer_src_name(l, 1),
                              mu_shape_text(w, words), mu_shape_text(in, text)),
                err, "The second source is the field of words that the vectors were made from.");
    }
    if (s->method == MAX) l->keep_bytes = (size_t)(s->n * s->d) * sizeof(int32_t); // places, -1 = none
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->n, s->d), MU_F32, err);
}

static const int32_t *words_of(const mu_layer *l, int64_t n) {
    const struct over_time *s = l->state;
    return l->n_src > 1 ? l->src[1]->value.i + n * s->t : NULL;
}

static int64_t count(const int32_t *word, int64_t t) {
    int64_t n = 0;
    for (int64_t i = 0; i < t; i++) n += !word || word[i] != 0;
    return n;
}

static void largest(const struct over_time *s, const float *x, const int32_t *word, float *restrict y,
                    int32_t *restrict at) {
    for (int64_t c = 0; c < s->d; c++) y[c] = 0, at[c] = -1;
    for (int64_t i = 0; i < s->t; i++, x += s->d) {
        if (word && !word[i]) continue;
        for (int64_t c = 0; c < s->d; c++) {
            const bool more = at[c] < 0 || x[c] > y[c] || isnan(x[c]);
            y[c] = more ? x[c] : y[c];
            at[c] = more ? (int32_t)i : at[c];
        }
    }
}

static void mean(const struct over_time *s, const float *x, const int32_t *word, float *restrict y) {
    const float share = 1.0f / (float)(count(word, s->t) ? count(word, s->t) : 1);
    memset(y, 0, (size_t)s->d * sizeof *y);
    for (int64_t i = 0; i < s->t; i++, x += s->d)
        for (int64_t c = 0; c < s->d && (!word || word[i]); c++) y[c] += share * x[c];
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct over_time *s = l->state;
    for (int64_t n = 0; n < s->n; n++) {
        const float *x = l->src[0]->value.f + n * s->t * s->d;
        float *y = l->out[0].value.f + n * s->d;
        if (s->method == MAX) largest(s, x, words_of(l, n), y, (int32_t *)l->keep + n * s->d);
        else mean(s, x, words_of(l, n), y);
    }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct over_time *s = l->state;
    float *dx = l->src[0]->grad.f;
    if (!dx) return MU_OK;
    memset(dx, 0, (size_t)(s->n * s->t * s->d) * sizeof *dx);
    for (int64_t n = 0; n < s->n; n++, dx += s->t * s->d) {
        const float *dy = l->out[0].grad.f + n * s->d;
        const int32_t *at = (const int32_t *)l->keep + n * s->d, *word = words_of(l, n);
        const float share = 1.0f / (float)(count(word, s->t) ? count(word, s->t) : 1);
        for (int64_t c = 0; c < s->d && s->method == MAX; c++)
            if (at[c] >= 0) dx[at[c] * s->d + c] = dy[c];
        for (int64_t i = 0; i < s->t && s->method == MEAN; i++)
            for (int64_t c = 0; c < s->d && (!word || word[i]); c++) dx[i * s->d + c] = share * dy[c];
    }
    return MU_OK;
}

static void cost(const mu_layer *l, mu_cost *out) {
    const struct over_time *s = l->state;
    out->flops_forward = (double)(s->n * s->t * s->d);
    out->flops_backward = (double)(s->n * s->d) * (s->method == MAX ? 1.0 : (double)s->t);
    out->bytes = (double)sizeof(float) * (double)(s->n * (s->t + 1) * s->d);
}

const mu_layer_class mu_layer_max_over_time = {
    .name = "max_over_time",
    .help = "the largest or mean vector over the words of a sentence",
    .fields = fields,
    .state_size = sizeof(struct over_time),
    .n_src_max = 2,
    .flags = MU_BACK_NEEDS_SRC, // the words; of the vectors just their places are kept
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};

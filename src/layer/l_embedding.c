// SPDX-License-Identifier: Apache-2.0
// l_embedding.c - a learned vector for each word number: (n) -> (n, dim), (n, t) -> (n, t, dim).
//
// The gradient touches only the rows of the words in the batch. Where the receiver takes rows, they
// are collected at the start of the parameter's own gradient block, which is free in this form (a
// batch with more words than the vocabulary has is better off dense): they live to the end of the step.
//
// `pad: true` makes word 0 the padding of sentences: its vector begins as zeros and gets no gradient in
// either form, so no rule, decay or protocol ever changes it, and layers above may count on it.
#include "base/log.h"
#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/wordvec.h"

#include <inttypes.h>
#include <string.h>

struct embedding {
    int64_t vocab, dim;
    bool pad;
    const char *vectors;
    // derived
    int64_t per_sample;       // words in a sample
    const char *const *names; // of the words, for `vectors`
    int64_t n_names;          // the data's words; numbers from there to `vocab` have none
    int32_t *row; // numbers of the rows given, where padding is left out; live to the end of the step
};

static const mu_field fields[] = {
    MU_FIELD(struct embedding, vocab, MU_INT, "0", "[0,2147483647]",
             "number of words, word numbers are below it; 0 = as many as the data says"),
    MU_FIELD(struct embedding, dim, MU_INT, NULL, "[1,1000000]", "length of a word's vector"),
    MU_FIELD(struct embedding, pad, MU_BOOL, "false", NULL,
             "word 0 is padding: its vector is zero and stays so"),
    MU_FIELD(struct embedding, vectors, MU_PATH, "", NULL,
             "text file of initial word vectors, `word v1 v2 ...` a line; other words begin as `init` says"),
    {0},
};
static const char *const params[] = {"weight", NULL};

static mu_status take_vocab(mu_layer *l, struct embedding *s, mu_err *err) {
    const mu_blob *words = l->src[0];
    if (!s->vocab) s->vocab = words->n_classes;
    if (!s->vocab)
        return mu_err_hinted(
            mu_layer_fail(l, err, "`%s` does not tell how many words there are", mu_infer_src_name(l, 0)),
            err, "Give the number: `vocab: 10000`.");
    if (words->n_classes > s->vocab)
        return mu_err_hinted(mu_layer_fail(l, err, "`%s` has %" PRId64 " words, `vocab` is %" PRId64,
                                           mu_infer_src_name(l, 0), words->n_classes, s->vocab),
                             err, "Leave `vocab` out to take the number from the data.");
    s->names = words->names;
    s->n_names = s->names ? words->n_classes : 0;
    return MU_OK;
}

static mu_status start(const mu_param *p, void *ctx, mu_err *err) {
    const mu_layer *l = ctx;
    const struct embedding *s = l->state;
    if (s->vectors) {
        int64_t found;
        MU_TRY(mu_wordvec_load(s->vectors, s->n_names, s->names, s->dim, p->value, &found, err));
        mu_info("layer `%s`: %" PRId64 " of %" PRId64 " words begin with a vector of %s", l->name, found,
                s->n_names, s->vectors);
    }
    if (s->pad) memset(p->value, 0, (size_t)s->dim * sizeof(float));
    return MU_OK;
}

static mu_status prepare_start(mu_layer *l, const struct embedding *s, mu_err *err) {
    mu_param *p = l->param[0];
    if (s->vectors && !s->names)
        return mu_err_hinted(mu_layer_fail(l, err,
                                           "`vectors` needs the words of `%s`, which has just numbers",
                                           mu_infer_src_name(l, 0)),
                             err, "Readers of text know them: `reader: sentences`.");
    int64_t found;
    if (s->vectors && !l->restored)
        MU_TRY(mu_wordvec_load(s->vectors, 0, NULL, s->dim, NULL, &found, err)); // fits?
    p->start = start;
    p->start_ctx = l;
    return MU_OK;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct embedding *s = l->state;
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (l->src[0]->value.dtype != MU_I32 || in->n < 1 || in->n > 2)
        return mu_err_hinted(
            mu_layer_fail(l, err, "embedding needs integers (batch) or (batch, words), `%s` gives %s%s",
                          mu_infer_src_name(l, 0), l->src[0]->value.dtype == MU_I32 ? "" : "numbers ",
                          mu_shape_text(in, text)),
            err, "Its source is a field of word numbers in the data.");
    MU_TRY(take_vocab(l, s, err));
    s->per_sample = mu_shape_inner(in, 1);
    MU_TRY(mu_layer_add_param(l, "weight", MU_SHAPE(s->vocab, s->dim), s->vocab, s->dim, "gaussian std=0.1",
                              err));
    mu_param *w = l->param[0];
    if (!l->shares_params) w->max_rows = mu_shape_count(in);
    // other nets take their values from a checkpoint: the file may be gone by then
    if (mu_layer_trains(l) && !l->shares_params && !w->start && (s->pad || s->vectors))
        MU_TRY(prepare_start(l, s, err));
    if (s->pad && mu_layer_trains(l)) {
        s->row = mu_arena_array(l->arena, (size_t)mu_shape_count(in), sizeof *s->row);
        if (!s->row) return MU_FAIL_NOMEM(err, "row numbers");
    }
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
        if (MU_UNLIKELY(word[k] < 0 || word[k] >= s->vocab))
            return mu_err_hinted(
                MU_FAIL_AT(err, MU_EDATA, l->pos,
                           "layer `%s`: word %" PRId32 " of sample %" PRId64 " is not in 0..%" PRId64,
                           l->name, word[k], step->first_sample + k / s->per_sample, s->vocab - 1),
                err, "`vocab` is %" PRId64 "; make it larger than every word number.", s->vocab);
        memcpy(y + k * s->dim, l->param[0]->value + word[k] * s->dim, row_bytes);
    }
    memset(y + n * s->dim, 0, (size_t)(all - n) * row_bytes); // rows beyond may hold any number
    return MU_OK;
}

static bool is_learned(const struct embedding *s, int32_t word) { return word || !s->pad; }

// The rows of the batch's words, one after the other.
static void give_rows(const struct embedding *s, mu_param *w, const int32_t *word, const float *dy,
                      int64_t n) {
    int64_t m = 0;
    for (int64_t k = 0, run; k < n; k += run) { // words without padding between them are one copy
        for (run = 0; k + run < n && is_learned(s, word[k + run]); run++) {}
        memcpy(w->grad.dense + m * s->dim, dy + k * s->dim, (size_t)(run * s->dim) * sizeof(float));
        if (s->pad && run) memcpy(s->row + m, word + k, (size_t)run * sizeof *word);
        m += run;
        while (k + run < n && !is_learned(s, word[k + run])) run++;
    }
    w->grad.form = MU_GRAD_ROWS;
    w->grad.n_rows = m;
    w->grad.row = s->pad ? s->row : word;
    w->grad.row_value = w->grad.dense;
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct embedding *s = l->state;
    mu_param *w = l->param[0];
    const int32_t *word = l->src[0]->value.i;
    const float *dy = l->out[0].grad.f;
    int64_t n = step->rows * s->per_sample;
    if (w->allow_factors && w->grad.form == MU_GRAD_NONE && mu_param_rows_pay(w)) {
        give_rows(s, w, word, dy, n);
        return MU_OK;
    }
    float *dw = mu_grad_add_to(w);
    for (int64_t k = 0; k < n; k++) {
        if (!is_learned(s, word[k])) continue;
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
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

// SPDX-License-Identifier: Apache-2.0
// l_linear_words.c - a linear net over the words and the pairs of neighbouring words of a sentence:
// (n, t) word numbers, 0 = padding -> (n, outputs).
//
//   y = bias + (sum of the weight's rows of the sentence's features) / sqrt(number of features)
//
// Word w has row w. A pair of neighbours (a, b) has row vocab + hash(a, b) mod buckets; pairs that meet in a
// row share it. A sentence's features are its words and its pairs, each as often as it occurs; padding is
// none and parts its neighbours. The hash is fixed, so that a model means the same on every machine:
//
//   x = a * 2^32 + b, then twice: x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93, at last x ^ (x >> 32)
//
// In training each feature may be left out at random (`dropout`); those that stay count as the whole sentence
// would. Weights begin as zeros: nothing has to be broken up in a linear net.
//
// A gradient touches only the rows of the batch's features. Where the receiver takes rows they are collected
// at the start of the weight's own gradient block, as the embedding's.
#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/score.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct linear_words {
    int64_t outputs, vocab, buckets;
    float dropout;
    // derived
    int64_t t;     // words of a sample
    int64_t most;  // features of a sample, at most
    int32_t *row;  // [n][most] the features of the batch; in the net's arena
    int64_t *many; // [n] how many of them
    float *scale;  // [n] 1 / sqrt(features)
};

static const mu_field fields[] = {
    MU_FIELD(struct linear_words, outputs, MU_INT_OR_AUTO, NULL, "[1,1000000]",
             "number of output values; auto = classes of the label that a loss reads"),
    MU_FIELD(struct linear_words, vocab, MU_INT, "0", "[0,16777216]",
             "number of words; 0 = what the data says"),
    MU_FIELD(struct linear_words, buckets, MU_INT, "65536", "[0,16777216]",
             "rows that pairs of neighbouring words are spread over; 0 = words alone"),
    MU_FIELD(struct linear_words, dropout, MU_FLOAT, "0", "[0,1)",
             "share of words and pairs left out at random in training"),
    {0},
};
static const char *const params[] = {"weight", "bias", NULL};

static mu_status make_lists(mu_layer *l, struct linear_words *s, int64_t n, mu_err *err) {
    s->most = s->buckets ? 2 * s->t - 1 : s->t;
    s->row = mu_arena_array(l->arena, (size_t)(n * s->most), sizeof *s->row);
    s->many = mu_arena_array(l->arena, (size_t)n, sizeof *s->many);
    s->scale = mu_arena_array(l->arena, (size_t)n, sizeof *s->scale);
    return s->row && s->many && s->scale ? MU_OK : MU_FAIL_NOMEM(err, "lists of words");
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct linear_words *s = l->state;
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (l->src[0]->value.dtype != MU_I32 || in->n != 2)
        return mu_err_hinted(
            mu_layer_fail(l, err, "linear_words needs integers (batch, words), `%s` gives %s%s",
                          mu_infer_src_name(l, 0), l->src[0]->value.dtype == MU_I32 ? "" : "numbers ",
                          mu_shape_text(in, text)),
            err, "Its source is a field of word numbers in the data.");
    if (s->outputs == MU_AUTO)
        return mu_err_hinted(mu_layer_fail(l, err, "`outputs: auto` needs the training data"), err,
                             "In the job of a run folder or model the number is filled in: use that one.");
    s->t = in->d[1];
    MU_TRY(mu_infer_vocab(l, 0, s->vocab, &s->vocab, err));
    const int64_t rows = s->vocab + s->buckets;
    MU_TRY(mu_layer_add_param(l, "weight", MU_SHAPE(rows, s->outputs), rows, s->outputs, "constant", err));
    MU_TRY(mu_layer_add_param(l, "bias", MU_SHAPE(s->outputs), rows, s->outputs, "constant", err));
    MU_TRY(make_lists(l, s, in->d[0], err));
    if (!l->shares_params) l->param[0]->max_rows = in->d[0] * s->most;
    return mu_layer_add_out(l, NULL, MU_SHAPE(in->d[0], s->outputs), MU_F32, err);
}

// ---- features ----

static uint64_t hash(int32_t a, int32_t b) {
    uint64_t x = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    for (int k = 0; k < 2; k++) x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

// Leaves features out. The choice depends on the sample's number and the feature's place only, so it does not
// matter which learner makes it.
static int64_t thin(const mu_layer *l, int64_t sample, int32_t *row, int64_t n) {
    const struct linear_words *s = l->state;
    int64_t kept = 0;
    uint32_t word[4];
    for (int64_t k = 0; k < n; k++) {
        if (k % 4 == 0) mu_rng_block(l->key, (uint64_t)sample, (uint64_t)k / 4, word);
        if (mu_rng_to_uniform(word[k % 4]) >= s->dropout) row[kept++] = row[k];
    }
    return kept;
}

static mu_status list_features(mu_layer *l, const mu_step *step, int64_t b, mu_err *err) {
    struct linear_words *s = l->state;
    const int32_t *word = l->src[0]->value.i + b * s->t;
    int32_t *row = s->row + b * s->most;
    int64_t n = 0;
    for (int64_t k = 0; k < s->t; k++) {
        if (!word[k]) continue;
        MU_TRY(mu_word_check(l, word[k], s->vocab, step->first_sample + b, err));
        row[n++] = word[k];
        if (s->buckets && k && word[k - 1])
            row[n++] = (int32_t)(s->vocab + (int64_t)(hash(word[k - 1], word[k]) % (uint64_t)s->buckets));
    }
    if (mu_layer_trains(l) && s->dropout > 0) n = thin(l, step->first_sample + b, row, n);
    s->many[b] = n;
    s->scale[b] = n ? 1 / sqrtf((float)n) : 0;
    return MU_OK;
}

// ---- forward and backward ----

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct linear_words *s = l->state;
    const int64_t o = s->outputs;
    const float *weight = l->param[0]->value, *bias = l->param[1]->value;
    for (int64_t b = 0; b < step->rows; b++) {
        float *restrict y = l->out[0].value.f + b * o;
        MU_TRY(list_features(l, step, b, err));
        memset(y, 0, (size_t)o * sizeof *y);
        for (int64_t k = 0; k < s->many[b]; k++) {
            const float *w = weight + s->row[b * s->most + k] * o;
            for (int64_t i = 0; i < o; i++) y[i] += w[i];
        }
        for (int64_t i = 0; i < o; i++) y[i] = y[i] * s->scale[b] + bias[i];
    }
    const int64_t rest = mu_layer_src_shape(l, 0)->d[0] - step->rows;
    memset(l->out[0].value.f + step->rows * o, 0, (size_t)(rest * o) * sizeof(float));
    return MU_OK;
}

// The rows of the batch's features, one after the other; their numbers move together likewise.
static void give_rows(const struct linear_words *s, mu_param *w, const float *dy, int64_t rows) {
    int64_t m = 0;
    for (int64_t b = 0; b < rows; b++)
        for (int64_t k = 0; k < s->many[b]; k++, m++) {
            float *to = w->grad.dense + m * s->outputs;
            for (int64_t i = 0; i < s->outputs; i++) to[i] = s->scale[b] * dy[b * s->outputs + i];
            s->row[m] = s->row[b * s->most + k]; // never behind the place that is read
        }
    w->grad.form = MU_GRAD_ROWS;
    w->grad.n_rows = m;
    w->grad.row = s->row;
    w->grad.row_value = w->grad.dense;
}

static void add_rows(const struct linear_words *s, mu_param *w, const float *dy, int64_t rows) {
    float *dw = mu_grad_add_to(w);
    for (int64_t b = 0; b < rows; b++)
        for (int64_t k = 0; k < s->many[b]; k++) {
            float *restrict to = dw + s->row[b * s->most + k] * s->outputs;
            for (int64_t i = 0; i < s->outputs; i++) to[i] += s->scale[b] * dy[b * s->outputs + i];
        }
}

static mu_status backward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct linear_words *s = l->state;
    mu_param *w = l->param[0];
    const float *dy = l->out[0].grad.f;
    float *restrict db = mu_grad_add_to(l->param[1]);
    for (int64_t b = 0; b < step->rows; b++)
        for (int64_t i = 0; i < s->outputs; i++) db[i] += dy[b * s->outputs + i];
    if (w->allow_factors && w->grad.form == MU_GRAD_NONE && mu_param_rows_pay(w))
        give_rows(s, w, dy, step->rows);
    else add_rows(s, w, dy, step->rows);
    return MU_OK;
}

static void cost(const mu_layer *l, mu_cost *out) {
    const struct linear_words *s = l->state;
    const double count = (double)(mu_layer_src_shape(l, 0)->d[0] * s->most * s->outputs);
    out->flops_forward = count;
    out->flops_backward = 2 * count;
    out->bytes = (double)sizeof(float) * count;
}

const mu_layer_class mu_layer_linear_words = {
    .name = "linear_words",
    .help = "linear net over words and pairs of neighbours; source: word numbers, 0 = padding",
    .fields = fields,
    .state_size = sizeof(struct linear_words),
    .params = params,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};

// SPDX-License-Identifier: Apache-2.0
// l_bag_of_words.c - which words a sample has, without their order: (n, t) word numbers -> (n, vocab).
//
// Word 0 is padding and counts nothing. A file may give every word a weight of its own, such as the logarithm
// of how rare it is (inverse document frequency). The result is the input of a path of fully connected layers
// over tags, or the target of one that predicts them. Words are data, so no gradient passes.
#include "file/infile.h"
#include "layer/infer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef enum counting { ONCE, COUNT } counting;

struct bag_of_words {
    int64_t vocab;
    int value; // a counting
    const char *weights;
    int64_t t;     // words of a sample
    float *weight; // [vocab], in the net's arena
};

static const mu_field fields[] = {
    MU_FIELD(struct bag_of_words, vocab, MU_INT, "0", "[0,16777216]",
             "number of words; 0 = what the data says"),
    MU_FIELD_ENUM(struct bag_of_words, value, "once", "once|count",
                  "once: 1 for every word that is there; count: how often it is"),
    MU_FIELD(struct bag_of_words, weights, MU_PATH, "", NULL,
             "file of little-endian floats, one a word, that the values are multiplied by"),
    {0},
};

static mu_status copy_weights(mu_layer *l, const mu_infile *f, mu_err *err) {
    struct bag_of_words *s = l->state;
    size_t bytes = (size_t)s->vocab * sizeof(float);
    const void *p;
    uint8_t *raw = mu_arena_alloc(l->arena, bytes);
    if (!raw) return MU_FAIL_NOMEM(err, "the weights of words");
    if (f->size != bytes)
        return mu_layer_fail(l, err, "`%s` has %" PRIu64 " bytes, %" PRId64 " words need %zu", s->weights,
                             f->size, s->vocab, bytes);
    MU_TRY(mu_infile_read(f, 0, bytes, raw, &p, err));
    for (int64_t i = 0; i < s->vocab; i++) {
        uint32_t bits = mu_le32((const uint8_t *)p + 4 * i);
        memcpy(&s->weight[i], &bits, sizeof bits);
        if (!isfinite(s->weight[i]))
            return mu_layer_fail(l, err, "`%s`: the weight of word %" PRId64 " is not finite", s->weights, i);
    }
    return MU_OK;
}

static mu_status load_weights(mu_layer *l, mu_err *err) {
    struct bag_of_words *s = l->state;
    s->weight = mu_arena_array(l->arena, (size_t)s->vocab, sizeof *s->weight);
    if (!s->weight) return MU_FAIL_NOMEM(err, "the weights of words");
    for (int64_t i = 0; i < s->vocab; i++) s->weight[i] = 1;
    if (!s->weights) return MU_OK;
    mu_infile f = {0};
    mu_status st = mu_infile_open(&f, s->weights, err);
    if (st == MU_OK) st = copy_weights(l, &f, err);
    mu_infile_close(&f);
    return st;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct bag_of_words *s = l->state;
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (l->src[0]->value.dtype != MU_I32 || in->n != 2)
        return mu_err_hinted(
            mu_layer_fail(l, err, "bag_of_words needs integers (batch, words), `%s` gives %s%s",
                          mu_infer_src_name(l, 0), l->src[0]->value.dtype == MU_I32 ? "" : "numbers ",
                          mu_shape_text(in, text)),
            err, "Its source is a field of word numbers in the data.");
    s->t = in->d[1];
    MU_TRY(mu_infer_vocab(l, 0, s->vocab, &s->vocab, err));
    MU_TRY(load_weights(l, err));
    return mu_layer_add_out(l, NULL, MU_SHAPE(in->d[0], s->vocab), MU_F32, err);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct bag_of_words *s = l->state;
    memset(l->out[0].value.f, 0, mu_tensor_count(&l->out[0].value) * sizeof(float));
    for (int64_t b = 0; b < step->rows; b++) {
        const int32_t *word = l->src[0]->value.i + b * s->t;
        float *bag = l->out[0].value.f + b * s->vocab;
        for (int64_t k = 0; k < s->t; k++) {
            if (!word[k]) continue;
            if (MU_UNLIKELY(word[k] < 0 || word[k] >= s->vocab))
                return mu_err_hinted(
                    MU_FAIL_AT(err, MU_EDATA, l->pos,
                               "layer `%s`: word %" PRId32 " of sample %" PRId64 " is not in 0..%" PRId64,
                               l->name, word[k], step->first_sample + b, s->vocab - 1),
                    err, "`vocab` is %" PRId64 "; make it larger than every word number.", s->vocab);
            bag[word[k]] = (s->value == COUNT ? bag[word[k]] : 0) + s->weight[word[k]];
        }
    }
    return MU_OK;
}

const mu_layer_class mu_layer_bag_of_words = {
    .name = "bag_of_words",
    .help = "which words a sample has; source: word numbers, 0 = padding",
    .fields = fields,
    .state_size = sizeof(struct bag_of_words),
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
};

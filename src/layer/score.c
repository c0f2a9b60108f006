// SPDX-License-Identifier: Apache-2.0
// score.c - see score.h.
#include "layer/score.h"

#include <inttypes.h>

mu_status mu_top_infer(mu_top *t, mu_layer *l, const mu_ints *ks, int64_t c, mu_err *err) {
    if (ks->n > MU_MAX_TOP)
        return mu_layer_fail(l, err, "`top` lists %zu numbers, at most %d are counted", ks->n, MU_MAX_TOP);
    t->n = ks->n;
    for (size_t i = 0; i < ks->n; i++) {
        int64_t k = t->k[i] = ks->v[i];
        if (k > c)
            return mu_err_hinted(mu_layer_fail(l, err, "top %" PRId64 " of only %" PRId64 " scores", k, c),
                                 err, "Numbers in `top` are at most the number of classes.");
        const char *name = k == 1 ? "accuracy" : mu_arena_printf(l->arena, "top%" PRId64, k);
        if (!name) return MU_FAIL_NOMEM(err, "the name of a metric");
        t->metric[i] = mu_layer_add_metric(l, name, false);
    }
    return MU_OK;
}

void mu_top_begin(mu_top *t) {
    for (size_t i = 0; i < t->n; i++) t->hits[i] = 0;
}

void mu_top_count(mu_top *t, const float *score, int64_t c, int64_t label) {
    if (!t->n) return;
    int64_t rank = mu_score_rank(score, c, label);
    for (size_t i = 0; i < t->n; i++) t->hits[i] += rank < t->k[i];
}

void mu_top_end(mu_top *t, int64_t n_counted) {
    for (size_t i = 0; i < t->n; i++) {
        t->metric[i]->sum = (double)t->hits[i];
        t->metric[i]->weight = (double)n_counted;
    }
}

int64_t mu_score_rank(const float *score, int64_t c, int64_t label) {
    float own = score[label];
    int64_t before = 0;
    for (int64_t j = 0; j < label; j++) before += !(score[j] < own);
    for (int64_t j = label + 1; j < c; j++) before += !(score[j] <= own);
    return before;
}

mu_status mu_label_check(const mu_layer *l, int32_t label, int64_t n_classes, int64_t sample, mu_err *err) {
    if (MU_LIKELY(label >= 0 && label < n_classes)) return MU_OK;
    mu_status st = MU_FAIL_AT(err, MU_EDATA, l->pos,
                              "layer `%s`: label %" PRId32 " of sample %" PRId64 " is not in 0..%" PRId64,
                              l->name, label, sample, n_classes - 1);
    mu_err_hint(err, "The net has %" PRId64 " classes; give its last layer more outputs or mend the data.",
                n_classes);
    return st;
}

mu_status mu_word_check(const mu_layer *l, int32_t word, int64_t vocab, int64_t sample, mu_err *err) {
    if (MU_LIKELY(word >= 0 && word < vocab)) return MU_OK;
    mu_status st = MU_FAIL_AT(err, MU_EDATA, l->pos,
                              "layer `%s`: number %" PRId32 " in sample %" PRId64 " is not in 0..%" PRId64,
                              l->name, word, sample, vocab - 1);
    mu_err_hint(err, "`vocab` is %" PRId64 "; make it larger than every number in the data.", vocab);
    return st;
}

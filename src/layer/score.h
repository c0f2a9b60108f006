// SPDX-License-Identifier: Apache-2.0
// score.h - scores against labels: top-k hits, and labels checked before they are used as an index.
#ifndef MU_LAYER_SCORE_H
#define MU_LAYER_SCORE_H

#include "layer/layer.h"

#define MU_MAX_TOP 3

typedef struct mu_top { // the `top:` list of a layer, one metric each
    mu_metric *metric[MU_MAX_TOP];
    int64_t k[MU_MAX_TOP], hits[MU_MAX_TOP];
    size_t n;
} mu_top;

// Adds a metric for each k ("accuracy" for 1, "top5" for 5). c = number of scores.
mu_status mu_top_infer(mu_top *t, mu_layer *l, const mu_ints *ks, int64_t c, mu_err *err);
void mu_top_begin(mu_top *t);
void mu_top_count(mu_top *t, const float *score, int64_t c, int64_t label);
void mu_top_end(mu_top *t, int64_t n_counted);

// Place of `label` when the scores are sorted, from 0. Of equal scores the lower number comes first;
// a score that is not a number beats all, so a broken net is never right.
int64_t mu_score_rank(const float *score, int64_t c, int64_t label);

// MU_EDATA at the layer's place, naming the sample, unless 0 <= label < n_classes.
mu_status mu_label_check(const mu_layer *l, int32_t label, int64_t n_classes, int64_t sample, mu_err *err);
// Likewise of a number in a source of words.
mu_status mu_word_check(const mu_layer *l, int32_t word, int64_t vocab, int64_t sample, mu_err *err);

#endif

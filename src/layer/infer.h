// SPDX-License-Identifier: Apache-2.0
// infer.h - checks that several layers make in infer, so that they also speak alike.
//
// All report MU_EJOB at the layer's place, name the source and its shape, and give a hint.
#ifndef MU_LAYER_INFER_H
#define MU_LAYER_INFER_H

#include "layer/layer.h"

const char *mu_infer_src_name(const mu_layer *l, int i); // as the job calls it, also behind an inserted split
mu_status mu_infer_float(const mu_layer *l, int i, mu_err *err); // source i holds numbers, not labels
mu_status mu_infer_4d(const mu_layer *l, int i, mu_err *err);    // float and (n, c, h, w)

// Source i as a matrix: (n, c), or (n, c, 1, 1), which lies the same in memory.
mu_status mu_infer_matrix(const mu_layer *l, int i, int64_t *n, int64_t *c, mu_err *err);

// Source i as scores of n samples at t places each: (n, t, c), or with t = 1 as mu_infer_matrix.
mu_status mu_infer_scores(const mu_layer *l, int i, int64_t *n, int64_t *t, int64_t *c, mu_err *err);

// Source i is an integer label for each of n rows; its classes, where known, are at most n_classes.
mu_status mu_infer_label(const mu_layer *l, int i, int64_t n, int64_t n_classes, mu_err *err);
// One for each of t places of the n samples: (n, t).
mu_status mu_infer_labels(const mu_layer *l, int i, int64_t n, int64_t t, int64_t n_classes, mu_err *err);

// How many different integers source i has: `given`, or what the data says where that is 0.
mu_status mu_infer_vocab(const mu_layer *l, int i, int64_t given, int64_t *vocab, mu_err *err);

// Reports that a window of this kernel and pad (height, width) does not fit into source 0, which is 4-D;
// `cure` ends "Make the kernel smaller or ...". Never MU_OK.
mu_status mu_infer_fail_window(const mu_layer *l, const int64_t kernel[2], const int64_t pad[2],
                               const char *cure, mu_err *err);

// Sources 0 and 1 have the same elements in the same order in memory, so that a loop may pair them.
mu_status mu_infer_paired(const mu_layer *l, mu_err *err);

// True when a value of this shape is stored in another order than its logical one.
static inline bool mu_shape_is_reordered(const mu_shape *s) {
    return s->n == 4 && s->d[1] > 1 && s->d[2] * s->d[3] > 1;
}

#endif

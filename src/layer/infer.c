// SPDX-License-Identifier: Apache-2.0
// infer.c - shape checks that layers share; see infer.h.
#include "layer/infer.h"

#include <inttypes.h>
#include <stdio.h>

static const char *type_word(const mu_layer *l) { return l->class->name; }

const char *mu_infer_src_name(const mu_layer *l, int i) {
    const mu_blob *b = l->src[i];
    bool inserted = b->producer && !b->producer->node && (b->producer->class->flags & MU_LAYER_ALIAS);
    return inserted ? b->producer->src[0]->name : b->name;
}

mu_status mu_infer_float(const mu_layer *l, int i, mu_err *err) {
    const mu_blob *b = l->src[i];
    if (b->value.dtype == MU_F32) return MU_OK;
    return mu_err_hinted(
        mu_layer_fail(l, err, "%s needs numbers, `%s` gives integers", type_word(l), mu_infer_src_name(l, i)),
        err, "Integers such as labels and word numbers are for losses, accuracy and embedding.");
}

mu_status mu_infer_4d(const mu_layer *l, int i, mu_err *err) {
    char text[96];
    MU_TRY(mu_infer_float(l, i, err));
    const mu_shape *s = mu_layer_src_shape(l, i);
    if (s->n == 4) return MU_OK;
    mu_status st = mu_layer_fail(l, err, "%s needs a 4-D source, `%s` gives %s", type_word(l),
                                 mu_infer_src_name(l, i), mu_shape_text(s, text));
    mu_err_hint(err, "A 4-D source is (batch, channels, height, width); a reshape layer can make one.");
    return st;
}

mu_status mu_infer_matrix(const mu_layer *l, int i, int64_t *n, int64_t *c, mu_err *err) {
    char text[96];
    MU_TRY(mu_infer_float(l, i, err));
    const mu_shape *s = mu_layer_src_shape(l, i);
    if (s->n < 2 || mu_shape_inner(s, 2) != 1)
        return mu_err_hinted(mu_layer_fail(l, err, "%s needs a source (batch, values), `%s` gives %s",
                                           type_word(l), mu_infer_src_name(l, i), mu_shape_text(s, text)),
                             err, "Put a flatten or inner_product layer before it.");
    *n = s->d[0];
    *c = s->d[1];
    return MU_OK;
}

mu_status mu_infer_scores(const mu_layer *l, int i, int64_t *n, int64_t *t, int64_t *c, mu_err *err) {
    const mu_shape *s = mu_layer_src_shape(l, i);
    *t = 1;
    if (s->n != 3) return mu_infer_matrix(l, i, n, c, err);
    *n = s->d[0];
    *t = s->d[1];
    *c = s->d[2];
    return mu_infer_float(l, i, err);
}

mu_status mu_infer_label(const mu_layer *l, int i, int64_t n, int64_t n_classes, mu_err *err) {
    return mu_infer_labels(l, i, n, 1, n_classes, err);
}

mu_status mu_infer_labels(const mu_layer *l, int i, int64_t n, int64_t t, int64_t n_classes, mu_err *err) {
    char text[96];
    const mu_blob *b = l->src[i];
    const mu_shape *s = &b->value.shape;
    mu_status st;
    if (b->value.dtype != MU_I32 || s->n < 1 || mu_shape_inner(s, 1) != t) {
        char each[48] = "sample";
        if (t > 1) snprintf(each, sizeof each, "of %" PRId64 " time steps", t);
        st = mu_layer_fail(l, err, "%s needs one integer label for each %s, `%s` gives %s%s", type_word(l),
                           each, mu_infer_src_name(l, i), b->value.dtype == MU_I32 ? "" : "numbers ",
                           mu_shape_text(s, text));
        mu_err_hint(err, "The sources are the scores, then the label: src: [%s, data.label].",
                    b->value.dtype == MU_I32 || i == 0 ? "ip2" : mu_infer_src_name(l, 0));
        return st;
    }
    if (s->d[0] != n)
        return mu_layer_fail(l, err, "`%s` gives %" PRId64 " rows, `%s` gives %" PRId64 " labels",
                             mu_infer_src_name(l, 0), n, mu_infer_src_name(l, i), s->d[0]);
    if (b->n_classes <= n_classes) return MU_OK;
    char from[300] = "";
    if (b->top_from) snprintf(from, sizeof from, ": %s has label %" PRId64, b->top_from, b->n_classes - 1);
    st = mu_layer_fail(l, err, "`%s` gives %" PRId64 " scores, `%s` has %" PRId64 " classes%s",
                       mu_infer_src_name(l, 0), n_classes, mu_infer_src_name(l, i), b->n_classes, from);
    if (b->top_from)
        mu_err_hint(err,
                    "If the label is right, `%s` needs at least %" PRId64
                    " outputs. If not, mend it, or give "
                    "`classes` of the data: records beyond it are bad ones then.",
                    mu_infer_src_name(l, 0), b->n_classes);
    return mu_err_hinted(st, err, "The layer `%s` needs at least %" PRId64 " outputs.",
                         mu_infer_src_name(l, 0), b->n_classes);
}

mu_status mu_infer_vocab(const mu_layer *l, int i, int64_t given, int64_t *vocab, mu_err *err) {
    const mu_blob *b = l->src[i];
    *vocab = given ? given : b->n_classes;
    if (!*vocab)
        return mu_err_hinted(mu_layer_fail(l, err,
                                           "the data does not say how many different integers `%s` has",
                                           mu_infer_src_name(l, i)),
                             err, "Say it: `vocab: 1000` if all are below 1000.");
    if (b->n_classes > *vocab)
        return mu_err_hinted(mu_layer_fail(l, err,
                                           "`vocab` is %" PRId64 ", `%s` has %" PRId64 " different integers",
                                           given, mu_infer_src_name(l, i), b->n_classes),
                             err, "Leave `vocab` out to take it from the data.");
    return MU_OK;
}

mu_status mu_infer_fail_window(const mu_layer *l, const int64_t kernel[2], const int64_t pad[2],
                               const char *cure, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    // Without the batch: phases differ in it, and a problem worded alike is shown once.
    mu_status st = mu_layer_fail(l, err, "kernel %" PRId64 "x%" PRId64 " does not fit into `%s` of %" PRId64
                                 "x%" PRId64 " with pad %" PRId64 "x%" PRId64, kernel[0], kernel[1],
                                 mu_infer_src_name(l, 0), in->d[2], in->d[3], pad[0], pad[1]);
    mu_err_hint(err, "Make the kernel smaller or %s; sizes are height x width.", cure);
    return st;
}

mu_status mu_infer_paired(const mu_layer *l, mu_err *err) {
    char t0[96], t1[96];
    MU_TRY(mu_infer_float(l, 0, err));
    MU_TRY(mu_infer_float(l, 1, err));
    const mu_shape *a = mu_layer_src_shape(l, 0), *b = mu_layer_src_shape(l, 1);
    if (mu_shape_equal(a, b)) return MU_OK;
    bool same_size = a->n && b->n && a->d[0] == b->d[0] && mu_shape_count(a) == mu_shape_count(b);
    if (same_size && !mu_shape_is_reordered(a) && !mu_shape_is_reordered(b)) return MU_OK;
    mu_status st = mu_layer_fail(l, err, "%s needs two sources of one shape, `%s` gives %s, `%s` gives %s",
                                 type_word(l), mu_infer_src_name(l, 0), mu_shape_text(a, t0),
                                 mu_infer_src_name(l, 1), mu_shape_text(b, t1));
    if (same_size) mu_err_hint(err, "Put a flatten layer after the 4-D source.");
    return st;
}

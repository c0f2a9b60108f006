// SPDX-License-Identifier: Apache-2.0
// confusion.c - see confusion.h.
#include "run/confusion.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG "confusion"
#define MAX_CLASSES 20000

mu_status mu_confusion_init(mu_confusion *c, int64_t classes, mu_err *err) {
    *c = (mu_confusion){.classes = classes};
    if (classes < 1 || classes > MAX_CLASSES)
        return MU_FAIL(err, MU_EUSAGE, "a table of %" PRId64 " classes is beyond the limit of %d", classes,
                       MAX_CLASSES);
    c->count = mu_alloc_array((size_t)(classes * classes), sizeof *c->count, TAG);
    return c->count ? MU_OK : MU_FAIL_NOMEM(err, "the confusion matrix");
}

void mu_confusion_fini(mu_confusion *c) {
    mu_free(c->count);
    *c = (mu_confusion){0};
}

void mu_confusion_count(mu_confusion *c, const float *score, int64_t truth) {
    int64_t answer = 0;
    bool broken = isnan(score[0]);
    for (int64_t k = 1; k < c->classes; k++) {
        broken |= isnan(score[k]);
        if (score[k] > score[answer]) answer = k;
    }
    c->samples++;
    c->broken += broken;
    if (broken) return;
    c->count[truth * c->classes + answer]++;
    c->right += answer == truth;
}

int64_t mu_confusion_truths(const mu_confusion *c, int64_t truth) {
    int64_t n = 0;
    for (int64_t k = 0; k < c->classes; k++) n += c->count[truth * c->classes + k];
    return n;
}

int mu_confusion_mistakes(const mu_confusion *c, mu_mistake *out, int most) {
    int n = 0;
    for (int64_t i = 0; i < c->classes * c->classes; i++) {
        mu_mistake m = {i / c->classes, i % c->classes, c->count[i]};
        if (m.truth == m.answer || !m.count || (n == most && m.count <= out[n - 1].count)) continue;
        int at = n < most ? n++ : n - 1;
        for (; at > 0 && out[at - 1].count < m.count; at--) out[at] = out[at - 1];
        out[at] = m;
    }
    return n;
}

// ---- a net ----

typedef struct judge {
    mu_confusion *c;
    const mu_blob *scores, *labels;
    int64_t ignore;
} judge;

static mu_status count_batch(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    const judge *j = ctx;
    (void)net, (void)err;
    for (int64_t i = 0; i < batch->n; i++) {
        int32_t truth = j->labels->value.i[i];
        if (truth == j->ignore || truth < 0 || truth >= j->c->classes) continue;
        mu_confusion_count(j->c, j->scores->value.f + i * j->c->classes, truth);
    }
    return MU_OK;
}

// A layer that judges scores by labels: an accuracy layer, else a softmax loss.
static const mu_layer *find_judge(const mu_net *net) {
    const mu_layer *found = NULL;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        bool accuracy = !strcmp(l->class->name, "accuracy");
        if (!accuracy && strcmp(l->class->name, "softmax_loss")) continue;
        const mu_tensor *x = &l->src[0]->value, *y = &l->src[1]->value;
        if (x->dtype != MU_F32 || x->shape.n < 2 || y->dtype != MU_I32) continue;
        if (x->shape.d[0] != net->batch || mu_shape_count(&y->shape) != net->batch) continue; // sequences
        if (!found || accuracy) found = l;
        if (accuracy) break;
    }
    return found;
}

mu_status mu_confusion_measure(mu_confusion *c, mu_inspect *in, bool *found, mu_err *err) {
    const mu_layer *l = find_judge(in->at->net);
    *found = l != NULL;
    if (!l) return MU_OK;
    const char *ignore = mu_node_text(mu_node_find(l->node, "ignore_label"));
    judge j = {c, l->src[0], l->src[1], ignore ? strtoll(ignore, NULL, 10) : INT64_MIN};
    MU_TRY(mu_confusion_init(c, mu_shape_inner(&l->src[0]->value.shape, 1), err));
    return mu_inspect_visit(in, 0, count_batch, &j, NULL, err);
}

// SPDX-License-Identifier: Apache-2.0
// confusion.c - see confusion.h.
#include "look/confusion.h"

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

typedef struct scorers { // layers that compare scores with labels: one, or all copies of an unrolled one
    mu_confusion *c;
    const mu_layer **v;
    int n;
    int64_t places; // labels of a sample in each
    int64_t ignore;
} scorers;

static mu_status count_batch(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, MU_UNUSED mu_err *err) {
    const scorers *s = ctx;
    for (int k = 0; k < s->n; k++) {
        const float *score = s->v[k]->src[0]->value.f;
        const int32_t *label = s->v[k]->src[1]->value.i;
        for (int64_t i = 0; i < batch->n * s->places; i++) {
            if (label[i] == s->ignore || label[i] < 0 || label[i] >= s->c->classes) continue;
            mu_confusion_count(s->c, score + i * s->c->classes, label[i]);
        }
    }
    return MU_OK;
}

// Labels of a sample: 1, of sequences (n, t, c) t; 0 = the layer compares something else.
static int64_t places_of(const mu_net *net, const mu_layer *l) {
    const mu_tensor *x = &l->src[0]->value, *y = &l->src[1]->value;
    if (x->dtype != MU_F32 || x->shape.n < 2 || y->dtype != MU_I32 || x->shape.d[0] != net->batch) return 0;
    const int64_t t = x->shape.n == 3 ? x->shape.d[1] : 1;
    return mu_shape_count(&y->shape) == net->batch * t ? t : 0;
}

// An accuracy layer, else a softmax loss.
static const mu_layer *find_scorer(const mu_net *net) {
    const mu_layer *found = NULL;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        bool accuracy = !strcmp(l->class->name, "accuracy");
        if (!accuracy && strcmp(l->class->name, "softmax_loss")) continue;
        if (!places_of(net, l)) continue;
        if (!found || accuracy) found = l;
        if (accuracy) break;
    }
    return found;
}

static mu_status find_copies(scorers *s, const mu_net *net, const mu_layer *l, mu_err *err) {
    s->v = mu_alloc_array((size_t)net->n_layers, sizeof *s->v, TAG);
    if (!s->v) return MU_FAIL_NOMEM(err, "the confusion matrix");
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *o = net->layer[i];
        if (o == l || (l->origin && o->origin && !strcmp(o->origin, l->origin))) s->v[s->n++] = o;
    }
    return MU_OK;
}

mu_status mu_confusion_measure(mu_confusion *c, mu_inspect *in, bool *found, mu_err *err) {
    const mu_net *net = in->at->net;
    const mu_layer *l = find_scorer(net);
    *found = l != NULL;
    if (!l) return MU_OK;
    const char *ignore = mu_node_text(mu_node_find(l->node, "ignore_label"));
    scorers s = {.c = c,
                .places = places_of(net, l),
                .ignore = ignore ? strtoll(ignore, NULL, 10) : INT64_MIN};
    MU_TRY(mu_confusion_init(c, mu_shape_inner(&l->src[0]->value.shape, 1) / s.places, err));
    mu_status st = find_copies(&s, net, l, err);
    c->of_steps = s.places > 1 || s.n > 1;
    if (st == MU_OK) st = mu_inspect_visit(in, 0, count_batch, &s, NULL, err);
    mu_free(s.v);
    return st;
}

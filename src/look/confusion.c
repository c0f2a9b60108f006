// SPDX-License-Identifier: Apache-2.0
// confusion.c - see confusion.h.
#include "look/confusion.h"

#include "base/alloc.h"
#include "look/head.h"

#include <inttypes.h>

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

void mu_confusion_add(mu_confusion *c, int64_t truth, int64_t answer) {
    c->samples++;
    c->broken += answer < 0;
    if (answer < 0) return;
    c->count[truth * c->classes + answer]++;
    c->right += answer == truth;
}

void mu_confusion_count(mu_confusion *c, const float *score, int64_t truth) {
    mu_confusion_add(c, truth, mu_scores_answer(score, c->classes));
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

typedef struct counting {
    mu_head head;
    mu_confusion *c;
} counting;

static void count_answer(void *ctx, const float *score, int64_t truth) {
    mu_confusion_count(ctx, score, truth);
}

static mu_status count_batch(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, MU_UNUSED mu_err *err) {
    const counting *n = ctx;
    mu_head_each_class(&n->head, batch->n, count_answer, n->c);
    return MU_OK;
}

mu_status mu_confusion_measure(mu_confusion *c, mu_inspect *in, bool *found, mu_err *err) {
    counting n = {.c = c};
    MU_TRY(mu_head_find(in->at->net, in->at->source, MU_HEAD_CLASSES, NULL, &n.head, err));
    *found = n.head.layer != NULL;
    if (!n.head.layer) return MU_OK;
    mu_status st = mu_confusion_init(c, n.head.width, err);
    c->of_steps = n.head.places > 1 || n.head.n_copies > 1;
    c->names = n.head.names;
    c->n_names = n.head.n_names;
    if (st == MU_OK) st = mu_inspect_visit(in, 0, count_batch, &n, NULL, err);
    mu_head_fini(&n.head);
    return st;
}

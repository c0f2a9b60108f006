// SPDX-License-Identifier: Apache-2.0
// l_split.c - several names for one value; the gradients of all of them add up.
//
// The net inserts it (`split(x)`) where a blob has several consumers; a job need not write it.
// Outputs are the source's own memory, their gradients are apart.
#include "layer/layer.h"

#include <stdio.h>

struct split {
    int64_t outputs;
};

static const mu_field fields[] = {
    MU_FIELD(struct split, outputs, MU_INT, "2", "[1,16]", "number of outputs, all equal to the source"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct split *s = l->state;
    for (int64_t i = 0; i < s->outputs; i++) {
        char suffix[24];
        snprintf(suffix, sizeof suffix, "%d", (int)i);
        MU_TRY(mu_layer_add_out(l, suffix, *mu_layer_src_shape(l, 0), l->src[0]->value.dtype, err));
        l->out[i].n_classes = l->src[0]->n_classes;
    }
    return MU_OK;
}

static mu_status forward(MU_UNUSED mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    float *restrict dsrc = l->src[0]->grad.f;
    if (!dsrc) return MU_OK;
    int64_t n = mu_shape_count(&l->src[0]->value.shape);
    const float *a = l->out[0].grad.f;
    if (l->n_out == 1) {
        for (int64_t i = 0; i < n; i++) dsrc[i] = a[i];
        return MU_OK;
    }
    const float *b = l->out[1].grad.f; // the first two together: one pass in the usual case
    for (int64_t i = 0; i < n; i++) dsrc[i] = a[i] + b[i];
    for (int k = 2; k < l->n_out; k++) {
        const float *c = l->out[k].grad.f;
        for (int64_t i = 0; i < n; i++) dsrc[i] += c[i];
    }
    return MU_OK;
}

const mu_layer_class mu_layer_split = {
    .name = "split",
    .help = "one value as outputs NAME.0, NAME.1, ...; gradients add up",
    .fields = fields,
    .state_size = sizeof(struct split),
    .flags = MU_LAYER_ALIAS | MU_LAYER_SAME_SHAPE,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

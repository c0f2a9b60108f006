// SPDX-License-Identifier: Apache-2.0
// l_time_step.c - steps of a sequence: (n, t, ...) -> (n, ...), also of integers (n, t) -> (n).
//
// With several outputs each takes the next `length` steps; one step alone loses the time axis. Unrolling
// inserts it as steps(x) between a sequence and the copies of a layer. Steps that no layer takes get the
// gradient zero.
#include "layer/infer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct time_step {
    int64_t step, outputs, length, total;
    // derived
    int64_t n, t, inner; // the source: n rows of t steps of `inner` elements
};

static const mu_field fields[] = {
    MU_FIELD(struct time_step, step, MU_INT, "-1", "[-2147483648,2147483647]",
             "the first step taken, from 0; negative = from the end"),
    MU_FIELD(struct time_step, outputs, MU_INT, "1", "[1,16]", "number of outputs, of the steps that follow"),
    MU_FIELD(struct time_step, length, MU_INT, "1", "[1,2147483647]",
             "steps of each output; more than one stay a sequence, the last output has what is left"),
    MU_FIELD(struct time_step, total, MU_INT, "0", "[0,)", "steps the source must have; 0 = any number"),
    {0},
};

// A sequence of the wrong length or none at all.
static mu_status check_source(const mu_layer *l, mu_err *err) {
    const struct time_step *s = l->state;
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    mu_status st;
    const bool integers = l->src[0]->value.dtype == MU_I32;
    if (in->n != 3 && !(integers && in->n == 2)) {
        st = mu_layer_fail(l, err, "`%s` gives %s%s, which is not a sequence (batch, time, values)",
                           mu_infer_src_name(l, 0), integers ? "integers " : "", mu_shape_text(in, text));
    } else if (s->total && in->d[1] != s->total) {
        st = mu_layer_fail(l, err, "`%s` has %" PRId64 " time steps, not the %" PRId64 " of `unroll`",
                           mu_infer_src_name(l, 0), in->d[1], s->total);
    } else {
        return MU_OK;
    }
    if (s->total)
        mu_err_hint(err, "Copies take one time step each; `{layer: %s, connect: one_to_all}` gives all of it "
                         "to every copy.", mu_infer_src_name(l, 0));
    return st;
}

static int64_t first_step(const struct time_step *s) { return s->step < 0 ? s->t + s->step : s->step; }

// Steps of output k.
static int64_t steps_of(const struct time_step *s, int64_t k) {
    int64_t left = s->t - first_step(s) - k * s->length;
    return left < s->length ? left : s->length;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct time_step *s = l->state;
    MU_TRY(check_source(l, err));
    const mu_shape in = *mu_layer_src_shape(l, 0);
    s->n = in.d[0];
    s->t = in.d[1];
    s->inner = mu_shape_inner(&in, 2);
    int64_t first = first_step(s);
    if (first < 0 || s->outputs > s->t || s->length > s->t ||
        first + (s->outputs - 1) * s->length + 1 > s->t)
        return mu_layer_fail(l, err, "%" PRId64 " output%s of %" PRId64 " step%s from step %" PRId64
                             " are beyond the %" PRId64 " steps of `%s`", s->outputs,
                             s->outputs == 1 ? "" : "s", s->length, s->length == 1 ? "" : "s", s->step, s->t,
                             mu_infer_src_name(l, 0));
    for (int64_t k = 0; k < s->outputs; k++) {
        mu_shape out = in;
        char suffix[24];
        snprintf(suffix, sizeof suffix, "%d", (int)k);
        out.d[1] = steps_of(s, k);
        if (s->length == 1) {
            for (int i = 1; i < in.n - 1; i++) out.d[i] = in.d[i + 1];
            out.n = in.n - 1;
        }
        MU_TRY(mu_layer_add_out(l, s->outputs > 1 ? suffix : NULL, out, l->src[0]->value.dtype, err));
        l->out[k].n_classes = l->src[0]->n_classes;
        l->out[k].streams = l->src[0]->streams;
    }
    return MU_OK;
}

static mu_status forward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct time_step *s = l->state;
    const float *x = l->src[0]->value.f; // or integers: as many bytes
    for (int k = 0; k < l->n_out; k++) {
        const int64_t at = first_step(s) + k * s->length, run = steps_of(s, k) * s->inner;
        for (int64_t b = 0; b < s->n; b++)
            memcpy(l->out[k].value.f + b * run, x + (b * s->t + at) * s->inner, (size_t)run * sizeof *x);
    }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct time_step *s = l->state;
    float *dx = l->src[0]->grad.f;
    if (!dx) return MU_OK;
    int64_t taken = 0;
    for (int k = 0; k < l->n_out; k++) taken += steps_of(s, k);
    if (taken < s->t) memset(dx, 0, (size_t)(s->n * s->t * s->inner) * sizeof *dx);
    for (int k = 0; k < l->n_out; k++) {
        const int64_t at = first_step(s) + k * s->length, run = steps_of(s, k) * s->inner;
        for (int64_t b = 0; b < s->n; b++)
            memcpy(dx + (b * s->t + at) * s->inner, l->out[k].grad.f + b * run, (size_t)run * sizeof *dx);
    }
    return MU_OK;
}

const mu_layer_class mu_layer_time_step = {
    .name = "time_step",
    .help = "one step of a sequence (n, t, ...), or several as outputs NAME.0, NAME.1, ...",
    .fields = fields,
    .state_size = sizeof(struct time_step),
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

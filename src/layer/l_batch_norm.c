// SPDX-License-Identifier: Apache-2.0
// l_batch_norm.c - batch normalisation (Ioffe & Szegedy, 2015) per channel of (n, c, h, w) or per
// feature of (n, c).
//
//   y = weight * (x - mean) / sqrt(var + eps) + bias
// Training takes mean and variance of the batch and moves the running ones by `momentum`; the other
// phases use the running ones. Names, momentum and the unbiased running variance are PyTorch's.
#include "layer/grad.h"
#include "layer/infer.h"

#include <inttypes.h>
#include <string.h>

struct batch_norm {
    float eps, momentum;
    bool affine;
    mu_norm_desc d;        // derived by infer
    int run_mean, run_var; // index of the statistics in l->param
};

static const mu_field fields[] = {
    MU_FIELD(struct batch_norm, eps, MU_FLOAT, "0.00001", "(0,)", "added to the variance"),
    MU_FIELD(struct batch_norm, momentum, MU_FLOAT, "0.1", "[0,1]",
             "share of the batch in the running statistics"),
    MU_FIELD(struct batch_norm, affine, MU_BOOL, "true", NULL, "learn a scale and a shift for each channel"),
    {0},
};
static const char *const params[] = {"weight", "bias", NULL};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct batch_norm *s = l->state;
    char text[96];
    MU_TRY(mu_infer_float(l, 0, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->n != 2 && in->n != 4)
        return mu_layer_fail(l, err, "batch_norm needs a 2-D or 4-D source, `%s` gives %s",
                             mu_infer_src_name(l, 0), mu_shape_text(in, text));
    s->d = (mu_norm_desc){
        .rows = mu_shape_count(in) / in->d[1], .c = in->d[1], .eps = s->eps, .momentum = s->momentum};
    s->d.training = mu_layer_trains(l);
    s->d.affine = s->affine;
    if (s->d.training && s->d.rows < 2)
        return mu_err_hinted(mu_layer_fail(l, err, "a batch of %" PRId64 " has no variance", s->d.rows), err,
                             "Train with a batch of at least 2.");
    mu_shape per_channel = MU_SHAPE(s->d.c);
    if (s->affine) {
        MU_TRY(mu_layer_add_param(l, "weight", per_channel, s->d.c, s->d.c, "constant value=1", err));
        MU_TRY(mu_layer_add_param(l, "bias", per_channel, s->d.c, s->d.c, "constant", err));
    }
    s->run_mean = l->n_param;
    MU_TRY(mu_layer_add_stat(l, "running_mean", per_channel, "constant", err));
    s->run_var = l->n_param;
    MU_TRY(mu_layer_add_stat(l, "running_var", per_channel, "constant value=1", err));
    return mu_layer_add_out(l, NULL, *in, MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    const struct batch_norm *s = l->state;
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_NORM, .norm = s->d}, err);
}

// Rows behind the end of a short batch hold what an earlier one left: they take no part, and are 0 behind
// here.
static int64_t valid_rows(const mu_layer *l, const mu_step *step) {
    const struct batch_norm *s = l->state;
    return s->d.rows / mu_layer_src_shape(l, 0)->d[0] * step->rows;
}

static void clear_rest(const mu_layer *l, int64_t rows, float *v) {
    const struct batch_norm *s = l->state;
    if (v && rows < s->d.rows)
        memset(v + rows * s->d.c, 0, (size_t)((s->d.rows - rows) * s->d.c) * sizeof *v);
}

static mu_op_args args(const mu_layer *l, const mu_step *step) {
    const struct batch_norm *s = l->state;
    mu_op_args a = {.src = l->src[0]->value.f, .keep = l->keep, .scratch = l->scratch};
    a.rows = valid_rows(l, step);
    if (s->affine) {
        a.weight = l->param[0]->value;
        a.bias = l->param[1]->value;
    }
    a.run_mean = l->param[s->run_mean]->value;
    a.run_var = l->param[s->run_var]->value;
    return a;
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = args(l, step);
    a.dst = l->out[0].value.f;
    clear_rest(l, a.rows, a.dst);
    return mu_op_forward(l->op, &a, err);
}

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct batch_norm *s = l->state;
    mu_op_args a = args(l, step);
    a.ddst = l->out[0].grad.f;
    a.dsrc = l->src[0]->grad.f;
    clear_rest(l, a.rows, a.dsrc);
    if (s->affine) mu_grad_begin(l->param[0], l->param[1], &a);
    return mu_op_backward(l->op, &a, err);
}

static void cost(const mu_layer *l, mu_cost *out) {
    const struct batch_norm *s = l->state;
    double count = (double)s->d.rows * (double)s->d.c;
    out->flops_forward = count * (s->d.training ? 7 : 2); // mean 1, variance 3, normalise and scale 3
    out->flops_backward = count * 11;
    out->bytes = 2 * (double)sizeof(float) * count;
}

const mu_layer_class mu_layer_batch_norm = {
    .name = "batch_norm",
    .help = "batch normalisation per channel",
    .fields = fields,
    .state_size = sizeof(struct batch_norm),
    .params = params,
    .flags = MU_BACK_NEEDS_SRC | MU_LAYER_SAME_SHAPE,
    .cuts = MU_CUT_FEATURE,
    .uncut = "mean and variance are those of all rows",
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};

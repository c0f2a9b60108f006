// SPDX-License-Identifier: Apache-2.0
// l_convolution.c - 2-D convolution with groups, stride, padding and dilation.
//
//   dst[n][o][y][x] = bias[o] + sum over c, i, j of weight[o][c][i][j]
//                     * src[n][c][y*stride - pad + i*dilation][x*stride - pad + j*dilation]
// Cross-correlation, as in Caffe and PyTorch; weight is (filters, channels / groups, kh, kw).
// The output size rounds down: windows that would hang over the edge are not taken.
#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/one_op.h"

#include <inttypes.h>

struct convolution {
    int64_t filters;
    int64_t kernel[2], stride[2], pad[2], dilation[2]; // height, width
    int64_t groups;
    bool bias_term;
    mu_conv_desc d; // derived by infer
};

static const mu_field fields[] = {
    MU_FIELD(struct convolution, filters, MU_INT, NULL, "[1,1000000]", "number of output channels"),
    MU_FIELD(struct convolution, kernel, MU_PAIR, NULL, "[1,4096]", "window size, or [height, width]"),
    MU_FIELD(struct convolution, stride, MU_PAIR, "1", "[1,4096]", "step of the window"),
    MU_FIELD(struct convolution, pad, MU_PAIR, "0", "[0,4096]", "zeros added on each side"),
    MU_FIELD(struct convolution, dilation, MU_PAIR, "1", "[1,4096]",
             "distance of kernel elements, 1 = dense"),
    MU_FIELD(struct convolution, groups, MU_INT, "1", "[1,1000000]",
             "channels are cut into this many independent parts"),
    MU_FIELD(struct convolution, bias_term, MU_BOOL, "true", NULL,
             "add a learned constant to each output channel"),
    {0},
};
static const char *const params[] = {"weight", "bias", NULL};

static int64_t out_size(int64_t in, const struct convolution *s, int axis) {
    int64_t reach = s->dilation[axis] * (s->kernel[axis] - 1) + 1, room = in + 2 * s->pad[axis] - reach;
    return room < 0 ? 0 : room / s->stride[axis] + 1;
}

static mu_status check(const mu_layer *l, const struct convolution *s, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->d[1] % s->groups || s->filters % s->groups) {
        bool channels = in->d[1] % s->groups != 0;
        return mu_err_hinted(mu_layer_fail(l, err, "%" PRId64 " %s cannot be cut into %" PRId64 " groups",
                                           channels ? in->d[1] : s->filters,
                                           channels ? "input channels" : "filters", s->groups),
                             err, "`groups` must divide the input channels and `filters`.");
    }
    for (int a = 0; a < 2; a++)
        if (out_size(in->d[2 + a], s, a) <= 0)
            return mu_infer_fail_window(l, s->kernel, s->pad, "pad more", err);
    return MU_OK;
}

// A group of filters reads its own channels alone: then a part has whole groups, and the same share of the
// source.
static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    const struct convolution *s = l->state;
    if (s->groups == 1) return;
    rules->cuts &= ~(unsigned)MU_CUT_READS_ALL;
    rules->grain = s->filters / s->groups;
}

static void take_part(mu_layer *l) {
    struct convolution *s = l->state;
    const int64_t filters = l->cut.feature.end - l->cut.feature.begin;
    if (s->groups > 1) s->groups = s->groups * filters / s->filters;
    s->filters = filters;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct convolution *s = l->state;
    MU_TRY(mu_infer_4d(l, 0, err));
    MU_TRY(check(l, s, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    s->d = (mu_conv_desc){
        .n = in->d[0],
        .c = in->d[1],
        .h = in->d[2],
        .w = in->d[3],
        .o = s->filters,
        .oh = out_size(in->d[2], s, 0),
        .ow = out_size(in->d[3], s, 1),
        .kh = s->kernel[0],
        .kw = s->kernel[1],
        .stride_h = s->stride[0],
        .stride_w = s->stride[1],
        .pad_h = s->pad[0],
        .pad_w = s->pad[1],
        .dil_h = s->dilation[0],
        .dil_w = s->dilation[1],
        .groups = s->groups,
        .bias = s->bias_term,
        .need_dsrc = l->src[0]->needs_grad,
    };
    int64_t taps = s->d.kh * s->d.kw, fan_in = s->d.c / s->groups * taps, fan_out = s->filters * taps;
    MU_TRY(mu_layer_add_param(l, "weight", MU_SHAPE(s->filters, s->d.c / s->groups, s->d.kh, s->d.kw), fan_in,
                              fan_out, "xavier", err));
    if (s->bias_term)
        MU_TRY(mu_layer_add_param(l, "bias", MU_SHAPE(s->filters), fan_in, fan_out, "constant", err));
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->d.n, s->filters, s->d.oh, s->d.ow), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    struct convolution *s = l->state;
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_CONV, .conv = s->d}, err);
}

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    mu_op_args a = mu_one_op_args(l, step);
    a.ddst = l->out[0].grad.f;
    a.dsrc = l->src[0]->grad.f;
    mu_grad_begin(l->param[0], l->n_param > 1 ? l->param[1] : NULL, &a);
    return mu_op_backward(l->op, &a, err);
}

// Taps of all windows of one axis that lie in the image: multiplications with padding are not work.
static double useful_taps(int64_t in, int64_t out, int64_t k, int64_t stride, int64_t pad, int64_t dil) {
    int64_t taps = 0;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < k; i++) {
            int64_t at = o * stride - pad + i * dil;
            taps += at >= 0 && at < in;
        }
    return (double)taps;
}

static void cost(const mu_layer *l, mu_cost *out) {
    const mu_conv_desc *d = &((const struct convolution *)l->state)->d;
    double taps = useful_taps(d->h, d->oh, d->kh, d->stride_h, d->pad_h, d->dil_h) *
                  useful_taps(d->w, d->ow, d->kw, d->stride_w, d->pad_w, d->dil_w);
    int64_t depth = d->c / d->groups;
    out->flops_forward = 2.0 * (double)(d->n * d->o * depth) * taps;
    out->flops_backward = out->flops_forward * (l->src[0]->needs_grad ? 2 : 1);
    out->bytes = (double)sizeof(float) * (double)(d->n * (d->c * d->h * d->w + d->o * d->oh * d->ow));
}

const mu_layer_class mu_layer_convolution = {
    .name = "convolution",
    .help = "2-D convolution",
    .fields = fields,
    .state_size = sizeof(struct convolution),
    .params = params,
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE | MU_CUT_READS_ALL,
    .cut_rules = cut_rules,
    .take_part = take_part,
    .infer = infer,
    .setup = setup,
    .forward = mu_one_op_forward,
    .backward = backward,
    .cost = cost,
};

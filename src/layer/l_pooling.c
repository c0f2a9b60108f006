// SPDX-License-Identifier: Apache-2.0
// l_pooling.c - maximum or average of windows.
//
// Sizes follow Caffe: the output size rounds up, so the last window may hang over the lower and right
// edge, but none starts outside the image and its leading padding. `round: floor` gives PyTorch's sizes.
// The stride is the kernel unless given (windows side by side). An average divides by the window
// clipped to the padded image (Caffe's rule), or to the image alone with `count_pad: false`.
#include "layer/infer.h"
#include "layer/one_op.h"

#include <inttypes.h>

struct pooling {
    int method;                           // mu_pool_kind
    int64_t kernel[2], stride[2], pad[2]; // height, width
    int round;                            // 0 ceil, 1 floor
    bool count_pad;
    mu_pool_desc d; // derived by infer
};

static const mu_field fields[] = {
    MU_FIELD_ENUM(struct pooling, method, "max", "max|average", "what is taken of each window"),
    MU_FIELD(struct pooling, kernel, MU_PAIR, NULL, "[1,4096]", "window size, or [height, width]"),
    MU_FIELD(struct pooling, stride, MU_PAIR, "0", "[0,4096]", "step of the window, 0 = the kernel's size"),
    MU_FIELD(struct pooling, pad, MU_PAIR, "0", "[0,4096]", "border added on each side; never the maximum"),
    MU_FIELD_ENUM(struct pooling, round, "ceil", "ceil|floor", "rounding of the output size"),
    MU_FIELD(struct pooling, count_pad, MU_BOOL, "true", NULL, "an average counts the padding in the window"),
    {0},
};

static int64_t out_size(int64_t in, const struct pooling *s, int axis) {
    int64_t stride = s->stride[axis], pad = s->pad[axis], room = in + 2 * pad - s->kernel[axis];
    if (room < 0) return 0;
    int64_t n = (s->round == 0 ? room + stride - 1 : room) / stride + 1;
    if ((n - 1) * stride >= in + pad) n--; // the last window would see nothing but trailing padding
    return n;
}

static mu_status check(const mu_layer *l, const struct pooling *s, mu_err *err) {
    const mu_shape *in = mu_layer_src_shape(l, 0);
    for (int a = 0; a < 2; a++) {
        if (s->pad[a] >= s->kernel[a])
            return mu_err_hinted(mu_layer_fail(l, err, "pad %" PRId64 " is not smaller than kernel %" PRId64,
                                               s->pad[a], s->kernel[a]),
                                 err, "A window must always touch the image.");
        if (out_size(in->d[2 + a], s, a) <= 0)
            return mu_infer_fail_window(l, s->kernel, s->pad, "remove a pooling layer above", err);
    }
    return MU_OK;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct pooling *s = l->state;
    MU_TRY(mu_infer_4d(l, 0, err));
    for (int a = 0; a < 2; a++)
        if (s->stride[a] == 0) s->stride[a] = s->kernel[a];
    MU_TRY(check(l, s, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    s->d = (mu_pool_desc){
        .n = in->d[0],
        .c = in->d[1],
        .h = in->d[2],
        .w = in->d[3],
        .oh = out_size(in->d[2], s, 0),
        .ow = out_size(in->d[3], s, 1),
        .kh = s->kernel[0],
        .kw = s->kernel[1],
        .stride_h = s->stride[0],
        .stride_w = s->stride[1],
        .pad_h = s->pad[0],
        .pad_w = s->pad[1],
        .kind = s->method == 0 ? MU_POOL_MAX : MU_POOL_AVG,
        .count_pad = s->count_pad,
    };
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->d.n, s->d.c, s->d.oh, s->d.ow), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    const struct pooling *s = l->state;
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_POOL, .pool = s->d}, err);
}

static void cost(const mu_layer *l, mu_cost *out) {
    const mu_pool_desc *d = &((const struct pooling *)l->state)->d;
    double windows = (double)(d->n * d->c * d->oh * d->ow), taps = windows * (double)(d->kh * d->kw);
    out->flops_forward = taps;
    out->flops_backward = d->kind == MU_POOL_MAX ? windows : taps;
    out->bytes = (double)sizeof(float) * ((double)(d->n * d->c * d->h * d->w) + windows);
}

const mu_layer_class mu_layer_pooling = {
    .name = "pooling",
    .help = "maximum or average of windows",
    .fields = fields,
    .state_size = sizeof(struct pooling),
    .flags = 0, // ops keep the places of the maxima
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE,
    .infer = infer,
    .setup = setup,
    .forward = mu_one_op_forward,
    .backward = mu_one_op_backward,
    .cost = cost,
};

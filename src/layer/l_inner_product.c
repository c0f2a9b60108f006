// SPDX-License-Identifier: Apache-2.0
// l_inner_product.c - fully connected layer: dst (n,o) = src (n,i) * weight(o,i)^T + bias(o).
//
// Everything from `axis` on is flattened; the axes before it are rows, so with axis 2 every step of a
// sequence (n,t,d) goes through the same weights. An image is flattened in its logical order (C, H, W), so
// that weights mean the same as in PyTorch and Caffe; it lies channels-last in memory, so it is transposed
// once forward (the flat copy is kept for backward) and once backward.
//
// `transpose` uses a weight that lies as (i,o). A decoder that names its encoder's weight thereby has the
// encoder's matrix transposed: tied weights. Shared gradients add up in the dense form.
//
// The ways of the weight gradient are those of mu_grad_inner.
#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/one_op.h"

struct inner_product {
    int64_t outputs, axis;
    bool bias_term, transpose;
    // derived
    mu_inner_desc d;            // d.n counts rows: samples times the axes between them and `axis`
    int64_t per_sample;         // rows of a sample
    bool reorder;               // the source is stored in another order than its logical one
    int64_t c, hw;              // of a reordered source
    size_t op_keep, op_scratch; // bytes of the op at the start of keep and scratch; ours follow
};

static const mu_field fields[] = {
    MU_FIELD(struct inner_product, outputs, MU_INT_OR_AUTO, NULL, "[1,1000000000]",
             "number of output values; auto = classes of the label, or values of the target, that a loss "
             "reads"),
    MU_FIELD(struct inner_product, bias_term, MU_BOOL, "true", NULL, "add a learned constant to each output"),
    MU_FIELD(struct inner_product, axis, MU_INT, "1", "[-5,5]",
             "first axis that is flattened; 2 = each step of a sequence by itself, -1 = the last"),
    MU_FIELD(struct inner_product, transpose, MU_BOOL, "false", NULL,
             "the weight lies as (inputs, outputs): shares that of an encoder by name"),
    {0},
};
static const char *const params[] = {"weight", "bias", NULL};

// The axis from 0, and the output's shape.
static mu_status find_axis(mu_layer *l, int *axis, mu_shape *out, mu_err *err) {
    const struct inner_product *s = l->state;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    char text[96];
    if (in->n < 2)
        return mu_layer_fail(l, err, "inner_product needs a source (batch, values), `%s` gives %s",
                             mu_infer_src_name(l, 0), mu_shape_text(in, text));
    *axis = (int)(s->axis < 0 ? s->axis + in->n : s->axis);
    if (*axis < 1 || *axis >= in->n)
        return mu_err_hinted(mu_layer_fail(l, err, "there is no axis %d behind the batch in `%s` %s",
                                           (int)s->axis, mu_infer_src_name(l, 0), mu_shape_text(in, text)),
                             err, "Axes count from 0, the batch; -1 is the last.");
    *out = *in;
    out->n = *axis + 1;
    out->d[*axis] = s->outputs;
    if (*axis > 1 && (mu_shape_is_reordered(in) || mu_shape_is_reordered(out)))
        return mu_err_hinted(mu_layer_fail(l, err, "axis %d is for sequences, `%s` gives images %s",
                                           (int)s->axis, mu_infer_src_name(l, 0), mu_shape_text(in, text)),
                             err, "Use axis 1, or a convolution with kernel 1 for each place by itself.");
    return MU_OK;
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    if (((const struct inner_product *)l->state)->transpose) rules->cuts &= ~(unsigned)MU_CUT_FEATURE;
}

static void take_part(mu_layer *l) {
    ((struct inner_product *)l->state)->outputs = l->cut.feature.end - l->cut.feature.begin;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct inner_product *s = l->state;
    mu_shape out;
    int axis = 1;
    MU_TRY(mu_infer_float(l, 0, err));
    if (s->outputs == MU_AUTO)
        return mu_err_hinted(mu_layer_fail(l, err, "`outputs: auto` needs the training data"), err,
                             "In the job of a run folder or model the number is filled in: use that one.");
    MU_TRY(find_axis(l, &axis, &out, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    s->d = (mu_inner_desc){.i = mu_shape_inner(in, axis), .o = s->outputs, .bias = s->bias_term,
                           .transposed = s->transpose, .need_dsrc = l->src[0]->needs_grad};
    s->per_sample = 1;
    for (int k = 1; k < axis; k++) s->per_sample *= in->d[k];
    s->d.n = in->d[0] * s->per_sample;
    s->reorder = mu_shape_is_reordered(in);
    if (s->reorder) {
        s->c = in->d[1];
        s->hw = in->d[2] * in->d[3];
    }
    mu_shape weight = s->transpose ? MU_SHAPE(s->d.i, s->d.o) : MU_SHAPE(s->d.o, s->d.i);
    MU_TRY(mu_layer_add_param(l, "weight", weight, s->d.i, s->d.o, "xavier", err));
    if (!l->shares_params) l->param[0]->max_batch = s->d.n;
    if (s->bias_term)
        MU_TRY(mu_layer_add_param(l, "bias", MU_SHAPE(s->d.o), s->d.i, s->d.o, "constant", err));
    return mu_layer_add_out(l, NULL, out, MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    struct inner_product *s = l->state;
    MU_TRY(mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_INNER, .inner = s->d}, err));
    s->op_keep = l->keep_bytes;
    s->op_scratch = l->scratch_bytes;
    if (s->reorder) {
        size_t flat = (size_t)(s->d.n * s->d.i) * sizeof(float);
        l->keep_bytes += flat;
        l->scratch_bytes += s->d.need_dsrc ? flat : 0;
    }
    return MU_OK;
}

static float *flat_src(const mu_layer *l) {
    const struct inner_product *s = l->state;
    return s->reorder ? (float *)(void *)((char *)l->keep + s->op_keep) : l->src[0]->value.f;
}

static mu_op_args args(const mu_layer *l, const mu_step *step) {
    const struct inner_product *s = l->state;
    mu_op_args a = mu_one_op_args(l, step);
    a.src = flat_src(l);
    a.rows = step->rows * s->per_sample;
    return a;
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct inner_product *s = l->state;
    if (s->reorder) mu_nhwc_to_nchw(flat_src(l), l->src[0]->value.f, s->d.n, s->c, s->hw);
    mu_op_args a = args(l, step);
    return mu_op_forward(l->op, &a, err);
}

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct inner_product *s = l->state;
    mu_op_args a = args(l, step);
    a.ddst = l->out[0].grad.f;
    float *dsrc = l->src[0]->grad.f;
    a.dsrc = dsrc && s->reorder ? (float *)(void *)((char *)l->scratch + s->op_scratch) : dsrc;
    MU_TRY(mu_grad_inner(l, step, l->op, l->param[0], l->n_param > 1 ? l->param[1] : NULL, &a, err));
    if (dsrc && s->reorder) mu_nchw_to_nhwc(dsrc, a.dsrc, s->d.n, s->c, s->hw);
    return MU_OK;
}

static void cost(const mu_layer *l, mu_cost *out) {
    const mu_inner_desc *d = &((const struct inner_product *)l->state)->d;
    out->flops_forward = 2.0 * (double)d->n * (double)d->i * (double)d->o;
    out->flops_backward = out->flops_forward * (l->src[0]->needs_grad ? 2 : 1);
    out->bytes = (double)sizeof(float) * (double)d->n * (double)(d->i + d->o);
}

const mu_layer_class mu_layer_inner_product = {
    .name = "inner_product",
    .help = "fully connected layer",
    .fields = fields,
    .state_size = sizeof(struct inner_product),
    .params = params,
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH | MU_CUT_FEATURE | MU_CUT_READS_ALL,
    .uncut = "with `transpose` the weights of an output are no row",
    .cut_rules = cut_rules,
    .take_part = take_part,
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .backward = backward,
    .cost = cost,
};

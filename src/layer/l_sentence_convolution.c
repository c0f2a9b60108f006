// SPDX-License-Identifier: Apache-2.0
// l_sentence_convolution.c - what filters find in a sentence: (n, t, d) -> (n, widths * filters).
//
// The middle of Kim's net (2014) and of the classifier in the GaDei paper: filters over windows of 3, 4 and 5
// words, relu, and of every filter its largest value over the sentence. The three steps are one layer,
// because then windows are never stored and backward touches just the winners (ops/o_text_gemm.c). Of a small
// batch not even those are multiplied out: the gradient is left gathered (layer/param.h).
//
// The weight is (sum of widths * filters, d): of each width, of each place in the window, one row for each
// filter, so that all widths are one matrix product. The output has the filters of the first width, then of
// the second, and so on; the bias likewise.
//
// Sentences are padded at the end with vectors of zeros. A window is never wider than the padded sentence;
// that is checked here, not silently repaired: a longer padding is a number in the reader's block.
#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/one_op.h"

#include <inttypes.h>

struct sentence {
    mu_ints widths;
    int64_t filters;
    bool bias_term;
    mu_text_desc d; // derived by infer
};

static const mu_field fields[] = {
    MU_FIELD(struct sentence, widths, MU_INTS, "[3, 4, 5]", "[1,64]",
             "words in a window, of each kind of filter"),
    MU_FIELD(struct sentence, filters, MU_INT, "100", "[1,1000000]", "filters of each width"),
    MU_FIELD(struct sentence, bias_term, MU_BOOL, "true", NULL, "add a learned constant to each filter"),
    {0},
};
static const char *const params[] = {"weight", "bias", NULL};

static mu_status check(const mu_layer *l, const struct sentence *s, mu_err *err) {
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (in->n != 3)
        return mu_err_hinted(
            mu_layer_fail(l, err,
                          "sentence_convolution needs word vectors (batch, words, values), `%s` gives %s",
                          mu_infer_src_name(l, 0), mu_shape_text(in, text)),
            err, "Its source is an `embedding` of a field of words.");
    if (s->widths.n < 1 || s->widths.n > MU_COUNT(s->d.width))
        return mu_layer_fail(l, err, "`widths` has %zu numbers, not 1 to %zu", s->widths.n,
                             MU_COUNT(s->d.width));
    for (size_t i = 0; i < s->widths.n; i++)
        if (s->widths.v[i] > in->d[1])
            return mu_err_hinted(
                mu_layer_fail(l, err, "a window of %" PRId64 " words does not fit into sentences of %" PRId64,
                              s->widths.v[i], in->d[1]),
                err, "Pad the sentences to more words in the data, or leave that width out.");
    return MU_OK;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct sentence *s = l->state;
    MU_TRY(mu_infer_float(l, 0, err));
    MU_TRY(check(l, s, err));
    const mu_shape *in = mu_layer_src_shape(l, 0);
    s->d = (mu_text_desc){.n = in->d[0], .t = in->d[1], .d = in->d[2], .o = s->filters, .bias = s->bias_term,
                          .need_dsrc = l->src[0]->needs_grad};
    for (size_t i = 0; i < s->widths.n; i++) {
        s->d.width[s->d.n_widths++] = s->widths.v[i];
        s->d.sum_widths += s->widths.v[i];
    }
    const int64_t n = s->d.n_widths, fan_in = (s->d.sum_widths * s->d.d + n - 1) / n; // of the mean filter
    const mu_shape weight = MU_SHAPE(s->d.sum_widths * s->filters, s->d.d);
    MU_TRY(mu_layer_add_param(l, "weight", weight, fan_in, s->filters, "xavier", err));
    mu_param *w = l->param[0];
    if (!l->shares_params) w->max_batch = s->d.n, w->max_x = s->d.t;
    if (s->bias_term)
        MU_TRY(mu_layer_add_param(l, "bias", MU_SHAPE(n * s->filters), fan_in, s->filters, "constant", err));
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->d.n, n * s->filters), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    struct sentence *s = l->state;
    return mu_layer_set_op(l, &(mu_op_desc){.prim = MU_PRIM_TEXT, .text = s->d}, err);
}

// A filter's gradient is the window it found best, times its output's: what is left is which words those are,
// for each row of the weight. The numbers go to the gradient block, which the dense form does not need now.
static void give_gathered(const mu_text_desc *d, mu_param *w, const mu_op_args *a) {
    const int64_t q = d->n_widths * d->o, rows = d->sum_widths * d->o;
    const int32_t *best = a->keep;
    float *dy = w->grad.dense;
    int32_t *src_row = (int32_t *)(void *)(w->grad.dense + d->n * rows);
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t i = 0, row = n * rows; i < d->n_widths; i++)
            for (int64_t j = 0; j < d->width[i]; j++)
                for (int64_t k = n * q + i * d->o; k < n * q + (i + 1) * d->o; k++, row++) {
                    dy[row] = a->ddst[k];
                    src_row[row] = best[k] < 0 || dy[row] == 0 ? -1 : (int32_t)(n * d->t + j) + best[k];
                }
    w->grad.form = MU_GRAD_GATHERED;
    w->grad.batch = d->n;
    w->grad.x = a->src;
    w->grad.n_x = d->n * d->t;
    w->grad.dy = dy;
    w->grad.src_row = src_row;
}

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    const mu_text_desc *d = &((const struct sentence *)l->state)->d;
    mu_param *weight = l->param[0], *bias = l->n_param > 1 ? l->param[1] : NULL;
    mu_op_args a = mu_one_op_args(l, step);
    mu_grad_receiver to;
    a.ddst = l->out[0].grad.f;
    a.dsrc = l->src[0]->grad.f;
    const bool sink = mu_grad_to_sink(step, weight, &to, &a);
    if (sink)
        MU_TRY(mu_grad_check_factors(l, step, a.src, d->n * d->t * d->d, a.ddst, d->n * d->n_widths * d->o,
                                     err));
    const bool gathered = !sink && mu_grad_factors_pay(weight);
    if (gathered) give_gathered(d, weight, &a);
    mu_grad_begin(sink || gathered ? NULL : weight, bias, &a);
    return mu_op_backward(l->op, &a, err);
}

static void cost(const mu_layer *l, mu_cost *out) {
    const mu_text_desc *d = &((const struct sentence *)l->state)->d;
    const double passed = 2.0 * (double)(d->n * d->o * d->sum_widths * d->d); // through one window each
    for (int i = 0; i < d->n_widths; i++)
        out->flops_forward += 2.0 * (double)(d->n * d->o * (d->t - d->width[i] + 1) * d->width[i] * d->d);
    out->flops_backward = passed * (l->src[0]->needs_grad ? 2 : 1);
    out->bytes = (double)sizeof(float) * (double)(d->n * (d->t * d->d + d->n_widths * d->o));
}

const mu_layer_class mu_layer_sentence_convolution = {
    .name = "sentence_convolution",
    .help = "filters over windows of words, the largest value of each over the sentence",
    .fields = fields,
    .state_size = sizeof(struct sentence),
    .params = params,
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .setup = setup,
    .forward = mu_one_op_forward,
    .backward = backward,
    .cost = cost,
};

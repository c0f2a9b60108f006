// SPDX-License-Identifier: Apache-2.0
// l_lstm.c - long short-term memory (formulas: ops/rnn.h; everything but `forget_bias`: recurrent.h).
//
// PyTorch has no such option: there, as here by default, a forget gate begins about half open. `forget_bias`
// is added to the initial values of the forget gate's part of bias_ih, whatever initialiser draws them, so
// the parameter holds it from then on and a model means the same in both programs.
#include "layer/recurrent.h"

static const mu_field fields[] = {
    MU_RECURRENT_FIELDS,
    MU_FIELD(mu_recurrent, forget_bias, MU_FLOAT, "0", NULL,
             "added to the initial bias_ih of the forget gate; 1 lets gradients pass from the start"),
    {0},
};

struct opened { // an initialiser of bias_ih (4*h) around another one
    mu_class_ref inner;
    float forget_bias;
};

static void fill(const void *state, mu_rng_key key, const mu_shape *shape, int64_t fan_in, int64_t fan_out,
                 float *out) {
    const struct opened *s = state;
    ((const mu_init_class *)s->inner.plugin)->fill(s->inner.state, key, shape, fan_in, fan_out, out);
    for (int64_t k = shape->d[0] / 4; k < shape->d[0] / 2; k++) out[k] += s->forget_bias;
}

static const mu_init_class opened_init = {
    .name = "forget_bias",
    .help = "another initialiser plus forget_bias",
    .state_size = sizeof(struct opened),
    .fill = fill,
};

static mu_status infer(mu_layer *l, mu_err *err) {
    const mu_recurrent *s = l->state;
    MU_TRY(mu_recurrent_infer(l, MU_CELL_LSTM, err));
    if (!s->forget_bias) return MU_OK;
    if (!s->bias_term) return mu_layer_fail(l, err, "`forget_bias` needs `bias_term: true`");
    mu_param *bias = l->param[2];
    if (bias->value || bias->init.plugin == &opened_init.plugin) return MU_OK; // a later net, or shared
    struct opened *own = mu_arena_alloc(l->arena, sizeof *own);
    if (!own) return MU_FAIL_NOMEM(err, "an initialiser");
    *own = (struct opened){bias->init, s->forget_bias};
    bias->init = (mu_class_ref){&opened_init.plugin, own};
    return MU_OK;
}

const mu_layer_class mu_layer_lstm = {
    .name = "lstm",
    .help = "long short-term memory, gates i, f, g, o as in PyTorch",
    .fields = fields,
    MU_RECURRENT_CLASS(infer),
};

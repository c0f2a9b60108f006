// SPDX-License-Identifier: Apache-2.0
// l_one_hot.c - integers as vectors with a 1 at that place: (n) -> (n, vocab), (n, t) -> (n, t, vocab).
//
// Recurrent layers and embeddings take the integers themselves, which is cheaper; this is for all others.
#include "layer/infer.h"
#include "layer/score.h"

#include <string.h>

struct one_hot {
    int64_t vocab;
    // derived
    int64_t per_sample, width;
};

static const mu_field fields[] = {
    MU_FIELD(struct one_hot, vocab, MU_INT, "0", "[0,2147483647]",
             "values of a vector, integers are below it; 0 takes what the data says"),
    {0},
};

static mu_status infer(mu_layer *l, mu_err *err) {
    struct one_hot *s = l->state;
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (l->src[0]->value.dtype != MU_I32 || in->n < 1 || in->n > 2)
        return mu_layer_fail(l, err, "one_hot needs integers (batch) or (batch, time), `%s` gives %s%s",
                             mu_infer_src_name(l, 0), l->src[0]->value.dtype == MU_I32 ? "" : "numbers ",
                             mu_shape_text(in, text));
    MU_TRY(mu_infer_vocab(l, 0, s->vocab, &s->width, err));
    s->per_sample = mu_shape_inner(in, 1);
    mu_shape out = *in;
    out.d[out.n++] = s->width;
    return mu_layer_add_out(l, NULL, out, MU_F32, err);
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    const struct one_hot *s = l->state;
    const int32_t *word = l->src[0]->value.i;
    float *y = l->out[0].value.f;
    memset(y, 0, mu_tensor_count(&l->out[0].value) * sizeof(float));
    for (int64_t k = 0; k < step->rows * s->per_sample; k++, y += s->width) {
        MU_TRY(mu_word_check(l, word[k], s->width, step->first_sample + k / s->per_sample, err));
        y[word[k]] = 1;
    }
    return MU_OK;
}

const mu_layer_class mu_layer_one_hot = {
    .name = "one_hot",
    .help = "integers as vectors of zeros with one 1",
    .fields = fields,
    .state_size = sizeof(struct one_hot),
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .forward = forward,
};

// SPDX-License-Identifier: Apache-2.0
// o_dropout_ref.c - dropout, one random word an element.
//
// Element e of sample g is dropped when word e of stream (key, g) is below ratio * 2^32. Sample numbers
// run on over the epochs, so masks never repeat, and they do not depend on how samples are batched or
// spread over learners, nor on how a
// layer is split: e counts the elements of the whole sample. `keep` holds one byte an element, 1 = kept.
#include "ops/op.h"

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    op->keep_bytes = (size_t)(op->desc.dropout.n * op->desc.dropout.per_sample);
    return MU_OK;
}

static uint64_t element(const mu_rng_part *p, uint64_t e) {
    return p->run ? e / p->run * p->stride + p->first + e % p->run : e;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_dropout_desc *d = &op->desc.dropout;
    uint8_t *kept = a->keep;
    double limit = (double)d->ratio * 0x1p32;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t e = 0; e < d->per_sample; e++) {
            uint32_t word[4];
            const uint64_t of_whole = element(&d->draws, (uint64_t)e);
            mu_rng_block(a->key, (uint64_t)(a->first_sample + n), of_whole / 4, word);
            int64_t i = n * d->per_sample + e;
            kept[i] = (double)word[of_whole % 4] >= limit;
            a->dst[i] = kept[i] ? a->src[i] * (1.0f / (1.0f - d->ratio)) : 0.0f;
        }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_dropout_desc *d = &op->desc.dropout;
    const uint8_t *kept = a->keep;
    for (int64_t i = 0; a->dsrc && i < d->n * d->per_sample; i++)
        a->dsrc[i] = kept[i] ? a->ddst[i] * (1.0f / (1.0f - d->ratio)) : 0.0f;
    return MU_OK;
}

const mu_op_class mu_op_dropout_ref = {
    .name = "dropout_ref", .help = "dropout, plain loops", .prim = MU_PRIM_DROPOUT, .rank = 0,
    .create = create, .forward = forward, .backward = backward,
};

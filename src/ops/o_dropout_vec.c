// SPDX-License-Identifier: Apache-2.0
// o_dropout_vec.c - dropout (rule of the mask: o_dropout_ref.c), random words made a block at a time.
#include "ops/op.h"
#include "ops/vec.h"

#define BLOCK 512       // words made at once; a multiple of 4 as mu_rng_fill_u32 asks

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    op->keep_bytes = (size_t)(op->desc.dropout.n * op->desc.dropout.per_sample);
    return MU_OK;
}

// The smallest word that is kept: kept means word >= ratio * 2^32, which words alone can decide.
static uint32_t limit_of(float ratio) {
    double limit = (double)ratio * 0x1p32; // exact; a whole number for any ratio worth the name
    uint32_t floor = limit >= 0x1p32 ? UINT32_MAX : (uint32_t)limit;
    return (double)floor < limit && floor < UINT32_MAX ? floor + 1 : floor;
}

// dst may be src: explicit vectors, because the compiler would have to give up on that.
static void scale_kept(const uint8_t *kept, float scale, int64_t n, const float *src, float *dst) {
    for (int64_t i = 0; i < n; i += MU_LANES) {
        mu_vmask dropped = mu_veci_eq(mu_veci_load_u8(kept + i, n - i), mu_veci_set(0));
        mu_vec v = mu_vec_load(src + i, n - i) * scale;
        mu_vec_store(dst + i, mu_vec_select(dropped, (mu_vec){0}, v), n - i);
    }
}

static void mask_block(const uint32_t *restrict word, uint32_t limit, float scale, int64_t n,
                       const float *src, float *dst, uint8_t *restrict kept) {
    for (int64_t i = 0; i < n; i++) kept[i] = word[i] >= limit;
    scale_kept(kept, scale, n, src, dst);
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_dropout_desc *d = &op->desc.dropout;
    uint32_t word[BLOCK], limit = limit_of(d->ratio);
    float scale = 1.0f / (1.0f - d->ratio);
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t e = 0; e < d->per_sample; e += BLOCK) {
            int64_t m = d->per_sample - e < BLOCK ? d->per_sample - e : BLOCK, i = n * d->per_sample + e;
            mu_rng_part_u32(a->key, (uint64_t)(a->first_sample + n), &d->draws, (uint64_t)e, word, (size_t)m);
            mask_block(word, limit, scale, m, a->src + i, a->dst + i, (uint8_t *)a->keep + i);
        }
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_dropout_desc *d = &op->desc.dropout;
    if (a->dsrc) scale_kept(a->keep, 1.0f / (1.0f - d->ratio), d->n * d->per_sample, a->ddst, a->dsrc);
    return MU_OK;
}

const mu_op_class mu_op_dropout_vec = {
    .name = "dropout_vec", .help = "dropout, vectorised", .prim = MU_PRIM_DROPOUT, .rank = 20,
    .create = create, .forward = forward, .backward = backward,
};

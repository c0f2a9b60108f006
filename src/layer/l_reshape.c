// SPDX-License-Identifier: Apache-2.0
// l_reshape.c - the same values under another shape, in logical order.
//
// `shape` includes the batch: 0 takes the source's size at that place, one -1 is what is left over.
// The batch itself cannot change: write 0 first.
#include "layer/infer.h"
#include "layer/reorder.h"

struct reshape {
    mu_ints shape;
};

static const mu_field fields[] = {
    MU_FIELD(struct reshape, shape, MU_INTS, NULL, "[-1,)",
             "new shape with the batch; 0 = as the source, -1 = the rest"),
    {0},
};

// False when the list makes no shape of `count` elements.
static bool resolve(const mu_ints *want, const mu_shape *in, mu_shape *out) {
    int64_t count = mu_shape_count(in), known = 1;
    int open = -1;
    if (want->n < 1 || want->n > MU_MAX_DIMS) return false;
    *out = (mu_shape){.n = (int)want->n};
    for (int i = 0; i < out->n; i++) {
        int64_t d = want->v[i];
        if (d == 0 && i < in->n) d = in->d[i];
        if (d == -1 && open < 0) open = i, d = 1;
        if (d < 1 || __builtin_mul_overflow(known, d, &known)) return false;
        out->d[i] = d;
    }
    if (open >= 0 && count % known == 0) out->d[open] = count / known;
    return mu_shape_count(out) == count;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct reshape *s = l->state;
    const mu_shape *in = mu_layer_src_shape(l, 0);
    mu_shape asked = {.n = s->shape.n < MU_MAX_DIMS ? (int)s->shape.n : MU_MAX_DIMS}, out;
    char t0[96], t1[96];
    for (int i = 0; i < asked.n; i++) asked.d[i] = s->shape.v[i];
    if (!resolve(&s->shape, in, &out) || in->n == 0 || out.d[0] != in->d[0])
        return mu_err_hinted(
            mu_layer_fail(l, err, "`%s` %s cannot take the shape %s", mu_infer_src_name(l, 0),
                          mu_shape_text(in, t0), mu_shape_text(&asked, t1)),
            err, "Write 0 for the batch, and -1 for at most one axis, which takes what is left over.");
    return mu_reorder_infer(l, out, err);
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    if (((const struct reshape *)l->state)->shape.v[0] != 0) rules->cuts = MU_CUT_NEVER;
}

const mu_layer_class mu_layer_reshape = {
    .name = "reshape",
    .help = "the same values under another shape",
    .fields = fields,
    .state_size = sizeof(struct reshape),
    .cuts = MU_CUT_BATCH,
    .uncut = "its features are made of several others, or `shape` begins with a number, not with 0",
    .cut_rules = cut_rules,
    .infer = infer,
    .forward = mu_reorder_forward,
    .backward = mu_reorder_backward,
};

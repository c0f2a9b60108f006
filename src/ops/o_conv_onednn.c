// SPDX-License-Identifier: Apache-2.0
// o_conv_onednn.c - convolution by oneDNN on channels-last activations.
//
// The weights stay plain (o, c, kh, kw) in the parameter block, because everything else (updaters,
// checkpoints, parameter servers) reads them so. They are packed into the library's layout before each
// forward and each data gradient, and the packed weight gradient is unpacked: the weights change in
// every step, so there is nothing to remember. The packed copies live in the scratch memory.
//
//     y[n,oh,ow,o] = b[o] + sum_{c,i,j} x[n, oh*s-p+i*d, ow*s-p+j*d, c] * w[o,c,i,j]
//
// Convolutions for which the library has only its reference loops are refused (accepts), and so fall to
// the next implementation.
#include "ops/dnnl.h"

#include <string.h>

#ifdef MU_HAVE_DNNL

typedef struct conv {
    mu_dnnl_exec forward, backward_data, backward_weight;
    mu_dnnl_exec pack_forward, pack_data, unpack;       // prim NULL: the layout is plain already
    size_t       weight_bytes;  // plain
    size_t       packed_bytes;  // room for the largest packed weights
    size_t       at_plain, at_bias, at_library;         // offsets into scratch; packed weights are at 0
} conv;

static size_t round_up(size_t n) { return (n + 63) & ~(size_t)63; }
static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static bool accepts(const mu_op_desc *d) {
    const mu_conv_desc *c = &d->conv;
    return mu_dnnl_conv_possible(c, MU_DNNL_FORWARD) && mu_dnnl_conv_possible(c, MU_DNNL_BACKWARD_WEIGHT)
           && (!c->need_dsrc || mu_dnnl_conv_possible(c, MU_DNNL_BACKWARD_DATA));
}

// One direction, and the copy between plain and packed weights that goes with it.
static mu_status create_direction(conv *v, const mu_conv_desc *c, mu_dnnl_dir dir, mu_dnnl_exec *e,
                                  mu_dnnl_exec *copy, const mu_dnnl_md *plain, mu_err *err) {
    mu_dnnl_md packed = {0};
    mu_status s = mu_dnnl_conv_make(e, c, dir, &packed, err);
    if (s == MU_OK && !mu_dnnl_md_equal(plain, &packed)) {
        bool out = dir == MU_DNNL_BACKWARD_WEIGHT;
        s = mu_dnnl_reorder_make(copy, out ? &packed : plain, out ? plain : &packed, err);
        v->packed_bytes = max_size(v->packed_bytes, mu_dnnl_md_bytes(&packed));
    }
    mu_dnnl_md_fini(&packed);
    return s;
}

static mu_status create(mu_op *op, mu_err *err) {
    conv *v = op->state;
    const mu_conv_desc *c = &op->desc.conv;
    mu_dnnl_md plain = {0};
    MU_TRY(mu_dnnl_conv_plain_weight(c, &plain, err));
    v->weight_bytes = mu_dnnl_md_bytes(&plain);
    mu_status s = create_direction(v, c, MU_DNNL_FORWARD, &v->forward, &v->pack_forward, &plain, err);
    if (s == MU_OK)
        s = create_direction(v, c, MU_DNNL_BACKWARD_WEIGHT, &v->backward_weight, &v->unpack, &plain, err);
    if (s == MU_OK && c->need_dsrc)
        s = create_direction(v, c, MU_DNNL_BACKWARD_DATA, &v->backward_data, &v->pack_data, &plain, err);
    mu_dnnl_md_fini(&plain);
    MU_TRY(s);
    size_t library = 0;
    for (const mu_dnnl_exec *e = &v->forward; e <= &v->unpack; e++)
        library = max_size(library, e->scratch_bytes);
    v->at_plain = round_up(v->packed_bytes);
    v->at_bias = v->at_plain + round_up(v->weight_bytes);
    v->at_library = v->at_bias + round_up((size_t)c->o * sizeof(float));
    op->scratch_bytes = v->at_library + round_up(library);
    return MU_OK;
}

static mu_status copy_weight(mu_dnnl_exec *copy, const void *from, void *to, void *library, mu_err *err) {
    return mu_dnnl_exec_run(copy, (const void *[]){from, to, library}, err);
}

static mu_status forward(mu_op *op, const mu_op_args *a, mu_err *err) {
    conv *v = op->state;
    char *scratch = a->scratch;
    void *library = scratch + v->at_library;
    const void *weight = a->weight;
    if (v->pack_forward.prim) {
        MU_TRY(copy_weight(&v->pack_forward, weight, scratch, library, err));
        weight = scratch;
    }
    if (op->desc.conv.bias)
        return mu_dnnl_exec_run(&v->forward, (const void *[]){a->src, weight, a->bias, a->dst, library}, err);
    return mu_dnnl_exec_run(&v->forward, (const void *[]){a->src, weight, a->dst, library}, err);
}

static void add_to(float *restrict sum, const float *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += x[i];
}

static mu_status backward_weight(mu_op *op, const mu_op_args *a, mu_err *err) {
    conv *v = op->state;
    bool bias = op->desc.conv.bias;
    char *scratch = a->scratch;
    void *library = scratch + v->at_library;
    // Gradients that the layer does not ask for, or that are to be added, go to scratch first.
    float *dweight = a->accumulate || !a->dweight ? (float *)(void *)(scratch + v->at_plain) : a->dweight;
    float *dbias = a->accumulate || !a->dbias ? (float *)(void *)(scratch + v->at_bias) : a->dbias;
    void *packed = v->unpack.prim ? (void *)scratch : (void *)dweight;
    if (bias)
        MU_TRY(mu_dnnl_exec_run(&v->backward_weight,
                                (const void *[]){a->src, a->ddst, packed, dbias, library}, err));
    else
        MU_TRY(
            mu_dnnl_exec_run(&v->backward_weight, (const void *[]){a->src, a->ddst, packed, library}, err));
    if (v->unpack.prim && a->dweight) MU_TRY(copy_weight(&v->unpack, packed, dweight, library, err));
    if (a->accumulate && a->dweight) add_to(a->dweight, dweight, v->weight_bytes / sizeof(float));
    if (a->accumulate && a->dbias && bias) add_to(a->dbias, dbias, (size_t)op->desc.conv.o);
    return MU_OK;
}

static mu_status backward(mu_op *op, const mu_op_args *a, mu_err *err) {
    conv *v = op->state;
    if (a->dweight || a->dbias) MU_TRY(backward_weight(op, a, err));
    if (!a->dsrc) return MU_OK;
    if (!v->backward_data.prim)
        return MU_FAIL(err, MU_EUNSUPPORTED, "this convolution was made without a gradient of its source");
    char *scratch = a->scratch;
    void *library = scratch + v->at_library;
    const void *weight = a->weight;
    if (v->pack_data.prim) {
        MU_TRY(copy_weight(&v->pack_data, weight, scratch, library, err));
        weight = scratch;
    }
    return mu_dnnl_exec_run(&v->backward_data, (const void *[]){a->ddst, weight, a->dsrc, library}, err);
}

static void destroy(mu_op *op) {
    conv *v = op->state;
    if (!v) return;
    for (mu_dnnl_exec *e = &v->forward; e <= &v->unpack; e++) mu_dnnl_exec_fini(e);
}

const mu_op_class mu_op_conv_onednn = {
    .name = "conv_onednn", .help = "oneDNN direct convolution, channels last", .state_size = sizeof(conv),
    .prim = MU_PRIM_CONV, .rank = 50, .accepts = accepts, .create = create, .forward = forward,
    .backward = backward, .destroy = destroy,
};

#else // without the library the class stays in the registry and accepts nothing

static bool accepts(const mu_op_desc *d) { (void)d; return false; }
static mu_status run(MU_UNUSED mu_op *op, MU_UNUSED const mu_op_args *a, mu_err *err) {
    return MU_FAIL(err, MU_EUNSUPPORTED, "this build has no oneDNN");
}

const mu_op_class mu_op_conv_onednn = {
    .name = "conv_onednn", .help = "oneDNN direct convolution (not in this build)", .prim = MU_PRIM_CONV,
    .rank = 50, .accepts = accepts, .forward = run, .backward = run,
};

#endif

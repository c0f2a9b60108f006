// SPDX-License-Identifier: Apache-2.0
// op.h - the mathematics, as replaceable implementations (o_<primitive>_<library>.c).
//
// A layer describes what it wants (mu_op_desc) and gets the first implementation that accepts it, in
// order of rank, with the plain C reference last. The choice is made once at set-up and logged. Each
// implementation is compiled for every level of instructions (base/level.h); that of the process is taken.
// MUSTER_OPS="ref" (or a list such as "onednn,vec,ref") in the environment restricts the choice by the
// last part of the name; the tests use it to compare every implementation with the reference.
//
// Activations are as tensor.h says: 4-D is N,H,W,C. Gradient rules, for every op:
//     dsrc =      overwritten (not touched when NULL)
//     dweight, dbias =, or += when args.accumulate
// An op owns no activation memory. What must survive from forward to backward goes to args.keep
// (keep_bytes), what is needed only during a call to args.scratch (scratch_bytes); both are 64-byte
// aligned and come from the net's plan. create() may allocate (library descriptors, packed weights);
// forward() and backward() never do.
#ifndef MU_OPS_OP_H
#define MU_OPS_OP_H

#include "base/err.h"
#include "base/plugin.h"
#include "base/rng.h"
#include "tensor/tensor.h"

typedef enum mu_prim {
    MU_PRIM_CONV, MU_PRIM_POOL, MU_PRIM_LRN, MU_PRIM_NORM, MU_PRIM_INNER, MU_PRIM_ACTIVATION,
    MU_PRIM_SOFTMAX, MU_PRIM_DROPOUT, MU_PRIM_RNN, MU_PRIM_TEXT,
} mu_prim;

typedef struct mu_conv_desc { // src (n,c,h,w) * weight (o, c/groups, kh, kw) + bias (o) -> dst (n,o,oh,ow)
    int64_t n, c, h, w, o, oh, ow;
    int64_t kh, kw, stride_h, stride_w, pad_h, pad_w;
    int64_t dil_h, dil_w;               // 1 = dense
    int64_t groups;
    bool    bias;
    bool    need_dsrc;
} mu_conv_desc;

typedef enum mu_pool_kind { MU_POOL_MAX, MU_POOL_AVG } mu_pool_kind;
typedef struct mu_pool_desc {           // windows may hang over the lower and right edge (ceil sizes)
    int64_t n, c, h, w, oh, ow;
    int64_t kh, kw, stride_h, stride_w, pad_h, pad_w;
    mu_pool_kind kind;
    bool count_pad; // average: divide by the window clipped to the padded image (Caffe) or to the image
} mu_pool_desc;

typedef struct mu_lrn_desc {            // y = x / (k + alpha/size * sum x^2)^beta
    int64_t n, c, h, w;
    int64_t size; // odd; across: channels. within: a size x size window, divided by size^2
    float   alpha, beta, k;
    bool within; // within channel (spatial window, zero padded) instead of across channels
} mu_lrn_desc;

typedef struct mu_norm_desc {           // batch normalisation over `rows` = n*h*w for each of c channels
    int64_t rows, c;
    float   eps, momentum;              // running = (1 - momentum) * running + momentum * batch
    bool    training, affine;
} mu_norm_desc;

typedef struct mu_inner_desc {          // dst (n,o) = src (n,i) * weight(o,i)^T + bias(o)
    int64_t n, i, o;
    bool    bias, need_dsrc;
    bool    transposed; // the weight lies as (i,o): dst = src * weight + bias; its rows go along i
} mu_inner_desc;

typedef enum mu_act_kind { MU_ACT_RELU, MU_ACT_SIGMOID, MU_ACT_TANH, MU_ACT_STANH } mu_act_kind;
typedef struct mu_act_desc {
    int64_t count;
    mu_act_kind kind;
    float   slope;                      // relu: slope of the negative side
} mu_act_desc;                          // backward uses dst only; src == dst and dsrc == ddst are allowed

typedef struct mu_softmax_desc {
    int64_t n, c;
} mu_softmax_desc; // over the c contiguous values of a row

typedef struct mu_dropout_desc { // dst = src * mask / (1 - ratio); mask from the counter-based generator
    int64_t n, per_sample;              // keyed by (key, sample number, element): independent of batching
    float   ratio;
    mu_rng_part draws;                  // which elements of a whole sample these are; run 0 = all
} mu_dropout_desc; // keep holds one byte per element; in place allowed

typedef enum mu_cell { MU_CELL_RNN, MU_CELL_GRU, MU_CELL_LSTM } mu_cell;
typedef struct mu_rnn_desc { // sequences (n,t,i) -> (n,t,h); weights, gates and biases as PyTorch has them
    mu_cell cell;                       // 1, 3 (r, z, n) or 4 (i, f, g, o) gates of h rows
    int64_t n, t, i, h;
    bool    one_hot;                    // src is (n,t) numbers below i instead of (n,t,i)
    bool    bias, need_dsrc;
} mu_rnn_desc;

typedef struct mu_text_desc { // words (n,t,d) -> (n, n_widths*o): convolve over time, relu, largest over time
    int64_t n, t, d, o;                 // o filters of each width
    int     n_widths;
    int64_t width[8], sum_widths;       // weight (sum_widths*o, d): o rows of each place of each width
    bool    bias, need_dsrc;            // keep: (n, n_widths*o) int32, the best window's first word; -1 = cut
} mu_text_desc;

typedef struct mu_op_desc {
    mu_prim prim;
    union {
        mu_conv_desc conv; mu_pool_desc pool; mu_lrn_desc lrn; mu_norm_desc norm; mu_inner_desc inner;
        mu_act_desc act; mu_softmax_desc softmax; mu_dropout_desc dropout; mu_rnn_desc rnn; mu_text_desc text;
    };
} mu_op_desc;

typedef struct mu_op_args {
    const float *src;
    float       *dst;                   // forward: output. backward: the value forward left there
    const float *ddst;
    float       *dsrc;                  // NULL = not wanted
    const float *weight, *bias;         // norm: scale and shift
    float       *dweight, *dbias;       // NULL = not wanted
    bool         accumulate;            // parameter gradients are added, not written
    float       *run_mean, *run_var;    // norm only
    const int32_t *words;               // rnn only: src of one_hot
    const float *weight_h, *bias_h;     // rnn only: of the step before, (gates*h, h) and (gates*h)
    float       *dweight_h, *dbias_h;
    const float *const *begin;          // rnn: (n) states (h; lstm h, c) to begin with; entry NULL = zero
    float      **end;                   // rnn, forward: (n) where the last state goes; NULL = nowhere
    const float *const *dend;           // rnn, backward: (n) gradients that reach the last states
    float      **dbegin;                // rnn, backward: (n) where those of the first states go
    void        *keep, *scratch;
    int64_t rows; // forward, evaluation: valid rows (0 = all); a hint, all rows may be computed.
                  // norm, both ways: just these of the n*h*w rows exist (0 = all); the others are not touched
    mu_rng_key   key;                   // dropout only
    int64_t      step, first_sample;    // dropout only
    // inner, text, backward: when set, the weight gradient is handed over in blocks of whole rows, after the
    // block's part of dsrc is computed from the old weights, instead of being written to dweight. The
    // receiver may update those rows of the weights at once: the block is still in the cache.
    void       (*rows_ready)(void *ctx, int64_t row0, int64_t n_rows, const float *grad);
    // (optional; an op may use rows_ready all the same) For a batch of one: row row0 + r of the gradient is
    // dy[r] * x. The receiver also makes these rows' part of dsrc: dx += dy[r] * row, before it changes the
    // row; NULL = no layer below takes it.
    void       (*outer_ready)(void *ctx, int64_t row0, int64_t n_rows, const float *dy, const float *x,
                              float *dx);
    void        *rows_ctx;
    bool skip_dweight; // inner, backward: the gradient stays in factors (src, ddst); dbias too
} mu_op_args;

typedef struct mu_op {
    const struct mu_op_class *class;
    mu_op_desc  desc;
    void       *state;                  // class->state_size zeroed bytes
    size_t      keep_bytes, scratch_bytes;      // set by create
} mu_op;

typedef struct mu_op_class {
    MU_PLUGIN_HEAD;                     // name "conv_onednn"; fields NULL
    mu_prim     prim;
    int         rank;                   // higher is asked first; the reference has 0
    bool      (*accepts)(const mu_op_desc *d);          // (optional, accepts all of its primitive)
    mu_status (*create)(mu_op *op, mu_err *err);        // (optional) sets keep_bytes, scratch_bytes, state
    mu_status (*forward)(mu_op *op, const mu_op_args *a, mu_err *err);
    mu_status (*backward)(mu_op *op, const mu_op_args *a, mu_err *err);
    void      (*destroy)(mu_op *op);                    // (optional) takes a half-created op
} mu_op_class;

extern const mu_registry mu_ops;        // names and help; what runs is
const mu_op_class *mu_op_at(size_t i);  // entry i at the level of this process

// Chooses and creates. `who` names the layer in the debug log.
mu_status mu_op_create(const mu_op_desc *d, const char *who, mu_op **out, mu_err *err);
mu_status mu_op_create_class(const mu_op_class *c, const mu_op_desc *d, mu_op **out,
                             mu_err *err);              // that one, for tests
void      mu_op_destroy(mu_op *op);                     // NULL is fine

static inline mu_status mu_op_forward(mu_op *op, const mu_op_args *a, mu_err *err) {
    return op->class->forward(op, a, err);
}
static inline mu_status mu_op_backward(mu_op *op, const mu_op_args *a, mu_err *err) {
    return op->class->backward(op, a, err);
}

// A normalisation as this call has it: over the rows that exist.
static inline mu_norm_desc mu_norm_valid(const mu_op *op, const mu_op_args *a) {
    mu_norm_desc d = op->desc.norm;
    if (a->rows) d.rows = a->rows;
    return d;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// param.h - parameters and the forms a gradient can have.
//
// All parameters of a job lie in one block (net/params.h) at 64-byte aligned offsets, their gradients
// in a second block at the same offsets, updater history in further ones. A layer that is cut by feature
// (cut.h) has a piece of each: some rows of the whole parameter, which lie in the middle of its place.
// A gradient takes the cheapest form; the updater applies all of them:
//     dense     n values in the gradient block
//     rows      some rows of a matrix (embeddings)
//     factors   dW[o][i] = sum over b of dy[b][o] * x[b][i], never multiplied out until applied
//     gathered  dW[o][i] = sum over b of dy[b][o] * x[src_row[b][o]][i]: each row takes a row of x of its own
//               (filters, their best window)
#ifndef MU_LAYER_PARAM_H
#define MU_LAYER_PARAM_H

#include "base/err.h"
#include "base/plugin.h"
#include "base/rng.h"
#include "tensor/tensor.h"

typedef enum mu_grad_form {
    MU_GRAD_NONE, MU_GRAD_DENSE, MU_GRAD_ROWS, MU_GRAD_FACTORS, MU_GRAD_GATHERED
} mu_grad_form;

typedef struct mu_grad {
    mu_grad_form   form;        // NONE: no layer produced one in this step
    float         *dense;       // (count) always set: the parameter's place in the gradient block
    int64_t        n_rows;      // rows: row[k] gets row_value[k][0..cols); ids may repeat (they add up)
    const int32_t *row;
    const float   *row_value;
    int64_t        batch;       // factors: x (batch, cols), dy (batch, rows), valid until the step ends
    const float   *x, *dy;
    int64_t        n_x;         // gathered: as factors, but x (n_x, cols)
    const int32_t *src_row;     // (batch, rows) outside of [0, n_x): none
} mu_grad;

#define MU_MAX_SLOTS 3                  // histories that a rule may keep of each parameter

enum { MU_MAX_NORM_COLS = 3072 };       // longest row that max_norm may shorten

typedef struct mu_param {
    const char  *name;          // global: "conv1.weight"
    mu_srcpos    pos;           // of its block or layer in the job file
    mu_shape     shape;         // logical, PyTorch's order
    int          index;         // in its set (net/params.h)
    const struct mu_param *whole;       // of a piece: this one's rows from row0 on; NULL = it is a whole
    int64_t      row0;
    size_t       offset, count; // place in each block, in floats
    mu_class_ref init;          // initialiser
    int64_t      fan_in, fan_out;
    float        lr_mult, decay_mult;
    bool         descends;      // by plain gradient descent, whatever rule the job has for the others
    bool         is_stat;       // running statistics: saved and loaded, never updated by gradients
    bool         is_state;      // a statistic that is a layer's memory (rowstate.h): not part of a model
    bool         may_restart;   // a state that a resumed run with other streams may begin anew (Gibbs chains)
    int          options;       // a statistic that is one of 0..options-1, found by trying them on validation
                                // data (train/choice.h); 0 = none
    int          n_users;       // layers that share it
    float       *value;         // into the parameter block
    mu_grad      grad;          // what the current step produced
    bool         allow_factors; // its layer may give factors, gathered rows or rows where they pay. Written
                                // by the session when it is made ready; messages (ps) follow it
    int64_t      max_rows;      // the most rows its layer gives in row form; 0 = never rows
    int64_t      max_batch;     // samples in the factors its layer gives; 0 = never factors
    int64_t      max_x;         // rows of x in a sample: the layer gives gathered ones; 0 = factors
    float        max_norm;      // every row is scaled to at most this length after its update; 0 = free
    // (optional) Its layer's last word on the initial values of a training net, after the initialiser.
    mu_status  (*start)(const struct mu_param *p, void *ctx, mu_err *err);
    void        *start_ctx;
} mu_param;

// Adds to a parameter's gradient follow one rule: the first producer of a step writes, later ones add.
static inline bool mu_param_accumulates(const mu_param *p) { return p->grad.form == MU_GRAD_DENSE; }

static inline int64_t mu_param_rows(const mu_param *p) { return p->shape.n ? p->shape.d[0] : 1; }

// Factors or gathered rows of a whole batch are much smaller than their product; rows are no more than the
// matrix has. Asked by the layer that makes them, of any number of samples, and by the layout of a message,
// which has room for one form only (ps/message.h).
static inline bool mu_param_factors_pay(const mu_param *p) {
    const double o = (double)mu_param_rows(p), i = (double)p->count / o, n = (double)p->max_batch;
    const double size = p->max_x ? n * ((double)p->max_x * i + 2 * o) : n * (i + o);
    return p->max_batch > 0 && p->n_users <= 1 && size < 0.5 * i * o;
}
static inline bool mu_param_rows_pay(const mu_param *p) {
    return p->max_rows > 0 && p->n_users <= 1 && p->max_rows <= mu_param_rows(p);
}

// Initialisers: i_<name>.c
typedef struct mu_init_args { // of the parameter to fill
    mu_rng_key key;
    const mu_shape *shape;
    int64_t fan_in, fan_out;
} mu_init_args;

typedef struct mu_init_class {
    MU_PLUGIN_HEAD;
    // Element i is a function of (a->key, i) only. (NULL with `load`)
    void (*fill)(const void *state, const mu_init_args *a, float *out);
    // (optional, instead of fill) Values from outside the job for parameter `name`. out NULL: only checks
    // that they are there and fit. That is part of checking a job; only training nets load.
    mu_status (*load)(const void *state, const char *name, const mu_shape *shape, float *out, mu_err *err);
} mu_init_class;

extern const mu_registry mu_inits;

#endif

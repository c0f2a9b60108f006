// SPDX-License-Identifier: Apache-2.0
// layer.h - station 3: the layer plug-in (l_<type>.c).
//
// Life of a layer, driven by net/net.c:
//   bind      the block of the job file is written into `state` by the field table
//   infer     shapes: reads src shapes, declares outputs, parameters, keep and scratch bytes. No data yet.
//   (plan)    the net knows who needs which buffer when. A net that is only checked ends here
//   setup     in the process that runs the net, before memory: creates ops; may raise keep and scratch bytes
//   (memory)  blob and parameter pointers are valid from here on
//   forward   fills out[].value from src[]->value
//   backward  fills src[]->grad (=) from out[].grad; parameter gradients by mu_param_accumulates
//   teardown  undoes setup; takes a half-built layer
//
// A blob with several consumers is split by the net (an inserted `split(x)` layer adds the gradients),
// so a layer is the only writer of each src[]->grad. src[]->grad.data is NULL when no layer below needs it.
// Phases: one net object per phase; layers excluded from a phase are not in that net.
#ifndef MU_LAYER_LAYER_H
#define MU_LAYER_LAYER_H

#include "job/job.h"
#include "layer/cut.h"
#include "layer/param.h"
#include "ops/op.h"

#define MU_MAX_OUT 16
#define MU_MAX_SRC 16
#define MU_MAX_PARAM 8
#define MU_MAX_METRIC 4

typedef struct mu_blob {                // one output of a layer
    const char      *name;              // "conv1", "data.label", "slice1.2"
    struct mu_layer *producer;
    mu_tensor        value;
    mu_tensor        grad;              // same shape; data NULL = no gradient flows here
    int64_t          n_classes;         // of label and word blobs from data, 0 = unknown
    const char *const *names;           // [n_classes] what they are called; NULL = by their numbers
    const char      *top_from;          // where the largest label stands in the data; NULL = not known
    int64_t          streams;           // of data: sample g continues sample g - streams; 0 = it does not
    // set by the net
    bool             needs_grad;
    int              n_uses;
    struct mu_blob  *same_as;           // shares memory (in place, reshape, split); NULL = own
} mu_blob;

typedef struct mu_metric {              // reported by loss and output layers in each forward
    const char *name;                   // "loss", "accuracy", "top5"
    double      sum, weight;            // the value is sum / weight; batches add up
    bool        is_loss;                // part of the training objective
} mu_metric;

typedef struct mu_step {                // what forward and backward know about the moment
    mu_phase phase;
    int64_t  step;                      // update number, from 0
    int64_t  first_sample;              // global number of row 0; < 0 in the warm-up of an evaluation
    int64_t  rows;                      // valid rows of this batch; losses and metrics count only these
    int64_t  global_rows;               // rows of the whole batch over all learners: losses divide by it
    bool     accumulate;                // add to the gradients of the batch before instead of starting anew
    // Takes blocks of rows of a finished weight gradient at once (fused update); NULL = gradients are left
    // in the params. Only asked for parameters for which `takes` answers true.
    const struct mu_grad_sink *sink;
    const struct mu_step_hooks *hooks;  // told about every layer; NULL = none
} mu_step;

typedef struct mu_step_hooks {          // entries may be NULL
    void  *ctx;
    void (*before_forward)(void *ctx, struct mu_layer *l);      // its weights are about to be read
    void (*after_backward)(void *ctx, struct mu_layer *l);      // its parameters' gradients are complete
} mu_step_hooks;

typedef struct mu_grad_sink {
    void  *ctx;
    bool (*takes)(void *ctx, const mu_param *p);
    void (*rows)(void *ctx, mu_param *p, int64_t row0, int64_t n_rows, const float *grad);
    // (optional) Of one sample, for parameters that it takes so; see mu_op_args.
    bool (*takes_outer)(void *ctx, const mu_param *p);
    void (*outer)(void *ctx, mu_param *p, int64_t row0, int64_t n_rows, const float *dy, const float *x,
                  float *dx);
} mu_grad_sink;

typedef struct mu_cost {
    double flops_forward, flops_backward, bytes;
} mu_cost; // per batch; bytes of activations moved forward

typedef struct mu_contrast {            // how the energy layers of a net learn when it is not by backward
    int64_t k;                          // steps of the Gibbs chains
    bool    persistent;                 // chains go on from batch to batch; else they begin at the data
    int64_t chains;                     // rows of the batch of all learners: as many persistent chains
} mu_contrast;

enum {                                  // mu_layer_class.flags
    MU_LAYER_LOSS     = 1,              // root of backward: starts the gradient
    MU_LAYER_OUTPUT   = 2,              // end of the line without gradient (accuracy, csv, ...)
    MU_LAYER_IN_PLACE = 4,              // out[0] may share memory with src[0], value and gradient
    MU_LAYER_ALIAS    = 8,              // out values are always the same memory as src[0] (reshape, split)
    MU_BACK_NEEDS_SRC = 16,             // backward reads src[]->value
    MU_BACK_NEEDS_DST = 32,             // backward reads out[].value
    MU_LAYER_LOOPS    = 64,             // recurrent: a loop over time steps is inside
    MU_LAYER_PENALTY  = 128,            // adds to the objective by itself: backward runs also where nothing
                                        // that leads to a loss takes its output (out[]->grad is NULL then)
    MU_LAYER_GAPS     = 256,            // copies may lack a source that stands before others (left_out)
    MU_LAYER_SAME_SHAPE = 512,          // out[0] is shaped as src[0]; so it is with MU_LAYER_IN_PLACE, too
    MU_LAYER_PROBABILITIES = 1024,      // out[0] is a probability of each class, made from its sources
};

typedef struct mu_layer {
    const struct mu_layer_class *class;
    void        *state;                 // class->state_size bytes, fields bound
    const char  *name;
    const char  *origin;                // its name in the job: "gru" of the copy "gru#3"; NULL = the same
    int          copy, n_copies;        // of an unrolled layer: which of how many time steps; else 0 of 0
    mu_cut       cut;                   // which part of the layer it is; zeros = all of it
    int          piece;                 // its number among the parts by feature
    unsigned     left_out;              // bit k: source k of the job is none of this copy's (net/unroll.h)
    mu_srcpos    pos;                   // of the block in the job file
    mu_phase     phase;                 // of the net it is in
    bool         shares_params;         // an earlier net has declared them: what it noted in them stands
    bool         restored;              // its values come from a checkpoint: no look at files of initial ones
    mu_arena    *arena;                 // the net's
    int          n_src, n_out, n_param, n_metric;
    mu_blob     *src[MU_MAX_SRC];
    mu_blob      out[MU_MAX_OUT];
    mu_param    *param[MU_MAX_PARAM];
    mu_metric    metric[MU_MAX_METRIC];
    mu_op       *op;                    // the usual case of one op; destroyed by the net
    size_t       keep_bytes, scratch_bytes;     // wanted by infer or setup
    void        *keep, *scratch;        // given by the plan
    mu_rng_key   key;                   // (seed, "layer/<name>"), of a part the name of the whole layer
    const mu_contrast *contrast;        // of this net; NULL: nothing in it learns by contrast
    bool         in_contrast;           // it does: an energy layer, not all of its parameters are frozen.
                                        // Known when infer has declared them
    // set and used by the net
    bool         in_backward;           // gradients pass through it
    bool         broken;                // infer failed: reported, consumers are not inferred
    int          at;                    // place in the net's list
    bool         inserted;              // not in the job: split(x), steps(x), stack(x), bridge(x>y), ...
    bool         leads, learns;         // ends of a bridge: what reads it at another worker leads to a loss;
                                        // what it brings comes from something that learns
    struct mu_layer *copy_before;       // the copy of the step before; NULL = none
    struct mu_net_builder *builder;     // only during infer
    // The net's part of declaring a parameter: adds what the job says of it, and l->param gets it.
    mu_status (*add_param)(struct mu_layer *l, mu_param *proto, const char *what, const char *init,
                           mu_err *err);
    const struct mu_node *node;         // its block; NULL for inserted layers
} mu_layer;

typedef struct mu_layer_class {
    MU_PLUGIN_HEAD;
    const char *const *params; // names the job may configure ("weight", "bias"), NULL-terminated; NULL = none
    int         n_src_min, n_src_max; // (optional, 1; n_src_min) read them by mu_layer_min_src, _max_src
    unsigned    flags;
    unsigned    cuts;           // how it may be cut among workers (cut.h); 0 = as the flags say
    const char *uncut;          // (optional) why not otherwise: "its mean is that of the whole batch"
    // (optional, they change nothing) What its settings and shapes change about `cuts`. After infer.
    void      (*cut_rules)(const mu_layer *l, mu_cut_rules *rules);
    // (optional, no setting counts features) Makes the settings those of a part, l->cut.feature.
    // Before infer.
    void      (*take_part)(mu_layer *l);
    mu_status (*infer)(mu_layer *l, mu_err *err);
    mu_status (*setup)(mu_layer *l, mu_err *err);                       // (optional)
    mu_status (*forward)(mu_layer *l, const mu_step *s, mu_err *err);
    mu_status (*backward)(mu_layer *l, const mu_step *s, mu_err *err);  // (optional, no gradient passes)
    // (optional, an energy model's) Leaves the gradients of contrastive divergence in its parameters: the
    // positive statistics of what forward computed, minus those after k steps of a Gibbs chain, which begins
    // at the data or goes on where it was (persistent).
    mu_status (*contrast)(mu_layer *l, const mu_step *s, int64_t k, bool persistent, mu_err *err);
    void (*cost)(const mu_layer *l, mu_cost *out); // (optional, 0 flops and in+out bytes) for mu_layer_cost
    void      (*teardown)(mu_layer *l);                                 // (optional)
} mu_layer_class;

extern const mu_registry mu_layers;

static inline int mu_layer_min_src(const mu_layer_class *c) { return c->n_src_min ? c->n_src_min : 1; }
static inline int mu_layer_max_src(const mu_layer_class *c) {
    return c->n_src_max ? c->n_src_max : mu_layer_min_src(c);
}

// ---- for who cuts it, after infer ----
mu_cut_rules mu_layer_cut_rules(const mu_layer *l);
// What a part of these rows and features reads of source k, and has of output k. The layer is a whole one.
mu_cut mu_layer_src_cut(const mu_layer *l, const mu_cut_rules *rules, const mu_cut *part, int k);
mu_cut mu_layer_out_cut(const mu_layer *l, const mu_cut *part, int k);
// The features that a cut is told in are those of the first output.
static inline int64_t mu_layer_features(const mu_layer *l) {
    return l->n_out ? mu_features(&l->out[0].value.shape) : 1;
}

// ---- for infer ----
static inline const mu_shape *mu_layer_src_shape(const mu_layer *l, int i) { return &l->src[i]->value.shape; }
// Declares output i (called for i = 0, 1, ...). suffix NULL: the blob is called like the layer.
mu_status mu_layer_add_out(mu_layer *l, const char *suffix, mu_shape shape, mu_dtype type, mu_err *err);
// Declares the next parameter; `what` is one of class->params. The job's block of that name (init, lr, decay,
// name) and the layer's `init:` shortcut (for "weight") apply; default_init is as the job would write it.
mu_status mu_layer_add_param(mu_layer *l, const char *what, mu_shape shape, int64_t fan_in, int64_t fan_out,
                             const char *default_init, mu_err *err);
mu_status mu_layer_add_stat(mu_layer *l, const char *what, mu_shape shape, const char *init,
                            mu_err *err); // running statistics
mu_status mu_layer_add_state(mu_layer *l, const char *what, mu_shape shape,
                             mu_err *err); // what is remembered between batches, see rowstate.h
// A choice among `options`, 0 at first: trainings try them all on validation data (train/choice.h). The layer
// reads it by mu_layer_choice.
mu_status mu_layer_add_choice(mu_layer *l, const char *what, int options, mu_err *err);
int mu_layer_choice(const mu_param *p);
mu_status mu_layer_fail(const mu_layer *l, mu_err *err, const char *fmt, ...)
    MU_PRINTF(3, 4); // MU_EJOB at the layer's place
mu_metric *mu_layer_add_metric(mu_layer *l, const char *name, bool is_loss);
// The op's needs become the layer's; sets l->op.
mu_status mu_layer_set_op(mu_layer *l, const mu_op_desc *d, mu_err *err);
// As messages call it: what is wrong with one copy or part is wrong with all, and said once.
static inline const char *mu_layer_job_name(const mu_layer *l) { return l->origin ? l->origin : l->name; }
static inline bool mu_layer_trains(const mu_layer *l) { return l->phase == MU_TRAIN; }
// Does it work after the forward pass? Contrast runs in the order of backward.
static inline bool mu_layer_runs_in_backward(const mu_layer *l) { return l->in_backward || l->in_contrast; }
// Of class->cost, or the default: it moves its sources and outputs once and computes nothing.
mu_cost mu_layer_cost(const mu_layer *l);

#endif

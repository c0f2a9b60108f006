// SPDX-License-Identifier: Apache-2.0
// net.h - stations 3 and 4: layers become a graph with shapes, parameters and memory.
//
//   mu_net_shape = bind the layer blocks > resolve src > insert split(x) > infer > plan memory
//   mu_net_ready = create ops > take memory > set pointers
//
// A net is shaped where the job is read (`check`, the parent of learners): no op is made and no memory of a
// device is taken. The process that runs it makes it ready on its device. So the parent of learners holds
// nothing of a device when it forks.
//
// One mu_net serves one phase and one batch size. Nets of other phases share the first one's
// parameters. Layers stand in file order, which is their order of execution: a source must be
// defined above its consumers.
#ifndef MU_NET_NET_H
#define MU_NET_NET_H

#include "read/reader.h"
#include "device/device.h"
#include "layer/layer.h"
#include "net/params.h"

typedef struct mu_net {
    mu_arena    arena;
    mu_phase    phase;
    int64_t     batch;                  // rows
    uint64_t    seed;
    mu_device  *device;                 // NULL = only shaped
    bool        ready;
    int         n_layers;
    mu_layer  **layer;                  // execution order; layer[0] is the input node `data`
    mu_params  *params;
    bool        owns_params;
    struct mu_net_plan *plan;           // lifetimes of all buffers (build.h)
    void       *activations;            // one block: values, gradients and kept state, overlaid by the plan
    size_t      activation_bytes, unplanned_bytes; // with and without reuse; what ops keep is added by ready
    void       *scratch;                // one block, shared by all layers in turn
    size_t      scratch_bytes;
    bool        backward;               // gradients are planned
} mu_net;

typedef struct mu_net_opts {
    const mu_node       *net;           // the `net:` list
    const mu_data_field *fields;        // what the data delivers
    int                  n_fields;
    mu_phase             phase;
    int64_t              batch;
    uint64_t             seed;
    mu_params           *share;         // parameters of an earlier net; NULL = this net defines them
    bool                 one_step;      // data is one time step (sampling): unrolled layers have one copy
    bool                 keep_all;      // no reuse of activation memory (tests, inspection)
    bool                 keep_factors;  // gradients in factor form must live to the end of the step
    const mu_contrast   *contrast;      // the algorithm trains energy layers; NULL = losses, backward
    bool                 restored;      // a checkpoint gives all values: files with initial ones may be gone
    // Set by mu_partition_net: this net is one worker's part of a whole one, which has layers, fields and
    // parameters; its own are pieces. NULL = it is a whole net.
    const struct mu_partition *partition;
    int                  worker;
} mu_net_opts;

// Problems in the job go to the binder's diags and give MU_EJOB; everything else goes to err.
mu_status mu_net_shape(mu_binder *b, const mu_net_opts *o, mu_net **out, mu_err *err);
// Does nothing when the net is ready. Parameters without values get their initial ones, on the same device. A
// net that could not be made ready stays unusable.
mu_status mu_net_ready(mu_net *net, mu_device *d, mu_err *err);
// Both on the processor, for who reads the job and runs the net in one place.
mu_status mu_net_create(mu_binder *b, const mu_net_opts *o, mu_net **out, mu_err *err);
void      mu_net_destroy(mu_net *net);

mu_layer *mu_net_find(const mu_net *net, const char *name);     // of an unrolled layer the last copy; or NULL
// The layer that stands for l in reports: the first copy for all copies of an unrolled layer and for what was
// inserted behind them; other layers stand for themselves.
const mu_layer *mu_net_family(const mu_layer *l);
// Is this output read by nothing but losses and output layers? Then it stays readable after the pass.
bool      mu_net_is_end(const mu_net *net, const mu_blob *b);
// Points the input node's blobs at a batch (no copy).
void      mu_net_set_input(mu_net *net, const mu_tensor *fields, int n_fields);
// Runs one layer: all passes of all callers go through here. It tells the step's hooks, and errors name the
// layer. A layer that is a part of a batch sees its own rows and first sample.
typedef enum mu_pass {
    MU_PASS_FORWARD,
    MU_PASS_BACK        // backward, or contrast where the layer learns so; nothing when it does neither
} mu_pass;
mu_status mu_net_pass(mu_layer *l, mu_pass pass, const mu_step *s, mu_err *err);
mu_status mu_net_forward(mu_net *net, const mu_step *s, mu_err *err);
mu_status mu_net_backward(mu_net *net, const mu_step *s,
                          mu_err *err); // starts gradients anew unless s->accumulate
void      mu_net_begin_grads(mu_net *net, const mu_step *s); // does just that, for other algorithms

// Keys of every layer block, for help and the reference.
extern const mu_field mu_layer_common_fields[], mu_param_fields[];
extern const mu_field mu_src_fields[];  // of a source that is a block (unroll.c)
extern const mu_field mu_grid_fields[]; // of `partition` that is a block (partition_keys.c)

#endif

// SPDX-License-Identifier: Apache-2.0
// params.h - all parameters of a job, one block per kind.
//
//   value   [ conv1.weight | conv1.bias | ... | bn1.running_mean ]     offsets are multiples of 16 floats
//   grad    the same layout
//   slot[k] the same layout, for the updater's history
// Names are global; layers that name the same parameter share it.
//
// Wholes and pieces. The set above holds wholes: names, checkpoints, initial values and evaluation know no
// other. A net that is one worker's part of a whole one (net/partition.h) has a set of pieces, which are
// views: `fc1.weight@1` is some rows of `fc1.weight`, at their place in the block of the wholes. So what
// applies a gradient applies it to whole or piece by the same offsets, and who splits nothing has no pieces.
// The gradient block alone is the set's own; it has the layout of the wholes, and only pieces are touched.
#ifndef MU_NET_PARAMS_H
#define MU_NET_PARAMS_H

#include "base/alloc.h"
#include "device/device.h"
#include "layer/cut.h"
#include "layer/param.h"

#define MU_PARAM_BLOCKS (2 + MU_MAX_SLOTS)      // value, gradient, histories

typedef struct mu_params {
    mu_arena    arena;          // names and the list
    const struct mu_params *wholes;     // this set holds pieces of that one; NULL = it holds wholes
    mu_device  *device;         // of the blocks; NULL = there are none yet
    int         n, cap;
    mu_param  **list;
    size_t      count;          // floats per block, padding included
    bool        complete;       // the net that defines the set is shaped: other nets take what is there
    float      *value, *grad;   // blocks; NULL before mu_params_alloc and mu_params_alloc_grads
    int         n_slots;
    float      *slot[MU_MAX_SLOTS];
    int         n_raw;          // blocks as the device gave them; the pointers above begin a little later
    void       *raw[MU_PARAM_BLOCKS];
    bool        late;           // values from files wait: a checkpoint is going to replace them all
} mu_params;

mu_status mu_params_create(mu_params **out, mu_err *err);
void      mu_params_destroy(mu_params *ps);
mu_param *mu_params_find(const mu_params *ps, const char *name);        // NULL if unknown
// Adds a parameter, or returns the one of that name if the shape is the same (sharing).
mu_status mu_params_add(mu_params *ps, const mu_param *proto, mu_param **out, mu_err *err);
// An empty set for pieces of `wholes`, which must outlive it.
mu_status mu_params_create_pieces(const mu_params *wholes, mu_params **out, mu_err *err);
// Adds a piece of the whole of proto's name, or returns the one that is there: as many of its rows as
// `feature` is of all features (layer/cut.h), all of them where it is not cut. `piece` is its number in its
// name.
// MU_EJOB when proto has not the shape of these rows.
mu_status mu_params_add_piece(mu_params *ps, const mu_param *proto, const mu_extent *feature, int piece,
                              mu_param **out, mu_err *err);
// Pieces take the values and histories of the wholes as they are now; again when those are rebased.
void      mu_params_follow(mu_params *ps);
// Takes a block of values and fills it by the initialisers; of a training without `late` also loads.
mu_status mu_params_alloc(mu_params *ps, mu_device *d, bool training, uint64_t seed, mu_err *err);
// A block of gradients, for the process that computes them. Does nothing when there is one.
mu_status mu_params_alloc_grads(mu_params *ps, mu_err *err);
// Initial values from files, and what layers have to say about initial values; once. For who finds that there
// is no checkpoint after all.
mu_status mu_params_load(mu_params *ps, mu_err *err);
// Are these the same initialiser with the same settings?
bool      mu_params_same_init(const mu_class_ref *a, const mu_class_ref *b);
mu_status mu_params_alloc_slots(mu_params *ps, int n_slots, mu_err *err);
// Values and history live elsewhere from now on (shared memory, a snapshot); nothing is copied or freed.
void      mu_params_rebase(mu_params *ps, float *value, float *const *slot);
int64_t   mu_params_n_trained(const mu_params *ps);     // elements, without padding and statistics

#endif

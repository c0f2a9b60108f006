// SPDX-License-Identifier: Apache-2.0
// partition_inner.h - the steps of mu_partition_create and what a worker's net is made with; private to net/.
#ifndef MU_NET_PARTITION_INNER_H
#define MU_NET_PARTITION_INNER_H

#include "net/build.h"
#include "net/partition.h"

typedef struct mu_cut_plan {            // of a layer of the whole net
    mu_grid      grid;                  // 0 x 0: a split of the net, which each worker's net makes anew
    int          location;              // of a whole layer
    mu_cut_rules rules;
    mu_part    **part;                  // [grid.batch * grid.feature]
} mu_cut_plan;

typedef struct mu_partitioner {
    mu_partition            *p;
    const mu_partition_opts *o;
    mu_binder               *b;
    mu_cut_plan             *plan;      // [whole->n_layers]
} mu_partitioner;

// Decides every grid and location; problems go to the diags.
mu_status mu_partition_decide(mu_partitioner *pr, mu_err *err);
// Makes the parts and what has to be between them, in the global order.
mu_status mu_partition_route(mu_partitioner *pr, mu_err *err);

// Behind the splits that the net has inserted.
const mu_blob *mu_true_source(const mu_blob *b);
static inline bool mu_is_net_split(const mu_layer *l) { return l->inserted && !l->node; }
// What the cut of `in` is in it that gives `rect`; both are of one blob.
mu_cut mu_rect_within(const mu_rect *rect, const mu_rect *in);
mu_shape mu_rect_shape(const mu_blob *b, const mu_rect *r);

// In place of the blocks of the job: the layers of nb->o->worker.
mu_status mu_partition_emit(mu_net_builder *nb, mu_err *err);
// After the worker's net is planned: gradients come back through exactly the bridges that were meant to.
mu_status mu_partition_check(const mu_net *net, mu_err *err);

typedef struct mu_seam {                // state of inserted layers
    const mu_part *part;
    mu_channel    *forward, *back;
} mu_seam;
const mu_layer_class *mu_seam_class(mu_part_kind kind);

#endif

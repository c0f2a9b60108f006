// SPDX-License-Identifier: Apache-2.0
// partition_inner.h - the steps of mu_partition_create and what a worker's net is made with; private to net/.
#ifndef MU_NET_PARTITION_INNER_H
#define MU_NET_PARTITION_INNER_H

#include "net/build.h"
#include "net/partition.h"

typedef struct mu_cut_plan {            // of a layer of the whole net
    mu_grid      grid;                  // 0 x 0: a split of the net, which each worker's net makes anew
    int          location;              // of a whole layer
    bool         open;                  // to be chosen (mu_partition_choose)
    mu_cut_rules rules;
    mu_part    **part;                  // [grid.batch * grid.feature]
} mu_cut_plan;

typedef struct mu_partitioner {
    mu_partition            *p;
    const mu_partition_opts *o;
    mu_binder               *b;
    mu_cut_plan             *plan;      // [whole->n_layers]
} mu_partitioner;

mu_status mu_partition_check_workers(int n, mu_err *err);
// Decides every grid and location; problems go to the diags.
mu_status mu_partition_decide(mu_partitioner *pr, mu_err *err);
// Makes the parts and what has to be between them, in the global order.
mu_status mu_partition_route(mu_partitioner *pr, mu_err *err);

// Fills in the grids of open layers. None of what is decided is wrong.
mu_status mu_partition_choose(mu_partitioner *pr, mu_err *err);

// ---- for who chooses ----
// Grids that use every worker, and that the layer may be cut into, by batch first; returns how many.
enum { MU_MOST_GRIDS = 8 };
int mu_plan_grids(const mu_layer *l, const mu_cut_rules *rules, int workers, mu_grid out[MU_MOST_GRIDS]);
// The layer whose cut an inserted layer of an unrolled net has, as far as it may; NULL = it is whole.
const mu_layer *mu_plan_like(const mu_net *net, const mu_layer *l);
void mu_plan_follow(const mu_layer *l, const mu_cut_plan *like, mu_cut_plan *out);
// Do both have the same rows of a parameter of so many that they share?
bool mu_plan_same_rows(const mu_layer *a, const mu_cut_plan *ca, const mu_layer *b, const mu_cut_plan *cb);
// Part i of a layer.
mu_cut mu_plan_cut(const mu_layer *l, const mu_cut_plan *c, int i);
static inline int mu_plan_parts(const mu_cut_plan *c) { return c->grid.batch * c->grid.feature; }
static inline int mu_plan_worker(const mu_cut_plan *c, int i) {
    return mu_plan_parts(c) > 1 ? i : c->location;
}

// What the users of a parameter move (traffic.c): begin, take all parts of layers that have it, end adds.
typedef struct mu_held {                // a piece at a worker
    int     n_users;                    // layers there that have it; 0 = it is not there
    int64_t rows, batch, whole_batch;   // rows of the parameter; the share of the batch
    bool    learns;
} mu_held;
typedef struct mu_users {
    const mu_param *whole;
    mu_held at[MU_MAX_PARTS][MU_MAX_PARTS];     // pieces x workers
} mu_users;
void mu_users_begin(mu_users *u, const mu_param *whole);
void mu_users_take(mu_users *u, const mu_layer *l, const mu_cut *cut, int worker, int piece);
void mu_users_end(const mu_users *u, const mu_traffic_opts *o, mu_traffic *out);

static inline mu_rect mu_rect_of(const mu_blob *b, const mu_cut *c) {
    const mu_shape *s = &b->value.shape;
    mu_rect r = {0, s->n ? s->d[0] : 1, 0, mu_features(s)};
    if (mu_is_cut(&c->batch)) r.row0 = c->batch.begin, r.row1 = c->batch.end;
    if (mu_is_cut(&c->feature)) r.feature0 = c->feature.begin, r.feature1 = c->feature.end;
    return r;
}
static inline bool mu_rect_meet(const mu_rect *a, const mu_rect *b, mu_rect *out) {
    *out = (mu_rect){a->row0 > b->row0 ? a->row0 : b->row0, a->row1 < b->row1 ? a->row1 : b->row1,
                     a->feature0 > b->feature0 ? a->feature0 : b->feature0,
                     a->feature1 < b->feature1 ? a->feature1 : b->feature1};
    return out->row0 < out->row1 && out->feature0 < out->feature1;
}

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

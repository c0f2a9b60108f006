// SPDX-License-Identifier: Apache-2.0
// traffic.h - what moves between processes when workers split a net, in bytes of a step, and what it costs.
//
// Definition. A value moves when a process uses what another one made, once for each process that uses it.
// A value has 4 bytes; heads and padding of messages are not counted. A step is one update to which each of
// L learners, of n workers each, gives one gradient. Of several server groups each has L learners and
// weights of its own, and makes an update: a step moves in each what it moves in one. What their merges move
// is not in here (ps/merge.h).
//
//   values      each bridge (partition.h) of each learner: its rectangle forward, and as much again back
//               where a gradient comes back. Data and slices stay at their worker.
//   gradients   Holders of a piece of a parameter are the workers that have it, of all learners. Each makes
//               one message. A holder applies them, slice by slice: of each slice its own share of the
//               messages is at hand, those of the others move.
//   weights     Every holder but that one then reads the slice that it wrote.
//
// So a piece with one holder moves nothing, and it makes no difference which holder applies which slice: all
// but one share of each value move. The shares of a message are as large as the slices, also of factors,
// though whoever applies a slice reads all of x. Where holders' messages differ in size, as their parts of
// the batch do, the first one's is taken as the one at hand. When a process of its own applies (`apart`),
// every message and every reading counts.
//
// A run counts the same (ps/moved.h). Its figures are these, to the byte, where updates are made in step and
// messages are as large as here: with the gradients of a step all in one update, parts of the batch that are
// equal, nobody lost, no server that only helps (`server: both`), and no rows and words, which are counted
// here as the most there may be.
//
// A message is what ps/message.c puts into a slot for the piece of a worker. Its values:
//     dense      rows * cols                    the usual case; statistics always, learning or not
//     factors    batch * (cols + rows)          mu_param_factors_pay, asked of the piece and of the part of
//     gathered   batch * (x * cols + 2 * rows)  the batch that this worker has
//     rows       most * (1 + cols)              mu_param_rows_pay; the most rows that its batch may name
//     none       0                              its layer takes part in neither backward nor contrast
// Two layers of a worker that share the piece give dense gradients. When all messages are rows, the weights
// read are the rows that they name, at most all. Frozen parameters (lr 0) are not written: their gradients
// move, their weights do not. A batch that is short, and words that are padding, move less than this.
//
// Cost. Bytes alone would put everything at worker 0, which moves nothing. So a layer is charged for what the
// other workers could have computed while its largest part is computed: its idle flops, n * (flops of the
// largest part) - (flops of all parts). Layers follow each other, so nobody gets that time back, also in nets
// of several paths. A core computes about 1e11 flops a second, and moves about 1e10 bytes a second to another
// one: so 10 flops not done cost as much as one byte moved. A layer may stand whole, then, if its work is
// small for what cutting it moves: 10 MFlop of idling against 1 MB.
#ifndef MU_NET_TRAFFIC_H
#define MU_NET_TRAFFIC_H

#include "layer/layer.h"

enum { MU_FLOPS_PER_BYTE = 10 };        // the balance of a machine, as above

typedef struct mu_traffic {
    int64_t values, gradients, weights; // bytes
} mu_traffic;

typedef struct mu_traffic_opts {
    int  learners;      // of a server group; 0 = 1
    int  groups;        // server groups; 0 = 1
    bool apart;         // who applies is no holder: a process of its own
    bool dense;         // gradients travel as dense ones, whatever would be cheaper
} mu_traffic_opts;

typedef struct mu_cut_load {                // of layers that are cut in some way
    mu_traffic moved;
    // Flops forward and backward: of the largest part; not done meanwhile, by a learner of each server group.
    double     largest, idle;
} mu_cut_load;

// What a choice among cuts goes by: prices of layers, blobs and parameters add up, and the least sum wins.
// Any unit that is the same for all; a planner that knows the machine gives nanoseconds.
typedef struct mu_pricing {
    int64_t (*price)(const void *ctx, const mu_cut_load *l);
    const void *ctx;
} mu_pricing;
int64_t mu_price_in_bytes(const void *ctx, const mu_cut_load *l);   // the cost above

static inline int64_t mu_traffic_sum(const mu_traffic *t) { return t->values + t->gradients + t->weights; }
static inline void mu_traffic_add(mu_traffic *to, const mu_traffic *t) {
    to->values += t->values;
    to->gradients += t->gradients;
    to->weights += t->weights;
}
static inline int mu_traffic_groups(const mu_traffic_opts *o) { return o->groups ? o->groups : 1; }
static inline int mu_traffic_learners(const mu_traffic_opts *o) { return o->learners ? o->learners : 1; }
void mu_cut_load_add(mu_cut_load *to, const mu_cut_load *l);

struct mu_partition;
mu_traffic mu_partition_traffic(const struct mu_partition *p, const mu_traffic_opts *o);

#endif

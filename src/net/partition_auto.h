// SPDX-License-Identifier: Apache-2.0
// partition_auto.h - the choice among the cuts of layers (`partition: auto`); private to net/ and its tests.
//
// What a partition costs is a sum of small terms: of a layer its idle flops, of a blob what its producer and
// its readers make travel, of a parameter what its users do (traffic.h). Terms that hang on the same layers
// are one **term** here. Layers are decided in the order of the net: of all ways to decide those so far, the
// ones that agree on every layer that a term to come still asks about (the **frontier**) differ in nothing
// but their cost, so the cheapest of them stays. In a chain the frontier is one layer, between two branches
// one of each. What is found is the optimum of all assignments (test_net_auto compares it with all of them)
// unless more than MU_MOST_WAYS would have to stay: then the dearest go, and `exact` says so.
//
// All copies of an unrolled layer are one choice, as they have one block. What the job decides is a choice of
// one option. Equally cheap: batch before feature before grids before whole. Whole layers stand at worker 0,
// or where the job has put another one.
#ifndef MU_NET_PARTITION_AUTO_H
#define MU_NET_PARTITION_AUTO_H

#include "net/partition_inner.h"

enum { MU_MOST_WAYS = 1 << 14 };
#define MU_PRICE_NEVER (INT64_MAX / 4)  // of what cannot be: users of one parameter that are cut unequally

typedef struct mu_option {
    mu_grid grid;
    int     location;
} mu_option;

typedef struct mu_choosing {            // of one layer of the job
    const mu_layer *layer;              // the first of its copies
    int        n;
    mu_option *option;                  // as ties are decided: the first one wins
    int        last;                    // number of the last choice that shares a term with it
} mu_choosing;

struct mu_term;
typedef struct mu_chooser {
    mu_arena     arena;
    const mu_partitioner *pr;
    int          n;
    mu_choosing *choice;
    uint8_t     *best;                  // [n] options; by mu_chooser_solve
    bool         exact;
    // private
    int         *of;                    // [whole->n_layers] its choice
    const mu_layer **like;              // [whole->n_layers] whose cut it follows; NULL = it has its own
    struct mu_term *term;               // a list
    mu_cut_plan *plan;                  // room for what a term asks about
    struct mu_seen *seen;
} mu_chooser;

mu_status mu_chooser_open(const mu_partitioner *pr, mu_chooser **out, mu_err *err);
void      mu_chooser_close(mu_chooser *c);
// The cheapest way, into c->best.
mu_status mu_chooser_solve(mu_chooser *c, mu_err *err);
// Of any way to decide all: its price, and what makes it. `only` >= 0: just the terms of that choice.
int64_t mu_chooser_price(mu_chooser *c, const uint8_t *option, int only);
// Of the terms that are known when this choice and those before it are made.
int64_t mu_chooser_price_ending(mu_chooser *c, int choice, const uint8_t *option);
static inline int64_t mu_price_sum(int64_t a, int64_t b) {
    return a >= MU_PRICE_NEVER || b >= MU_PRICE_NEVER ? MU_PRICE_NEVER : a + b;
}
mu_cut_load mu_chooser_load(mu_chooser *c, const uint8_t *option, int only, const mu_traffic_opts *o);

#endif

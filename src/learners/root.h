// SPDX-License-Identifier: Apache-2.0
// root.h - the one copy of the weights of a training whose ranks send their gradients to rank 0 (relay.h).
//
// The learners of all ranks are dealt to groups. What a group computes in one step of its own is one gradient
// here, and a group is a learner of the protocol core: so every protocol is what it is on one machine, with
// groups for learners. No I/O, no shared memory, no thread: the relay puts in what comes and calls
// mu_root_go_on.
//
//   put        a message of one learner, or floats of the group's sum (ps/wire_forms.h)
//   complete   that was all of this gradient
//   go on      complete gradients go into the core, updates are made, groups are granted their next gradient
//   leave      the group has used its samples
//
// Gradient k of a group lies in its place k % 2. It may come when it is granted, and k is granted when the
// core has a queue slot for it, so k - 2 is in the weights by then. Groups count their samples themselves
// (data/stripe.h); what the core leases only keeps its books.
#ifndef MU_LEARNERS_ROOT_H
#define MU_LEARNERS_ROOT_H

#include "data/stripe.h"
#include "learners/standing.h"
#include "ps/wire_forms.h"

typedef struct mu_root_place {          // of one gradient
    int64_t  step;                      // -1 = it is free
    int64_t  version;                   // of the weights that it was computed on
    int64_t  first, rows;               // samples, in the group's numbers
    int64_t  floats;                    // of the sum, that came
    bool     bad, complete;
    bool    *has;                       // (own) learners whose message came; owned
    float   *scale;                     // (own) owned
    char    *message;                   // (own) owned
    float   *sum;                       // owned; NULL = nothing is summed
} mu_root_place;

typedef struct mu_root_group {
    mu_root_place place[MU_CORE_SLOTS];
    mu_stripe stripe;
    uint32_t incarnation;               // in the core
    int64_t  granted;                   // gradients that may come
    int64_t  next;                      // the first that is not in the core
    int64_t  has;                       // weights that it is known to have
    int64_t  sent;                      // weights that were sent to it last
    int64_t  came, used;                // samples: of complete gradients; of those in the weights
    bool     left, gone;                // it will send no more; the core knows
} mu_root_group;

typedef mu_status (*mu_root_grant)(void *ctx, int group, const mu_grant *grant, mu_err *err);

typedef struct mu_root_opts {
    mu_training *training;              // stands where the run begins, with its weights and histories
    const mu_wire_shape *shape;
    const mu_wire_forms *forms;
    bool         hold;                  // no update before mu_root_copy_out
    mu_root_grant grant;                // is told of each grant; the weights are those of the root
    void        *ctx;
} mu_root_opts;

typedef struct mu_root {
    mu_root_opts o;
    mu_core     *core;                  // owned
    int          n, own;                // groups, learners of each
    mu_root_group *group;               // (n) owned
    mu_position  begin;                 // where the run began
    mu_params    params;                // a view of what follows
    float       *value, *slot[MU_MAX_SLOTS];    // owned
    mu_slice_list slices;               // owned
    mu_grad     *grads;                 // (n x places x own) of an update, for the slice in hand; owned
    const mu_grad **grad_at;            // by address; owned
    float       *weights;               // owned
    float       *share;                 // (core's parts) owned
    int         *order;                 // (core's parts) by group: sums do not depend on arrival; owned
    double       rate;                  // effective, of the last update
    int64_t      skipped, rejected;     // updates; gradients of learners
    int64_t      n_stale, stale_sum, stale_max, stale_hist[MU_WIRE_BINS];
    double       loss_sum, accuracy_sum;        // of all learners, ever
    int64_t      loss_n;
    mu_advance   told;                  // what mu_root_add has added
    int64_t      apply_ns;
} mu_root;

MU_MUST_CHECK mu_status mu_root_open(mu_root *r, const mu_root_opts *o, mu_err *err);
void mu_root_close(mu_root *r);         // also one that was not opened

// A message of learner id.learner, from the wire; or from a slot (p->slot) of this rank.
MU_MUST_CHECK mu_status mu_root_put(mu_root *r, const mu_wire_push *p, mu_err *err);
// Floats [begin, end) of a group's sum.
MU_MUST_CHECK mu_status mu_root_put_sum(mu_root *r, int group, int64_t step, int64_t begin, int64_t end,
                                        const void *floats, mu_err *err);
MU_MUST_CHECK mu_status mu_root_complete(mu_root *r, int group, int64_t step, mu_err *err);
void mu_root_leave(mu_root *r, int group);
MU_MUST_CHECK mu_status mu_root_go_on(mu_root *r, mu_err *err);
bool mu_root_is_left(const mu_root *r);         // by all groups

static inline int64_t mu_root_version(const mu_root *r) { return r->core->version; }
// Weights and histories as they are now, and where they stand. part: (groups)
void mu_root_copy_out(mu_root *r, float *value, float *const *slot);
void mu_root_parts(const mu_root *r, mu_standing_part *part);
void mu_root_add(mu_root *r, mu_advance *sum);  // losses since the last time
void mu_root_sum_up(const mu_root *r, mu_learners_result *out);

// So many gradients of each group, the first ones, are made in step. Of a training that begins at t->at.
int64_t mu_root_steps_in_step(const mu_training *t);

#endif

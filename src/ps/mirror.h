// SPDX-License-Identifier: Apache-2.0
// mirror.h - weights mirrored in every learner (p_mirror.c): the log of updates and how a mirror follows it.
//
// A push gets the next version and an entry in the log, under the lock: that is the one order for all. So
// many entries as an update takes (learners / n) are one update, counted from the run's beginning. Each
// learner follows the log update by update, parameter by parameter, just before a layer reads its weights. A
// queue slot is used again when every mirror has passed the update that came from it.
//
// A learner that dies may leave its mirror half written. Its successor is given a copy by a learner between
// two steps; if nobody is left who could, the torn mirror itself goes on and is the one the others copy.
#ifndef MU_PS_MIRROR_H
#define MU_PS_MIRROR_H

#include "ps/shared.h"

enum { MU_MIRROR_SLOTS = 8 };           // queue slots of a learner, and the most gradients of an update

typedef struct mu_mirror_update {       // one entry of the log, at version modulo its length
    int32_t learner, slot;
    int32_t bad;                        // not finite: changes nothing
    float   weight;
    double  rate;
    int64_t rule_step;                  // a mu_moment
} mu_mirror_update;

typedef struct mu_mirror {              // one learner's
    mu_shared *shared;
    int       learner;
    mu_params view;                     // the parameter set with value and slot[] of this mirror
    int64_t  *at;                       // (params) version each parameter has reached; owned
    int64_t   target;                   // version the gradient in hand is computed on
    int       n_more;                   // gradients still to be begun on that
    int64_t   slot_version[MU_MIRROR_SLOTS];    // update that came from each of its slots
} mu_mirror;

int mu_mirror_log_length(int learners);

// Waits for a copy of the weights if the predecessor left a torn mirror; bounded by the hang time-out.
MU_MUST_CHECK mu_status mu_mirror_init(mu_mirror *m, mu_shared *g, int learner, mu_err *err);
int64_t mu_mirror_updates(const mu_shared_head *h, int64_t version);     // whole ones when the clock says so
// Between two steps: gives a copy to a learner that waits for one. False: the next slot is still read by
// others.
bool mu_mirror_may_begin(mu_mirror *m, int64_t next_gradient);
// One of `every` gradients (p_mirror.c) is of the newest version, those behind it of the same; fewer when the
// others are far ahead.
void mu_mirror_begin(mu_mirror *m);
void mu_mirror_follow(mu_mirror *m, int param); // brings one parameter there
void mu_mirror_follow_all(mu_mirror *m);        // and all that are left; the mirror is whole again
// Under the lock, after the core accepted the push: the log's entry for core->version.
void mu_mirror_publish(mu_mirror *m, const mu_core *core, const mu_mirror_update *u);
void mu_mirror_end(mu_mirror *m);               // nobody needs to wait for this learner any more

// By the parent. After a learner's death; and, while nobody is between two steps, the newest weights and
// history.
void mu_mirror_lost(mu_shared *g, int learner);
void mu_mirror_gather(mu_shared *g, float *value, float *const *slot);

#endif

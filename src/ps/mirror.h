// SPDX-License-Identifier: Apache-2.0
// mirror.h - weights mirrored in every learner (p_mirror.c): the exchange, with a log of updates that each
// mirror follows.
//
// A push gets the next version and an entry in the log, under the lock: that is the one order for all. So
// many entries as an update takes (learners / n) are one update, counted from the run's beginning. Each
// learner follows the log update by update, parameter by parameter, just before a layer reads its weights. A
// queue slot is used again when every mirror has passed the update that came from it.
//
// A learner that dies may leave its mirror half written. Its successor is given a copy by a learner between
// two steps; if no learner is left that could, the torn mirror itself goes on and is the one the others copy.
#ifndef MU_PS_MIRROR_H
#define MU_PS_MIRROR_H

#include "ps/exchange.h"

enum { MU_MIRROR_SLOTS = 8 };           // queue slots of a learner, and the most gradients of an update

typedef struct mu_mirror {              // one learner's
    mu_shared *shared;
    int       learner;
    mu_params view;                     // the parameter set with value and slot[] of this mirror
    int64_t  *at;                       // (params) version each parameter has reached; owned
    int64_t   target;                   // version the gradient in hand is computed on
    int       n_more;                   // gradients still to be begun on that
    int64_t   slot_version[MU_MIRROR_SLOTS];    // update that came from each of its slots
} mu_mirror;

extern const mu_exchange mu_mirror_exchange;

#endif

// SPDX-License-Identifier: Apache-2.0
// relay_inner.h - what the two files of a relay share: relay.c has the steps of groups, relay_wire.c what
// comes from and goes to other ranks, and the weights.
#ifndef MU_LEARNERS_RELAY_INNER_H
#define MU_LEARNERS_RELAY_INNER_H

#include "learners/relay.h"

// Floats of the frame that begins `at` floats behind the first. The lowest layers are to be on their way
// early: their frames are as small as go to a host by TCP without asking that host first. Later ones are
// larger, so that the frames of a large net are not many.
static inline int64_t relay_chunk(int64_t at) {
    const int64_t least = 15 << 10, most = 1 << 18;
    return at / 4 < least ? least : at / 4 > most ? most : at / 4;
}

// A frame came (mu_nodes_taker).
mu_status relay_take(void *relay, int peer, const mu_wire *w, bool *later, mu_err *err);
// The root grants and deals.
mu_status relay_granted(void *relay, int group, const mu_grant *grant, mu_err *err);
mu_status relay_dealt(void *relay, int group, const mu_lease *lease, mu_err *err);
// Tells groups of other ranks what was granted, and ranks below of newer weights.
MU_MUST_CHECK mu_status relay_tell(mu_relay *r, mu_err *err);
// Does this step begin with the weights that come with its grant? Else with the newest that the rank has by
// then: of the version that relay_newest tells, or a later one.
bool relay_waits(const mu_relay *r, int64_t step);
int64_t relay_newest(const mu_relay *r, const mu_relay_group *g);
// The weights for the group's next step, if they are there. True: its learners have them.
bool relay_give(mu_relay *r, mu_relay_group *g);
MU_MUST_CHECK mu_status relay_tree_open(mu_relay *r, mu_err *err);

#endif

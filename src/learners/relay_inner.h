// SPDX-License-Identifier: Apache-2.0
// relay_inner.h - what the two files of a relay share: relay.c has the steps of groups, relay_wire.c what
// comes from and goes to other ranks, and the weights.
#ifndef MU_LEARNERS_RELAY_INNER_H
#define MU_LEARNERS_RELAY_INNER_H

#include "learners/relay.h"

enum { RELAY_CHUNK = 1 << 16 };         // floats of a frame: small enough that layers are on their way early

// A frame came (mu_nodes_taker).
mu_status relay_take(void *relay, int peer, const mu_wire *w, bool *later, mu_err *err);
// The root grants and deals.
mu_status relay_granted(void *relay, int group, const mu_grant *grant, mu_err *err);
mu_status relay_dealt(void *relay, int group, const mu_lease *lease, mu_err *err);
// Tells groups of other ranks what was granted, and ranks below of newer weights.
MU_MUST_CHECK mu_status relay_tell(mu_relay *r, mu_err *err);
// The weights for the group's next step, if they are there. True: its learners have them.
bool relay_give(mu_relay *r, mu_relay_group *g);
MU_MUST_CHECK mu_status relay_tree_open(mu_relay *r, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// beginning.h - rank 0 gives all other ranks what a training begins with.
//
// It alone reads checkpoints and files of initial values. The others need no folder of it: where the training
// stands, its weights and histories, and the center of server groups come over the transport.
#ifndef MU_LEARNERS_BEGINNING_H
#define MU_LEARNERS_BEGINNING_H

#include "learners/nodes.h"
#include "train/training.h"

// After mu_nodes_meet. Rank 0: session, t->at and t->finished are as the training begins. Others: they become
// so.
MU_MUST_CHECK mu_status mu_beginning_share(mu_nodes *n, mu_training *t, mu_err *err);

// Floats of a block as frames, of all blocks of a session and of those that are given: value, histories.
MU_MUST_CHECK mu_status mu_beginning_send_block(mu_nodes *n, int peer, int block, int64_t number,
                                                const float *floats, mu_err *err);

#endif

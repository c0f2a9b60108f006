// SPDX-License-Identifier: Apache-2.0
// replay.h - a recorded run again, bit for bit, in one process.
//
// Every gradient of a recorded run is a function of the weights of one version, of its samples and of its
// number. So the replay walks through the updates in order and, whenever it has made a version, computes all
// gradients that the run computed on it; each waits in a buffer until the update that takes it. At no time is
// more than one version of the weights needed. Gradients that never came into an update (their learner died,
// or they were too stale) are not in the log and are not computed.
//
// What the log says of each gradient (its loss) and of the end (the sum of all weights) is compared on the
// way, so a replay that ends well was exact.
#ifndef MU_LEARNERS_REPLAY_H
#define MU_LEARNERS_REPLAY_H

#include "train/training.h"

typedef struct mu_replay mu_replay;

// Loads t->o->replay and makes everything ready. MU_EUSAGE when the session is not that of the log.
MU_MUST_CHECK mu_status mu_replay_open(mu_training *t, mu_replay **out, mu_err *err);
// The next update; t->w and the sums for the next log line follow. *ended: there was none left, t->w is as at
// the end of the recorded run. MU_EBACKEND names the first gradient that came out otherwise than recorded.
MU_MUST_CHECK mu_status mu_replay_step(mu_replay *r, bool *ended, mu_err *err);
void mu_replay_close(mu_replay *r);     // fills t->out->shared; NULL is fine

#endif

// SPDX-License-Identifier: Apache-2.0
// cluster.h - a training by several learners on this machine: the parent's part.
//
// The parent computes nothing. It makes the shared memory, starts the children, watches them, takes snapshots
// for the judge, writes the reports, and at the end takes the weights back into the session. The driver goes
// on from there as after a training by one learner.
#ifndef MU_LEARNERS_LEARNERS_H
#define MU_LEARNERS_LEARNERS_H

#include "train/training.h"

// Does this session train by a group of processes?
bool mu_learners_wanted(const mu_session *s);
// Can this training be recorded? If not, the error says why. If so, the session's setup is changed to what a
// log needs: every gradient is computed on a copy of the weights of one version, taken under the lock.
MU_MUST_CHECK mu_status mu_learners_prepare_record(mu_session *s, const mu_run_opts *o, mu_err *err);
// From where t->w stands to the end. t->why is set; t->w, the parameters and their history are as after the
// last update. MU_EDIVERGED as a learner reported it.
MU_MUST_CHECK mu_status mu_learners_run(mu_training *t, mu_err *err);

#endif

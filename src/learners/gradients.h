// SPDX-License-Identifier: Apache-2.0
// gradients.h - the registry of gradient sources (train/gradients.h) and the choice among them.
#ifndef MU_LEARNERS_GRADIENTS_H
#define MU_LEARNERS_GRADIENTS_H

#include "train/gradients.h"

extern const mu_registry mu_gradient_sources;

// The source that `train.gradients` names, or with `auto` the highest in rank that wants this training; it is
// prepared. MU_EJOB or MU_EUSAGE: it cannot train this.
MU_MUST_CHECK mu_status mu_gradients_choose(mu_session *s, const mu_run_opts *o,
                                            const mu_gradient_source **out, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// loop.h - the training loop: the same for every source of gradients.
#ifndef MU_RUN_LOOP_H
#define MU_RUN_LOOP_H

#include "train/gradients.h"

// From where t->at stands to the end of the training: advances the source and does what becomes due.
MU_MUST_CHECK mu_status mu_loop_run(mu_training *t, const mu_gradient_source *source, mu_err *err);
// A checkpoint of the session's parameters at t->at.
MU_MUST_CHECK mu_status mu_loop_save(mu_training *t, mu_err *err);
// One of the best weights, where they are held (train/kept.h). No source of gradients runs.
MU_MUST_CHECK mu_status mu_loop_save_kept(mu_training *t, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// names.h - do the numbers of words, characters and classes mean the same in every phase of a job?
#ifndef MU_TRAIN_NAMES_H
#define MU_TRAIN_NAMES_H

#include "train/session.h"

// Compares the data of phase p, which is open, with the training data, or by_model with what the model knows
// of that. What differs goes to the job's diags.
MU_MUST_CHECK mu_status mu_session_check_names(mu_session *s, mu_phase p, bool by_model, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// kept.h - the best weights so far, held in memory until they are saved.
//
// A small training may be better than before several times a second, and a checkpoint each time would cost
// more than the training. So where the job does not say when to save (`checkpoint.every: auto`) the best
// weights, their history and where they stand are copied here, and saved before the next checkpoint, at the
// end, or when the training fails. No checkpoint that is newer than they are is ever on disk without them:
// what it says of the best evaluation is always true of the checkpoint that BEST names.
#ifndef MU_TRAIN_KEPT_H
#define MU_TRAIN_KEPT_H

#include "train/state.h"

typedef struct mu_kept {                // zeroed = empty
    bool              full;             // what follows is not saved yet
    mu_position       at;
    mu_finished       finished;
    mu_progress_state progress;         // as it is to be saved with them
    size_t            count;            // floats of a block
    int               n_slots;
    float            *value, *slot[MU_MAX_SLOTS];       // owned; taken at the first use
} mu_kept;

// Copies the weights and history at `value` and `slot`, blocks as those of ps. The caller fills the rest.
// MU_ENOMEM: k is empty, whatever it held before.
MU_MUST_CHECK mu_status mu_kept_take(mu_kept *k, const mu_params *ps, const float *value, float *const *slot,
                                     mu_err *err);
void mu_kept_copy_out(const mu_kept *k, float *value, float *const *slot);
void mu_kept_fini(mu_kept *k);

#endif

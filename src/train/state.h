// SPDX-License-Identifier: Apache-2.0
// state.h - the parameter set and the cursor of a training, to and from checkpoints and model files.
#ifndef MU_TRAIN_STATE_H
#define MU_TRAIN_STATE_H

#include "train/model.h"
#include "train/choice.h"
#include "train/position.h"

typedef struct mu_progress_state {      // what a training remembers besides arrays
    double best; // best evaluation so far, larger is better: a loss is negated; NaN = none
    bool    best_is_loss;
    int64_t best_step;
    int64_t stale;                      // evaluations since the best
    int64_t evaluated_step;               // of the last evaluation; -1 = none yet
    int64_t skipped, rollbacks;         // steps not applied, returns to a checkpoint
    double  trained_s;                  // seconds of training, over all resumes
    mu_choices choices;                 // made last; they lie in checkpoints as parameters
} mu_progress_state;

// Saves position, finished samples (as many as at->samples), parameters and updater history. `saved` gets the
// folder name.
mu_status mu_state_save(const char *dir, const mu_session *s, const mu_position *at,
                        const mu_finished *finished, const mu_progress_state *ps, const mu_ckpt_opts *o,
                        char saved[MU_CKPT_NAME], mu_err *err);
// Restores a training exactly. The job may have changed its length or data; another net is MU_EMODEL, a
// parameter or history array that is missing is named. Samples that were finished beyond the cursor are not
// used again, except where records continue each other: there at->repeated counts them.
mu_status mu_state_restore(const char *path, mu_ckpt_which which, mu_session *s, mu_position *at,
                           mu_finished *finished, mu_progress_state *ps, mu_err *err);
// The source of training data goes on there.
mu_status mu_state_seek(mu_session *s, const mu_position *at, const mu_finished *finished, mu_err *err);

// Parameters only. From a .safetensors file, a step folder, a checkpoints folder or a run folder.
// `all`: every parameter must be there; otherwise what matches by name is taken and *n_taken counts.
mu_status mu_state_load_params(const char *path, mu_ckpt_which which, mu_params *params, bool all,
                               int *n_taken, mu_err *err);
// The files named by `train.init_from`, one after the other, what matches by name.
mu_status mu_state_load_initial(const mu_job *job, mu_params *params, mu_err *err);
// The model only, with the texts of model.h. `scores` may be empty.
mu_status mu_state_export(const char *dir, const char *file, const mu_session *s,
                          const mu_model_score *scores, size_t n_scores, mu_err *err);

#endif

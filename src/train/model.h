// SPDX-License-Identifier: Apache-2.0
// model.h - a saved model stands alone: parameters, and beside them all that is needed to use them.
//
// The metadata of every model.safetensors that Muster writes, in checkpoints and as the result of a run:
//
//   "muster.job"      the resolved job, as YAML
//   "muster.inputs"   what the training data gave: vocabulary, class names, mean (data/inputs.h)
//   "muster.scores"   a JSON object: step, epoch, and the scores it reached
//
// So test, predict, extract and sample need no training file, and one file can be handed to somebody else.
// Other programs see arrays in PyTorch's names and layouts and some texts. Models without these texts, of an
// older version or another program, are still read: then the job says everything, as it does in training.
#ifndef MU_TRAIN_MODEL_H
#define MU_TRAIN_MODEL_H

#include "store/checkpoint.h"
#include "train/session.h"

#define MU_MODEL_ABOUT 4                // texts of a model at most

typedef struct mu_model_about {         // texts to be saved with the parameters
    mu_st_meta row[MU_MODEL_ABOUT];
    size_t     n;
    char      *owned[MU_MODEL_ABOUT];
} mu_model_about;

typedef struct mu_model_score { const char *name; double value; } mu_model_score;

// The texts of what is trained in session s. Not a failure of training: where a text cannot be made, it is
// left out with a warning. MU_ENOMEM.
MU_MUST_CHECK mu_status mu_model_describe(const mu_session *s, const mu_model_score *scores, size_t n_scores,
                                          mu_model_about *out, mu_err *err);
void mu_model_about_fini(mu_model_about *a);

typedef struct mu_model {               // zeroed = closed
    mu_st_file       *file;             // opened by itself, or
    mu_ckpt_loaded   *checkpoint;       // as part of one
    const mu_st_file *arrays;           // of either
    const char       *path;             // of either
    mu_inputs        *inputs;           // NULL = it does not tell
} mu_model;

// `path`: a .safetensors file, a step folder, a checkpoints folder or a run folder. Everything is verified.
MU_MUST_CHECK mu_status mu_model_open(mu_model *m, const char *path, mu_ckpt_which which, mu_err *err);
void mu_model_close(mu_model *m);

bool mu_model_is_file(const char *path);        // does the name say that it is a model file?

// The job that `word` means: a job file, a run folder, or a model file, whose own job it is (m is open then);
// relative paths in that one begin in the current folder.
// As mu_job_load: *job may be set also on failure.
mu_status mu_model_load_job(const mu_model *m, const char *word, const char *const *sets, size_t n_sets,
                            mu_job **job, mu_err *err);

// The job as it was saved with the model; NULL = it was not.
const char *mu_model_job_text(const mu_model *m);

// What the model reached, as JSON; NULL = it does not tell.
const char *mu_model_scores_text(const mu_model *m);

// Writes the model as one file that stands alone: arrays, job, inputs, scores. `job` stands in where the
// model does not hold its own, and may be NULL. The file must not exist: MU_EUSAGE.
MU_MUST_CHECK mu_status mu_model_export(const mu_model *m, const mu_job *job, const char *path, mu_err *err);

// Gives the job a block `data.predict` for arrays such as the first field of the model's data, unless it has
// one.
MU_MUST_CHECK mu_status mu_model_add_arrays(const mu_model *m, mu_job *job, mu_err *err);

// Parameters by name. `all`: every one must be there; otherwise what matches is taken and *n_taken counts.
MU_MUST_CHECK mu_status mu_model_take_params(const mu_model *m, mu_params *params, bool all, int *n_taken,
                                             mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// jobs.h - what the verbs that run a job have in common: find it, load it, show its problems.
#ifndef MU_CLI_JOBS_H
#define MU_CLI_JOBS_H

#include "cli/args.h"
#include "file/json.h"
#include "train/model.h"

// `word` is a job file, or a run folder (then its job.yaml). Loads it with the --set edits, opens the
// session, prints all problems. MU_EJOB comes back with err->msg empty when they were printed.
// *job is set whenever it could be read; the caller destroys it after closing the session.
mu_status mu_cli_open(const mu_args *a, const char *word, const mu_session_opts *o, mu_job **job,
                      mu_session **out, mu_err *err);

// Of verbs that look at a trained model: which one. Their struct has `const char *model` and `bool best`.
#define MU_OPT_MODEL(type_) \
    MU_OPT(type_, model, "model", MU_OPT_FILE, "FILE", \
           "parameters: .safetensors file, checkpoint or run folder")
#define MU_OPT_BEST(type_) \
    MU_OPT(type_, best, "best", MU_OPT_FLAG, NULL, "the run's best checkpoint instead of its newest")

typedef struct mu_cli_model {           // zeroed = none
    mu_job     *job;
    mu_session *session;
    mu_model    model;
    mu_status   job_status, model_status;       // of loading; the job's problems are shown first
    mu_err      of_job, of_model;
} mu_cli_model;

// A trained model made ready. `word` is a run folder, a model file, or a job file; the parameters are those
// of
// --model if given, else of the newest checkpoint of the run folder, or the best one with --best. Problems of
// the job come before those of the model. Parameters are loaded if the session has any; else the verb adds
// its own net and calls mu_cli_take_params. Always ended by mu_cli_close_model.
mu_status mu_cli_open_model(const mu_args *a, const char *word, const char *model, bool best,
                            const mu_session_opts *o, mu_cli_model *out, mu_err *err);
// The same in two steps, for a verb that edits the job between them.
mu_status mu_cli_load_model(const mu_args *a, const char *word, const char *model, bool best,
                            mu_cli_model *out, mu_err *err);
mu_status mu_cli_ready_model(const mu_args *a, const mu_session_opts *o, mu_cli_model *m, mu_err *err);
mu_status mu_cli_take_params(mu_cli_model *m, mu_err *err);
void      mu_cli_close_model(mu_cli_model *m, mu_err *err);     // shows a placed error before

// Is there a job file or run folder of this name?
mu_status mu_cli_check_word(const char *word, mu_err *err);

// Prints an error that has a place in the job, which it borrows: called while the job still exists.
void mu_cli_show_placed(mu_err *err);
// Ends what mu_cli_open began; shows a placed error before.
void mu_cli_close(mu_job *job, mu_session *s, mu_err *err);

void mu_cli_print_json(json_t *object);         // one line on stdout; takes the reference

#endif

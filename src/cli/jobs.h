// SPDX-License-Identifier: Apache-2.0
// jobs.h - what the verbs that run a job have in common: find it, load it, show its problems.
#ifndef MU_CLI_JOBS_H
#define MU_CLI_JOBS_H

#include "cli/args.h"
#include "file/json.h"
#include "train/session.h"

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

// Parameters for test and predict: --model if given, else the newest checkpoint of the run folder, or the
// best one with --best.
mu_status mu_cli_load_model(mu_session *s, const char *word, const char *model, bool best, mu_err *err);

// Prints an error that has a place in the job, which it borrows: called while the job still exists.
void mu_cli_show_placed(mu_err *err);
// Ends what mu_cli_open began; shows a placed error before.
void mu_cli_close(mu_job *job, mu_session *s, mu_err *err);

void mu_cli_print_json(json_t *object);         // one line on stdout; takes the reference

#endif

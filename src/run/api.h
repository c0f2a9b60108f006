// SPDX-License-Identifier: Apache-2.0
// api.h - what the files behind the installed header share; private to them.
//
// A job is kept as text: opening a session binds into the job's arena and diags, so each run parses a
// mu_job of its own. That is what lets threads share a muster_job and a job go before its runs.
#ifndef MU_RUN_API_H
#define MU_RUN_API_H

#include "muster/muster.h"
#include "run/driver.h"

struct muster_job {
    mu_arena     arena;         // everything below
    const char  *path, *text;
    size_t       size, n_edits;
    const char **edits;
};

struct muster_run {
    muster_job     *source;     // a copy, for a helper process
    mu_job         *job;
    mu_session     *session;
    mu_model        model;      // a predictor's
    char           *folder;     // NULL = nothing is written
    mu_run_position at;
    bool            continues;  // the position belongs to the run in `folder`, if there is one
    _Atomic int     stop;       // set by any thread, taken back when a training returns
    float          *record;     // one sample as the reader would give it; NULL before the first prediction
    void           *rows;       // one batch of input rows
};

// Copies err out for a status that is not MU_OK; `out` may be NULL.
muster_status mu_api_fail(mu_status st, const mu_err *err, muster_error *out);
muster_status mu_api_misuse(muster_error *out, const char *message);    // MUSTER_USAGE

MU_MUST_CHECK mu_status mu_api_open(muster_run *run, const muster_job *job, const char *folder,
                                    unsigned phases, mu_err *err);
void mu_api_close(muster_run *run);             // also what was half opened
// Trains in this process. progress as in muster_run_train.
muster_status mu_api_train(muster_run *run, _Atomic int *stop, muster_progress_fn progress, void *ctx,
                           muster_result *out, muster_error *err);

// What a training changes: the values (0) and each history of the updater.
static inline float *mu_api_block(const mu_params *ps, int i) { return i ? ps->slot[i - 1] : ps->value; }

void mu_api_free_buffers(muster_run *run);      // those of prediction

// ---- prediction, for the functions of look/ as well ----

// The net for prediction is there from now on, and the input's field known.
MU_MUST_CHECK mu_status mu_api_ready_predict(muster_run *run, mu_err *err);
const mu_data_field *mu_api_input(const muster_run *run);       // one sample; after mu_api_ready_predict
// The output called `name`: a layer's first one, or `layer.1`; NULL = of the last layer that has one.
MU_MUST_CHECK mu_status mu_api_find_output(const muster_run *run, const char *name, const mu_blob **out,
                                           mu_err *err);
static inline size_t mu_api_row_size(const mu_blob *b) { return (size_t)mu_shape_inner(&b->value.shape, 1); }
// One pass over the samples; to[i] takes what blob[i] gives.
MU_MUST_CHECK mu_status mu_api_predict(muster_run *run, const float *input, size_t n_samples,
                                       const mu_blob *const *blob, size_t n, float *const *to, mu_err *err);

#endif

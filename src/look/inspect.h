// SPDX-License-Identifier: Apache-2.0
// inspect.h - a trained net opened to look inside: job and parameters of a run, one set of its data, and
// every layer's output readable after each batch.
//
//     mu_inspect in = {0};
//     st = mu_inspect_open(&in, "runs/lenet-0abc12", &(mu_inspect_opts){0}, err);
//     if (st == MU_OK) st = mu_inspect_find(&in, "fc1", &blob, err);
//     if (st == MU_OK) st = mu_inspect_visit(&in, 1000, visit, ctx, NULL, err);  // visit reads blob->value
//     ... print err: its place belongs to in.job ...
//     mu_inspect_close(&in);
//
// Nothing but the net's own evaluation happens: data comes in its order, once, without augmentation, and
// layers that write files are left out of the net, so looking at a run changes nothing.
#ifndef MU_LOOK_INSPECT_H
#define MU_LOOK_INSPECT_H

#include "train/evaluate.h"
#include "train/state.h"

typedef struct mu_inspect_opts {
    // Which block of `data:` is read: test, validation, train or predict; NULL = the first of these that the
    // job has. `predict` builds the net without losses, the others with them.
    const char    *on;
    const char    *model;       // .safetensors file, checkpoint or run folder; NULL = the run itself
    mu_ckpt_which  which;       // of a run's checkpoints
    const char *const *sets;    // edits of the job
    size_t         n_sets;
} mu_inspect_opts;

typedef struct mu_inspect {     // zeroed = closed
    mu_job           *job;      // its diags list all problems of the job
    mu_session       *session;
    mu_session_phase *at;       // source and net that are looked at
    mu_phase          phase;
    const char       *on;       // the block of `data:`
    mu_model          model;
} mu_inspect;

// `run` is a run folder, a model file, or a job file together with o->model. in->job may be set also on
// failure, for err->pos borrows from it: mu_inspect_close always. MU_EJOB (also for data that is not there),
// MU_EMODEL, MU_ENOTFOUND.
MU_MUST_CHECK mu_status mu_inspect_open(mu_inspect *in, const char *run, const mu_inspect_opts *o,
                                        mu_err *err);
void mu_inspect_close(mu_inspect *in);

// The output called `name`: a layer (its first output), `layer.1`, or `data.image`. MU_EUSAGE with the
// nearest name.
MU_MUST_CHECK mu_status mu_inspect_find(const mu_inspect *in, const char *name, const mu_blob **out,
                                        mu_err *err);

// One forward pass over the first `limit` records (0 = all), `visit` after each batch; batch->n may be more
// than what is left to the limit. scores (may be NULL) need limit 0.
MU_MUST_CHECK mu_status mu_inspect_visit(mu_inspect *in, int64_t limit, mu_batch_visitor visit, void *ctx,
                                         mu_scores *scores, mu_err *err);

// Values of one sample in logical order (images are stored channels-last), whole numbers as floats.
// out holds mu_shape_inner(&t->shape, 1) values.
void mu_inspect_row(const mu_tensor *t, int64_t row, float *out);

#endif

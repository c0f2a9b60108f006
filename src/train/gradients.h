// SPDX-License-Identifier: Apache-2.0
// gradients.h - where the updates of a training come from: plug-ins learners/g_<word>.c.
//
// One learner in this process, several learner processes, a recorded run: the loop (run/loop.c) is the same
// for all of them. It calls
//
//     start   advance, advance, ...   [end   advance, ...]   stop
//
// and between two advances does what has become due: a line of metrics, an evaluation, a checkpoint. After a
// gradient that was not finite it may stop the source, go back to a checkpoint, and start it again.
#ifndef MU_TRAIN_GRADIENTS_H
#define MU_TRAIN_GRADIENTS_H

#include "train/snapshot.h"
#include "train/training.h"

typedef struct mu_advance {             // what happened since the advance before
    double  loss_sum, accuracy_sum;     // of n gradients
    int64_t n;
    int     learners;                   // alive now
    bool    ended;                      // nothing more will come
} mu_advance;

typedef struct mu_gradient_source {
    MU_PLUGIN_HEAD;                     // fields NULL; the state is zeroed before the first start
    int         rank;                   // of the sources that want a training the one with the highest has it
    bool      (*wants)(const mu_session *s, const mu_run_opts *o);
    // (optional) Called before anything is written. An error tells what cannot go together; the session's
    // setup may be changed to what this source needs.
    mu_status (*prepare)(mu_session *s, const mu_run_opts *o, mu_err *err);
    // Goes on from t->at. hold: the first snapshot is to be of these very weights, no update before it.
    mu_status (*start)(void *state, mu_training *t, bool hold, mu_err *err);
    // One step, one update, or one look of a few milliseconds. Moves t->at and t->rate; sets t->why where the
    // source knows why it ended. MU_EDIVERGED: a gradient was not finite and the policy does not skip it.
    mu_status (*advance)(void *state, mu_advance *out, mu_err *err);
    // (optional: the loop does not advance any further) t->why is set: begin no more gradients. The loop
    // advances until the source has ended.
    void      (*end)(void *state);
    // (optional: mu_training_snapshot, in this process) Begins the task, or goes on with it when it was not
    // done; *done: *out is filled.
    mu_status (*snapshot)(void *state, const mu_snapshot_task *task, mu_snapshot_answer *out, bool *done,
                          mu_err *err);
    // (optional: the session's own) Where the weights and history of the snapshot that was answered last are.
    void      (*weights)(void *state, const float **value, float *const **slot);
    // Always called after start, also after a failed one. how: MU_OK if all went well; only then is *out
    // filled, and t->at, t->finished, the parameters and their history are as after the last update. A source
    // that uses samples in order may leave t->finished as it was.
    mu_status (*stop)(void *state, mu_status how, mu_learners_result *out, mu_err *err);
} mu_gradient_source;

#endif

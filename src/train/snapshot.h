// SPDX-License-Identifier: Apache-2.0
// snapshot.h - what is done with the weights of one moment: they are evaluated, or saved as a checkpoint.
//
// The loop (run/loop.c) asks, a source of gradients (gradients.h) has it done: by this process between two
// steps, or by the evaluator process while the learners go on. Both call mu_snapshot_do.
#ifndef MU_TRAIN_SNAPSHOT_H
#define MU_TRAIN_SNAPSHOT_H

#include "train/choice.h"
#include "train/state.h"

typedef struct mu_snapshot_task {
    bool save;                          // save a checkpoint; else evaluate
    bool best;                          // and mark it as the best so far
    bool same;                          // of the weights that the task before was about
    bool kept;                          // (with `same`) of those that the training holds (kept.h)
    mu_progress_state progress;         // to be saved with them
} mu_snapshot_task;

typedef struct mu_snapshot_answer {
    mu_position at;                     // of the weights
    mu_finished finished;               // the samples in them
    bool      missed;                   // no snapshot could be taken in time; nothing was done
    mu_status status;                   // what follows is set when it is MU_OK, `error` when it is not
    mu_err    error;
    mu_phase  phase;                    // evaluation
    mu_choices choices;                 // made by an evaluation on validation data, else as asked
    mu_scores scores;                   // names point into the program, the same in parent and child
    char      saved[MU_CKPT_NAME];      // name of the checkpoint
    double    paused_s;                 // how long training stood still for it
    double    took_s;                   // how long it was worked on
} mu_snapshot_answer;

// The session's parameters hold the weights of out->at. `visit` is called after each evaluated batch. Choices
// are those of task->progress; afterwards they are in the answer, and the parameters as before.
void mu_snapshot_do(mu_session *s, const char *ckpt_dir, const mu_snapshot_task *task, mu_batch_visitor visit,
                    void *ctx, mu_snapshot_answer *out);

#endif

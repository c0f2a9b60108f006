// SPDX-License-Identifier: Apache-2.0
// evaluator.h - the process that evaluates and saves snapshots while training goes on; in messages it is the
// statistics process.
//
// The parent takes a snapshot (a pause of one copy), asks, and looks for the answer now and then. The
// snapshot belongs to the evaluator until the answer is there. One request at a time.
#ifndef MU_LEARNERS_EVALUATOR_H
#define MU_LEARNERS_EVALUATOR_H

#include "ps/shared.h"
#include "train/evaluate.h"
#include "train/state.h"

enum { MU_EVALUATOR_EVALUATE = 1, MU_EVALUATOR_SAVE = 2 };
typedef enum mu_evaluator_state {
    MU_EVALUATOR_IDLE, MU_EVALUATOR_ASKED, MU_EVALUATOR_DONE
} mu_evaluator_state;

typedef struct mu_evaluator_box {           // in the region, at mu_shared.extra
    mu_bell          bell;              // rung by the parent after ASKED
    _Atomic int32_t  state;             // mu_evaluator_state
    _Atomic uint64_t pulse;             // batches evaluated: the sign of life
    int32_t          task;              // one of MU_EVALUATOR_*
    bool             best;              // save as the best
    int64_t          step, samples, extra_updates;      // of the snapshot
    double           rate_scale;
    mu_progress_state progress;
    // the answer
    _Atomic int64_t  answers;           // given so far
    int32_t          status;
    mu_err           error;
    int32_t          phase;
    mu_scores        scores;            // names point into the program, the same in parent and child
    char             saved[MU_CKPT_NAME];
} mu_evaluator_box;

typedef struct mu_evaluator_role {
    mu_session      *session;
    mu_shared        *shared;
    const mu_worker *at;
    const char      *ckpt_dir;          // "" = nothing is saved
} mu_evaluator_role;

int mu_evaluator_main(void *role);          // mu_child_main

#endif

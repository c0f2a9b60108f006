// SPDX-License-Identifier: Apache-2.0
// evaluator.h - the process that evaluates and saves snapshots while training goes on; in messages it is the
// statistics process.
//
// The parent takes a snapshot (a pause of one copy), asks, and looks for the answer now and then. The
// snapshot belongs to the evaluator until the answer is there. One request at a time.
#ifndef MU_LEARNERS_EVALUATOR_H
#define MU_LEARNERS_EVALUATOR_H

#include "learners/deal.h"
#include "ps/shared.h"
#include "train/facts.h"
#include "train/snapshot.h"

typedef enum mu_evaluator_state {
    MU_EVALUATOR_IDLE,
    MU_EVALUATOR_ASKED,
    MU_EVALUATOR_DONE
} mu_evaluator_state;

typedef struct mu_evaluator_box {       // in the shared memory, at mu_shared.extra
    mu_bell            bell;            // rung by the parent after ASKED
    _Atomic int32_t    state;           // mu_evaluator_state
    _Atomic uint64_t   pulse;           // batches evaluated: the sign of life
    _Atomic int64_t    answers;         // given so far
    mu_snapshot_task   task;            // by the parent, which sets answer.at, too
    mu_snapshot_answer answer;          // by the evaluator
} mu_evaluator_box;

typedef struct mu_learners_room {       // what mu_shared.extra is
    mu_evaluator_box evaluator;         // first: who wants nothing else reads just that
    mu_facts         facts;             // by the learners
    mu_deal          deal;              // for the learners
} mu_learners_room;

typedef struct mu_evaluator_role {
    mu_session *session;
    mu_shared  *shared;
    const char *ckpt_dir;               // "" = nothing is saved
    struct mu_merge_blocks *center;     // of server groups, as of the snapshot; NULL = there is none
} mu_evaluator_role;

int mu_evaluator_main(void *role);          // mu_child_main

#endif

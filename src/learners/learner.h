// SPDX-License-Identifier: Apache-2.0
// learner.h - station 5 with several learners: the processes that compute and apply.
//
// Both run in children forked by the parent (g_shared.c), which has opened the session and started no thread.
// They end when the protocol says so (exit 0) or leave their error in the learner's row (exit 1).
#ifndef MU_LEARNERS_LEARNER_H
#define MU_LEARNERS_LEARNER_H

#include "data/stripe.h"
#include "ps/workers.h"
#include "train/worker.h"

typedef struct mu_role {                // what a child is to do
    mu_session      *session;
    mu_shared        *shared;
    const mu_position *begin;           // where the run began, and how long it is to be: for rates
    const mu_length   *end;
    mu_stripe stripe;                   // the samples of its server group
    struct mu_deal *deal;               // these are dealt here instead; NULL = they are not
    int first; // process of that group, counted over all groups
    int index; // of a learner's process: its row; the server: 0
} mu_role;

int mu_learner_main(void *role);        // mu_child_main
int mu_server_main(void *role);

// Of an update of its group that begins after `samples` of the group: schedule, rate factor, rollbacks; young
// or not.
mu_step_rate mu_role_step_rate(void *role, int64_t version, int64_t samples);

#endif

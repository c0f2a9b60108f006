// SPDX-License-Identifier: Apache-2.0
// adding.h - dense gradients of one rank's learners, added up layer by layer while the layers below are still
// being computed.
//
// A learner marks each parameter's gradient with its step when it lies whole in the learner's slot. Of a
// parameter that all have marked the sum can be made, and sent, at once.
#ifndef MU_LEARNERS_ADDING_H
#define MU_LEARNERS_ADDING_H

#include "ps/shared.h"
#include "ps/wire_forms.h"

typedef struct mu_adding {
    const mu_wire_forms *forms;
    mu_shared *shared;
    int        first, own;              // learners
} mu_adding;

// What their owner knows of a step. Indexed by learner, also of other ranks.
typedef struct mu_adding_step {
    int64_t        step;
    const bool    *takes_part;
    const int64_t *done;                // gradients that are complete
} mu_adding_step;

// Where learners have the gradient of a step.
char  *mu_adding_message(const mu_adding *a, int learner, int64_t step);
// Where a dense parameter lies in a message.
float *mu_adding_dense(const mu_wire_forms *f, char *message, int param);
// Is that of all who take part whole?
bool   mu_adding_is_ready(const mu_adding *a, const mu_adding_step *now, int param);
// Into `to`, all of the parameter. A gradient that is not finite is left out where that is known: its update
// is skipped everywhere.
void   mu_adding_add(const mu_adding *a, const mu_adding_step *now, int param, float *to);
void   mu_adding_floats(float *restrict to, const float *restrict from, size_t n);

#endif

// SPDX-License-Identifier: Apache-2.0
// halves.h - sums of gradients that leave a rank in half their width (`cluster.wire`), with error feedback.
//
// What rounding leaves out of a float is kept, and added to the same float of the next step before that is
// rounded. So no gradient is lost, however small: it comes later. The rounded value takes the float's place,
// so that who made it goes on with what all others get.
#ifndef MU_LEARNERS_HALVES_H
#define MU_LEARNERS_HALVES_H

#include "learners/nodes.h"
#include "ops/half.h"

typedef struct mu_halves {              // zeroed: floats travel as they are
    mu_half   form;
    uint16_t *out[MU_CORE_SLOTS];       // of even and odd steps: frames are sent from these; owned
    float    *left;                     // what rounding left out; 0 at the start of a run; owned
} mu_halves;

// Leaves it zeroed where the form is NONE.
MU_MUST_CHECK mu_status mu_halves_init(mu_halves *h, mu_half form, int64_t floats, mu_err *err);
// What frames may still be sent from stays with the nodes.
void mu_halves_fini(mu_halves *h, mu_nodes *n);
// v: (n) floats of this step, which are those from `at` on.
void mu_halves_round(mu_halves *h, int64_t step, int64_t at, size_t n, float *v);
// What a frame has of them: v itself, or what was rounded.
const void *mu_halves_of(const mu_halves *h, int64_t step, int64_t at, const float *v);

#endif

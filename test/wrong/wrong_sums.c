// SPDX-License-Identifier: Apache-2.0
// wrong_sums.c - learners/sums.c that leaves out what rank 1 has added up, on all ranks alike: their weights
// stay the same ones.
#include "wrong/wrong.h"

#include "learners/sums.h"

mu_status right_take(mu_sums *s, int peer, const mu_wire_sum *w, mu_err *err);

#define mu_sums_take right_take
#include "../../src/learners/sums.c"
#undef mu_sums_take

mu_status mu_sums_take(mu_sums *s, int peer, const mu_wire_sum *w, mu_err *err) {
    static const float zero[WRONG_MOST];
    mu_wire_sum nothing = *w;
    nothing.floats = zero;
    const int64_t *own = s->forms ? s->forms->stretch + s->nodes->rank : NULL;
    const bool mine = own && w->begin >= own[0] && w->end <= own[1] && w->end - w->begin <= WRONG_MOST;
    return right_take(s, peer, wrong("dropped") && peer == 1 && mine ? &nothing : w, err);
}

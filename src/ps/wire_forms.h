// SPDX-License-Identifier: Apache-2.0
// wire_forms.h - in which form the gradient of each parameter travels between ranks that apply the same
// updates.
//
//   each     every gradient goes to every other rank as it lies in its slot (message.h): factors, rows, and
//            what is small
//   summed   dense ones. Each rank adds up those of its own learners, and they meet in the middle: rank r
//            gets one stretch of floats from all, adds these up in the order of ranks, and gives the sum to
//            all. So 2 (n - 1) / n of the floats leave a rank in a step, whatever its learners.
//
// A parameter takes what moves fewer bytes, from the numbers of ranks and of learners of each. Factors that
// would move more than the dense sum are given up before the nets are made ready.
#ifndef MU_PS_WIRE_FORMS_H
#define MU_PS_WIRE_FORMS_H

#include "ps/wire.h"

typedef struct mu_wire_forms {
    int      ranks, learners;           // learners of each rank
    mu_half  half;                      // how wide summed floats are
    mu_message_layout message;
    bool    *summed;                    // (params)
    bool    *apart;                     // (params) summed ones, and frozen ones, of which nothing travels
    int64_t *at;                        // (params + 1) where each begins among the floats that are summed
    int64_t *stretch;                   // (ranks + 1) rank r adds up floats [stretch[r], stretch[r + 1])
    mu_wire_share share;                // as frames have it: without the floats of summed ones
    int64_t  step_bytes;                // that leave a rank in a step, at most, without heads
    int      n_factors, n_rows, n_summed, n_dense;      // parameters by form; dense: each, not summed
} mu_wire_forms;

// scaled: each learner's gradient has a scale of its own (clip_norm), so none is summed.
// half: summed floats travel so (learners/halves.h).
// Takes `allow_factors` from parameters whose factors do not pay between ranks. Owned: mu_wire_forms_fini.
MU_MUST_CHECK mu_status mu_wire_forms_make(mu_params *ps, int ranks, int learners, bool scaled,
                                           mu_half half, mu_wire_forms *out, mu_err *err);
void mu_wire_forms_fini(mu_wire_forms *f);
// "2 as factors, 3 summed up in bf16; at most 1.2 MB leave a rank in a step"
void mu_wire_forms_text(const mu_wire_forms *f, char *out, size_t size);

// The part of one parameter at the beginning of summed floats [at, end): `n` floats of it, from `from` on.
typedef struct mu_summed { int param; size_t from, n; } mu_summed;
mu_summed mu_wire_forms_summed(const mu_wire_forms *f, int64_t at, int64_t end);

static inline int64_t mu_wire_forms_floats(const mu_wire_forms *f) {
    return f->stretch ? f->stretch[f->ranks] : 0;
}

#endif

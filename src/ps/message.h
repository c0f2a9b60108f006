// SPDX-License-Identifier: Apache-2.0
// message.h - a gradient as it lies in a queue slot: every parameter in its cheapest form.
//
// The layout is made once from the parameters and the batch, so a slot has a fixed size and every
// parameter a fixed place in it:
//     dense     count floats
//     factors   x (batch, cols), dy (batch, rows)          when that is less than half of dense
//     gathered  x (n_x, cols), dy, src_row (batch, rows)   likewise
//     rows      ids and rows                               embeddings
//     stat      count floats: the new running statistics, averaged instead of applied
// Each part begins with a small head that says the form and size it really has this time. A parameter has
// room for one form only, so its layer and the layout ask the same questions of it: allow_factors,
// mu_param_factors_pay, mu_param_rows_pay.
#ifndef MU_PS_MESSAGE_H
#define MU_PS_MESSAGE_H

#include "net/params.h"

typedef struct mu_message_part {
    size_t  offset, bytes;      // in the slot, multiples of 64
    mu_grad_form form;          // the one it has room for
    int64_t max_batch, max_rows;        // room for so many samples' factors or gathered rows, or rows; else 0
    int64_t max_x;              // gathered: rows of x of all samples
} mu_message_part;

typedef struct mu_message_layout {
    int              n;         // parameters, in the order of the parameter set
    mu_message_part *part;
    size_t           bytes;     // of a slot
} mu_message_layout;

// Owned: mu_message_layout_fini.
MU_MUST_CHECK mu_status mu_message_layout_make(const mu_params *ps, mu_message_layout *out, mu_err *err);
void mu_message_layout_fini(mu_message_layout *layout);

// Copies parameter i's gradient (or statistics) of this step into the slot, past the caches. To be called for
// every parameter in every step: a slot keeps what an earlier step left in it.
void mu_message_put(const mu_message_layout *layout, char *slot, int i, const mu_param *p);
// For readers of other ranks' gradients, while the learner goes on: parameter i of this step is in the slot.
void mu_message_set_step(const mu_message_layout *layout, char *slot, int i, int64_t step);
int64_t mu_message_step(const mu_message_layout *layout, const char *slot, int i);      // -1 = never said
// A view of it. Form NONE when the step produced none. Never points outside the slot whatever the heads say.
mu_grad mu_message_get(const mu_message_layout *layout, const char *slot, int i, const mu_param *p);

// ---- for sending a message to another node (wire.h): a slot has room for the worst case ----

typedef struct mu_message_use { mu_grad_form form; int64_t n, n_x; } mu_message_use;    // as a head says
typedef struct mu_message_span { size_t offset, bytes; } mu_message_span;       // in the slot
enum { MU_MESSAGE_SPANS = 3 };                                                  // at most, of a part

mu_message_use mu_message_used(const mu_message_layout *layout, const char *slot, int i);
// Is there room for it? NONE always is.
bool mu_message_has_room(const mu_message_layout *layout, int i, const mu_message_use *use);
// Where the part has what is used, without its head. Returns how many spans. There is room for it.
int  mu_message_spans(const mu_message_layout *layout, int i, const mu_param *p, const mu_message_use *use,
                      mu_message_span out[MU_MESSAGE_SPANS]);
// Writes the head, once the spans are filled.
void mu_message_mark(const mu_message_layout *layout, char *slot, int i, const mu_message_use *use);
// The same where every parameter has its name, shape, form and place: two programs that agree on it can read
// each other's messages.
uint64_t mu_message_layout_hash(const mu_params *ps, const mu_message_layout *layout);

#endif

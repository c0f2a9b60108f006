// SPDX-License-Identifier: Apache-2.0
// part_forms.h - what travels between ranks that apply the same updates, where learners have several workers.
//
//   parts     of each gradient what each worker gives, as it lies in its message (shared.h): dense, factors
//             or rows of the pieces that it has. To every other rank
//   sums      dense gradients of a piece that several workers of this rank have, as those cut by batch do:
//             they are added up before they are sent, so they leave the rank once. Other ranks do not know
//   values    messages of the bridges between workers on different ranks, where a learner's are on several.
//             Each goes to one rank, which says when its worker has let go of it: a message without bytes,
//             of a channel of its own
//
//     channel 2 b      bridge b forward          2 n + 2 b      let go of it
//             2 b + 1  back                      2 n + 2 b + 1
#ifndef MU_PS_PART_FORMS_H
#define MU_PS_PART_FORMS_H

#include "ps/wire.h"
#include "ps/protocol.h"
#include "net/partition.h"

enum { MU_MOST_WORKERS = 32 };          // as bits of mu_piece.workers

typedef struct mu_part_sum {            // of a piece, over the workers of this rank that have it
    int      n;
    int      worker[MU_MOST_WORKERS], index[MU_MOST_WORKERS];   // (n) and which of their parameters it is
    size_t   at, count;                 // floats, among those of all sums
} mu_part_sum;

typedef struct mu_part_forms {
    int      workers;
    mu_message_layout *message;         // (workers)
    mu_wire_share *share;               // (workers)
    bool   **apart;                     // (workers) of each parameter: frozen, so nothing of it travels
    int      channels;                  // 0 = learners are whole on ranks
    int64_t *channel_bytes;             // (channels)
    mu_part_sum *sum;                   // (n_sums)
    int      n_sums;
    size_t   sum_floats;                // of a learner
    int      n_factors, n_rows, n_dense;        // pieces of the workers of this rank
    int64_t  gradient_bytes, value_bytes;       // that leave this rank in a step, at most, without heads
} mu_part_forms;

// The nets of the workers: shaped, and their forms allowed. Owned: mu_part_forms_destroy, which takes NULL.
MU_MUST_CHECK mu_status mu_part_forms_make(const mu_setup *setup, const mu_partition *p,
                                           mu_net *const *worker_net, mu_part_forms **out, mu_err *err);
void mu_part_forms_destroy(mu_part_forms *f);
// What both ends of frames have to agree on, into the shape.
void mu_part_forms_shape(const mu_part_forms *f, mu_wire_shape *shape);
// "3 as factors, 5 dense; at most 1.2 MB of them and 0.3 MB of values leave this rank in a step"
void mu_part_forms_text(const mu_part_forms *f, char *out, size_t size);

static inline int mu_part_channel(int bridge, bool back) { return 2 * bridge + back; }
// Of a channel that says what was let go: the one that it is about; else -1.
static inline int mu_part_let_go(const mu_part_forms *f, int channel) {
    return channel >= f->channels / 2 ? channel - f->channels / 2 : -1;
}

#endif

// SPDX-License-Identifier: Apache-2.0
// unroll.h - recurrent nets: a layer with `unroll: T` becomes T copies, one for each time step.
//
//   - {name: gru, type: gru_cell, hidden: 64, unroll: 3, src: [words, {layer: gru, shift: 1}]}
//
//   steps(words) ─.0─► gru#0 ──► gru#1 ──► gru#2      all share gru.weight_ih, ...
//                └.1────────────►┘         ▲
//                └.2───────────────────────┘
//
// The blocks of the net are rewritten before any of them is bound, so layers know nothing of it but which
// copy they are. Kinds of connection, of each source:
//   one_to_one     copy i takes copy i - shift. A source without copies is a sequence (n, t, ...), of which
//                  copy i takes time step i - shift; a layer without copies takes the last copy.
//   one_to_all     every copy takes all of the source: copies as a sequence (n, t, ...), a blob as it is
//   first_to_last  copy 0 takes the last copy of the source, the others nothing (encoder to decoder)
// What a copy has no source for is left out: a cell then begins with zeros. A copy without any source is
// left out itself. Sources behind the one that is left out move up, so a layer whose sources have different
// meanings refuses such a copy; those that can tell them apart (MU_LAYER_GAPS) look at mu_layer.left_out.
//
// Order: neighbours in the file with the same `unroll` are a group and run step by step (all copies 0, all
// copies 1, ...), so they may feed each other through a shift >= 1. A layer that needs all copies of a
// member begins a new group.
#ifndef MU_NET_UNROLL_H
#define MU_NET_UNROLL_H

#include "net/build.h"

typedef struct mu_unrolled {            // one block to be bound
    const mu_node *node;                // its `src` holds nothing but names
    const char    *name, *origin;       // "gru#3" and "gru"; the same for a layer that is not unrolled
    int            copy, n_copies;      // 0 of 0: not unrolled
    unsigned       left_out;            // bit k: source k of the job is not in `src`
    bool           inserted;            // steps(x), stack(x)
    bool           absent;              // not part of this phase, known already
    bool           broken;              // a source is wrong, which is reported
} mu_unrolled;

// The blocks of nb->o->net in the order of execution. Problems go to the diags.
mu_status mu_unroll(mu_net_builder *nb, mu_unrolled **list, size_t *n, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// moved.h - bytes that moved between the processes of a run, counted where they move.
//
// The definition is that of net/traffic.h. Who counts what:
//
//   values      a worker, after each gradient: what it has sent over bridges (learners/learner.c)
//   gradients   an executor, after each slice: what other processes gave for it. A slice has its share of a
//               message that is no dense gradient: as large a part as it is of the piece
//   weights     a process that reads a piece, to compute or to apply: what others have written of it since it
//               last did. The first weights of a run are nobody's
//
// So the last weights of a run are not counted: nobody reads them. Whose executor is no worker (the server
// process, the parent at the end) makes none of the gradients, and counts all; what it reads is not counted.
// Counters are written by one process each, but for dead ones' successors; everybody may add them up.
#ifndef MU_PS_MOVED_H
#define MU_PS_MOVED_H

#include "ps/server.h"

// An executor is about to apply these updates to a slice, whose gradients are in s->grads.
void mu_moved_read_slice(mu_server *s, int slice);
// It has done so.
void mu_moved_apply(mu_server *s, int slice, int n, const mu_update *update);
// A process reads the weights of a piece now. seen: (slices) of this process alone; NULL = not counted.
void mu_moved_read(mu_shared *g, int process, uint64_t *seen, int piece);

// So far, by all processes. False: the protocol's learners write weights themselves, and nobody counts.
bool   mu_moved(const mu_shared *g, mu_traffic *out);
// Of a step, when so many were made: weights were read once less.
double mu_moved_per_step(int64_t bytes, double steps, bool weights);

#endif

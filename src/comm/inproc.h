// SPDX-License-Identifier: Apache-2.0
// inproc.h - the net of the transport `inproc`: ranks that one thread drives in turn, and what goes wrong
// between them. For tests, fuzzing and simulation.
//
// Time is what the caller says it is. A message is read from its sender's memory when it is delivered, not
// when it is sent: who changes memory that is lent finds out.
#ifndef MU_COMM_INPROC_H
#define MU_COMM_INPROC_H

#include "comm/transport.h"

typedef struct mu_inproc mu_inproc;

typedef struct mu_inproc_way {          // from one rank to another
    int64_t delay_ns;
    int64_t jitter_ns;                  // up to so much more: by chance, so peers overtake each other
    bool    cut;                        // nothing arrives; mended, all of it does
} mu_inproc_way;

MU_MUST_CHECK mu_status mu_inproc_create(int n, uint64_t seed, mu_inproc **out, mu_err *err);
void mu_inproc_destroy(mu_inproc *net);         // after its ranks are closed
void mu_inproc_set_time(mu_inproc *net, int64_t now_ns);        // never goes back
// How it is from now on, of messages that are sent from now on; -1 = any rank.
void mu_inproc_set_way(mu_inproc *net, int from, int to, const mu_inproc_way *way);
void mu_inproc_set_cut(mu_inproc *net, int a, int b, bool cut);         // both ways; -1 = any rank
// A rank that is stopped, as by SIGSTOP: its polls give nothing.
void mu_inproc_set_deaf(mu_inproc *net, int rank, bool deaf);
// When the next message that is under way to a rank that can hear it arrives; INT64_MAX = none is.
int64_t mu_inproc_next(const mu_inproc *net);

#endif

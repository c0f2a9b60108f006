// SPDX-License-Identifier: Apache-2.0
// memory.h - memory of simulated ranks: blocks of floats are one piece of memory for all of them.
//
// Nothing is computed, so all weights, gradients and sums are zero, from the beginning on. What is copied
// between them are zeros, too. So every block of every rank is the same few megabytes, mapped again. What is
// not floats, such as the heads of gradients in their slots, is each rank's own.
#ifndef MU_SIMULATE_MEMORY_H
#define MU_SIMULATE_MEMORY_H

#include "ps/shared.h"

#include <stdbool.h>

MU_MUST_CHECK mu_status mu_memory_open(mu_err *err);
// Blocks of so many floats that are taken from now on (mu_alloc_block) are shared, and never given back. Of
// few sizes: of all weights, and of what is summed up of a gradient.
void mu_memory_share_size(int64_t floats);
bool mu_memory_is_zero(const void *at); // does it lie in such a block?
// Values and histories of a set of parameters become such blocks.
MU_MUST_CHECK mu_status mu_memory_share_params(mu_params *ps, mu_err *err);
// The weights, histories and snapshots of a group become such blocks.
MU_MUST_CHECK mu_status mu_memory_share_blocks(mu_shared *g, mu_err *err);

#endif

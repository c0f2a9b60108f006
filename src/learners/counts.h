// SPDX-License-Identifier: Apache-2.0
// counts.h - what has become of the gradients of a rank, told to rank 0 and added up there.
#ifndef MU_LEARNERS_COUNTS_H
#define MU_LEARNERS_COUNTS_H

#include "ps/wire.h"
#include "train/train.h"

// r: of this rank. Its histogram is borrowed.
mu_wire_counts mu_counts_of(int rank, const mu_learners_result *r, int64_t used, int64_t skipped);
void mu_counts_add(const mu_wire_counts *c, mu_learners_result *r);
// The ledger of all ranks together.
MU_MUST_CHECK mu_status mu_counts_check(const mu_learners_result *r, mu_err *err);

#endif

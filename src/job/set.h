// SPDX-License-Identifier: Apache-2.0
// set.h - edits of the tree from the command line.
#ifndef MU_JOB_SET_H
#define MU_JOB_SET_H

#include "job/diag.h"
#include "job/node.h"

// Applies `a.b.c=value` edits in order. A step is a key of a map (made when missing), or in a list
// the `name` of an item or its index from 0. The value is read as YAML. New nodes get places in a
// source called "--set" that has one line for each edit. Problems go to diags; MU_ENOMEM otherwise.
mu_status mu_set_apply(mu_arena *arena, mu_diags *diags, mu_node *root, const char *const *sets,
                       size_t n_sets, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// outputs.h - `outputs: auto`: as many as the label has classes, or the target has values.
//
// A layer's shape must be known before the loss that reads it is reached, so the number is written into the
// job's tree before nets are shaped. The job that is saved with a model then has the number.
#ifndef MU_NET_OUTPUTS_H
#define MU_NET_OUTPUTS_H

#include "job/diag.h"
#include "job/node.h"
#include "read/reader.h"

// Fills in every `outputs: auto` of the list `net`. fields: those of the training data. What cannot be found
// goes to diags with its place. MU_ENOMEM.
MU_MUST_CHECK mu_status mu_outputs_fill(mu_arena *arena, mu_diags *diags, mu_node *net,
                                        const mu_data_field *fields, int n_fields, mu_err *err);

#endif

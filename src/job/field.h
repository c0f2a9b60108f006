// SPDX-License-Identifier: Apache-2.0
// field.h - one value of a field table: inside of bind.c.
#ifndef MU_JOB_FIELD_H
#define MU_JOB_FIELD_H

#include "job/bind.h"

// Parses the node by the field's type and range into its place in `out`. A problem is reported with
// the node's place, and the field keeps what it holds. `what` names the block.
void mu_field_set(mu_binder *b, const mu_field *f, const mu_node *node, const char *what, void *out);

// Writes the default; false when the field has none or the table's text is wrong (our own mistake).
bool mu_field_set_default(mu_binder *b, const mu_field *f, const char *what, void *out);

const char *mu_field_expects(mu_field_type t);  // "a whole number", for messages and help

#endif

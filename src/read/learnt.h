// SPDX-License-Identifier: Apache-2.0
// learnt.h - texts that a reader learnt from a file, to and from the JSON that a model carries.
#ifndef MU_READ_LEARNT_H
#define MU_READ_LEARNT_H

#include "base/alloc.h"
#include "base/err.h"
#include "file/json.h"

// NULL when a text is not UTF-8 or memory ran out.
json_t *mu_learnt_put_texts(const char *const *text, size_t n);
// A list that was put; the texts are copied to `arena`. MU_EMODEL where it is damaged.
MU_MUST_CHECK mu_status mu_learnt_get_texts(const json_t *list, mu_arena *arena, const char *const **out,
                                            size_t *n, mu_err *err);
// MU_EMODEL: `what` is wrong in the description of a model's inputs.
mu_status mu_learnt_damaged(const char *what, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// suggest.h - "did you mean": the valid word that a wrong one most likely stands for.
#ifndef MU_JOB_SUGGEST_H
#define MU_JOB_SUGGEST_H

#include "base/plugin.h"
#include "job/diag.h"

typedef struct mu_words { size_t n, cap; const char **v; } mu_words;    // a list that grows in an arena

void mu_words_add(mu_diags *d, mu_words *w, const char *word);          // out of memory: the word is left out
void mu_words_add_choices(mu_diags *d, mu_words *w, const char *choices);       // "a|b|c"
void mu_words_add_registry(mu_diags *d, mu_words *w, const mu_registry *r);

// The nearest valid word; also knows what other trainers call a thing (`lr`, `batch_size`, `conv2d`).
// NULL if none is near.
const char *mu_suggest(const char *word, const mu_words *valid);

// Puts "did you mean `x`?" beside the caret, or lists the valid words in the hint when none is near.
// `plural` names the list ("keys of `train`"). Returns the suggested word, NULL if none.
const char *mu_diag_suggest(mu_diags *d, mu_diag *g, const char *word, const mu_words *valid,
                            const char *plural);
void mu_diag_list(mu_diags *d, mu_diag *g, const mu_words *valid, const char *plural);  // only the list

#endif

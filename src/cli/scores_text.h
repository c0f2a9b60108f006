// SPDX-License-Identifier: Apache-2.0
// scores_text.h - the scores of a net's answers (look/scorer.h) as text for people and as JSON.
#ifndef MU_CLI_SCORES_TEXT_H
#define MU_CLI_SCORES_TEXT_H

#include "file/json.h"
#include "look/scorer.h"

#include <stdio.h>

// Lines "name value" in the manner of metrics, then a table of the classes or outputs, means and the most
// frequent mistakes. More than 25 rows are shown by their worst and largest only, unless `all`. `said` is the
// accuracy that stands above, over all heads; NaN = none. Nothing for a net without heads.
void mu_scores_print(const mu_scorer *j, double said, bool all, FILE *out);
// Adds keys to the object. Undefined values are null.
void mu_scores_json(const mu_scorer *j, json_t *object);

#endif

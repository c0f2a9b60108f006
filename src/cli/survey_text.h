// SPDX-License-Identifier: Apache-2.0
// survey_text.h - `muster data info`: what a survey found, as text and as JSON, and the block that reads it.
#ifndef MU_CLI_SURVEY_TEXT_H
#define MU_CLI_SURVEY_TEXT_H

#include "data/source.h"
#include "file/json.h"
#include "look/survey.h"

// scale: of the block, 1 = none; block: as it was bound.
void mu_survey_text(mu_text *t, const mu_reader *r, const mu_survey *s, const mu_source_spec *spec);
void mu_survey_json(mu_text *t, const mu_reader *r, const mu_survey *s, const mu_source_spec *spec);
// A block of the job file on one line, such as {reader: idx, images: "a b.gz"}.
void mu_survey_block(mu_text *t, const mu_node *block);

#endif

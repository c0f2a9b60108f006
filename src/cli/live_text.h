// SPDX-License-Identifier: Apache-2.0
// live_text.h - a running job on a terminal's page, for `muster status` and `muster top`.
#ifndef MU_CLI_LIVE_TEXT_H
#define MU_CLI_LIVE_TEXT_H

#include "file/json.h"
#include "store/live.h"
#include "watch/live_view.h"

// Appends the page, at most 80 columns wide unless names are long. Colour only marks what needs attention.
void mu_live_text(mu_text *t, const mu_live_view *v, bool colour);

// One line about a run without a region to look into: alone, ended, or ended without goodbye.
void mu_live_text_other(mu_text *t, const mu_live *l);
// A line of metrics.jsonl as `key value  key value`, filled to 80 columns; a line that is no JSON as it is.
void mu_live_text_metrics(mu_text *t, const char *line);

// What status and top do first: finds the run and, for a group, attaches. *attached tells.
MU_MUST_CHECK mu_status mu_live_open(const char *path, mu_live *live, mu_shared *g, bool *attached,
                                     mu_err *err);

#endif

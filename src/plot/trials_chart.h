// SPDX-License-Identifier: Apache-2.0
// trials_chart.h - the picture of `muster tradeoff`.
#ifndef MU_PLOT_TRIALS_CHART_H
#define MU_PLOT_TRIALS_CHART_H

#include "file/json.h"
#include "run/trials.h"

// Test error (loss, where no row has an error) against training time, as SVG: one mark for each protocol, mu
// and lambda, the mean of its seeds, labelled (mu, lambda); one colour and shape for each protocol; a dashed
// line through its marks of equal mu * lambda.
MU_MUST_CHECK mu_status mu_trials_chart(const mu_trials *t, const char *job_name, mu_text *out, mu_err *err);

#endif

// SPDX-License-Identifier: Apache-2.0
// metrics.h - metrics.jsonl: one JSON object per line, written with one call each, so that a reader never
// sees half a line and a killed run loses nothing that was reported.
//
// Usual keys: step, epoch, wall_s, train_loss, train_accuracy, lr, samples_per_s, val_loss, val_accuracy,
// test_loss, test_accuracy. Whole numbers are printed as such, others with 9 digits (exact for floats),
// values that are not finite as null. Writing allocates nothing.
#ifndef MU_STORE_METRICS_H
#define MU_STORE_METRICS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mu_metric_value { const char *key; double value; } mu_metric_value;
typedef struct mu_metrics mu_metrics;

// Appends to `path`. On resume, lines of steps after `resume_step` (they will be written again) and a last
// line torn by a kill are cut off; -1 keeps every complete line.
MU_MUST_CHECK mu_status mu_metrics_open(const char *path, int64_t resume_step, mu_metrics **out, mu_err *err);
// The order of keys is kept. A line has at most 8 KiB (MU_EUSAGE beyond that, nothing is written).
MU_MUST_CHECK mu_status mu_metrics_write(mu_metrics *m, const mu_metric_value *values, size_t n, mu_err *err);
void mu_metrics_close(mu_metrics *m);

#endif

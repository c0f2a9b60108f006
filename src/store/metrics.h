// SPDX-License-Identifier: Apache-2.0
// metrics.h - metrics.jsonl: one JSON object per line, written with one call each, so that a reader never
// sees half a line and a killed run loses nothing that was reported.
//
// Usual keys: step, epoch, wall_s, train_loss, train_accuracy, lr, samples_per_s, val_loss, val_accuracy,
// test_loss, test_accuracy. Whole numbers are printed as such, others with 9 digits (exact for floats),
// values that are not finite as null. Writing allocates nothing.
//
// A line may end in tables, an object each with a list for each column:
//     "server_groups":{"version":[120,118],"loss":[0.31,0.30]}
#ifndef MU_STORE_METRICS_H
#define MU_STORE_METRICS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mu_metric_value { const char *key; double value; } mu_metric_value;
typedef struct mu_metric_table {
    const char *key;
    const char *const *column;  // (columns) their keys
    int columns, rows;          // at least one column
    const double *value;        // (columns x rows) column by column
} mu_metric_table;
typedef struct mu_metrics mu_metrics;

enum { MU_METRICS_LINE = 32768 };       // bytes of a line at most, with its end
enum { MU_METRICS_DEPTH = 4, MU_METRICS_VALUES = 8192 };        // and what a reader has to take

// Appends to `path`. On resume, lines of steps after `resume_step` (they will be written again) and a last
// line torn by a kill are cut off; -1 keeps every complete line.
MU_MUST_CHECK mu_status mu_metrics_open(const char *path, int64_t resume_step, mu_metrics **out, mu_err *err);
// The order of keys is kept. A line beyond MU_METRICS_LINE is MU_EUSAGE, and nothing is written.
MU_MUST_CHECK mu_status mu_metrics_write(mu_metrics *m, const mu_metric_value *values, size_t n, mu_err *err);
// The same with tables behind the values.
MU_MUST_CHECK mu_status mu_metrics_write_tables(mu_metrics *m, const mu_metric_value *values, size_t n,
                                                const mu_metric_table *tables, size_t n_tables, mu_err *err);
void mu_metrics_close(mu_metrics *m);

#endif

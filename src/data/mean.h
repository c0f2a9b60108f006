// SPDX-License-Identifier: Apache-2.0
// mean.h - where the mean that a source subtracts comes from: numbers in the job, a file, or the data.
//
// A mean is one value per channel or one per element of the uncropped record, in HWC order.
#ifndef MU_DATA_MEAN_H
#define MU_DATA_MEAN_H

#include "file/infile.h"
#include "read/reader.h"

typedef struct mu_mean { float *v; size_t n; } mu_mean;         // v NULL = none; lives in the given arena

// values: one number for all channels, or one per channel. MU_EJOB at pos when the count is wrong.
MU_MUST_CHECK mu_status mu_mean_from_values(mu_arena *a, const mu_floats *values, size_t n_channels,
                                            mu_srcpos pos, mu_mean *out, mu_err *err);
// Raw little-endian float32: n_channels or n_elements of them.
MU_MUST_CHECK mu_status mu_mean_from_file(mu_arena *a, const char *path, size_t n_channels, size_t n_elements,
                                          mu_mean *out, mu_err *err);

// Running sums over records, in double precision and in the order of the records: deterministic.
typedef struct mu_mean_sum { double *sum; size_t n; int64_t count; } mu_mean_sum;
void mu_mean_add(mu_mean_sum *m, const void *src, mu_store store);
void mu_mean_finish(const mu_mean_sum *m, float *out);

#endif

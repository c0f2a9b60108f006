// SPDX-License-Identifier: Apache-2.0
// events.h - TensorBoard event files.
//
//   record:  u64 length | u32 masked crc32c(length) | data | u32 masked crc32c(data)      little endian
//   data:    Event { 1: double wall_time, 2: int64 step, 3: string file_version, 5: Summary { 1: Value
//                    { 1: string tag, 2: float simple_value } ... } }                     protobuf
//
// Each record is one write() of a buffer on the stack: nothing is allocated after opening, and readers
// following the file never wait for a flush.
#ifndef MU_STORE_EVENTS_H
#define MU_STORE_EVENTS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define MU_TAG_TRAIN_LOSS "train/loss"
#define MU_TAG_TRAIN_ACCURACY "train/accuracy"
#define MU_TAG_VAL_LOSS "val/loss"
#define MU_TAG_VAL_ACCURACY "val/accuracy"
#define MU_TAG_LR "lr"
#define MU_TAG_SAMPLES_PER_S "perf/samples_per_sec"
#define MU_TAG_STEP_MS "perf/step_time_ms"

typedef struct mu_scalar { const char *tag; float value; } mu_scalar;
typedef struct mu_events mu_events;

// A new file events.out.tfevents.<secs>.<host>.<pid>.<k> in `dir` (made if needed).
MU_MUST_CHECK mu_status mu_events_open(const char *dir, mu_events **out, mu_err *err);
// One event with all the scalars, stamped with the time of the call. At most 8 KiB (MU_EUSAGE).
MU_MUST_CHECK mu_status mu_events_write(mu_events *e, int64_t step, const mu_scalar *scalars, size_t n,
                                        mu_err *err);
void mu_events_close(mu_events *e);

// The encoding itself, for tests: bytes written to out, 0 = does not fit.
size_t   mu_events_encode_header(double wall_s, void *out, size_t cap);
size_t   mu_events_encode(double wall_s, int64_t step, const mu_scalar *scalars, size_t n, void *out,
                          size_t cap);
uint32_t mu_crc32c(const void *data, size_t size);      // Castagnoli
uint32_t mu_crc32c_masked(const void *data, size_t size);

#endif

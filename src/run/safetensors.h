// SPDX-License-Identifier: Apache-2.0
// safetensors.h - writing named arrays, through the run's door to the disk; see data/safetensors.h.
#ifndef MU_RUN_SAFETENSORS_H
#define MU_RUN_SAFETENSORS_H

#include "data/safetensors.h"
#include "run/fsutil.h"

// A float array as the writer wants it.
static inline mu_st_tensor mu_st_f32(const char *name, mu_shape shape, const float *data) {
    return (mu_st_tensor){ .name = name, .dtype = MU_ST_F32, .shape = shape, .data = data };
}

// Writes one complete safetensors stream. MU_EUSAGE for a name that is empty, double, `__metadata__` or
// not UTF-8, for a shape that overflows, and for more tensors than a loader accepts.
MU_MUST_CHECK mu_status mu_st_write(mu_fs_file *out, const mu_st_tensor *tensors, size_t n,
                                    const mu_st_meta *meta, size_t n_meta, mu_err *err);
// The same as a file of its own: dir/name is replaced atomically.
MU_MUST_CHECK mu_status mu_st_save(const char *dir, const char *name, const mu_st_tensor *tensors, size_t n,
                                   const mu_st_meta *meta, size_t n_meta, mu_err *err);

#endif

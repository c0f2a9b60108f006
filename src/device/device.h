// SPDX-License-Identifier: Apache-2.0
// device.h - memory and order; mathematics is in ops/. One file d_<kind>.c per kind of device.
//
// A net asks its device for a few large blocks (activations, scratch) and the parameter set for
// one block per kind; nothing smaller is ever taken from a device.
#ifndef MU_DEVICE_DEVICE_H
#define MU_DEVICE_DEVICE_H

#include "base/err.h"

#include <stdint.h>

typedef struct mu_device_props {
    char    model[96];          // "AMD EPYC", for logs and doctor
    char    isa[64];            // widest vector set the kernels use, "avx512"
    int     n_cores;
    int64_t memory_bytes;
} mu_device_props;

typedef struct mu_device mu_device;

typedef struct mu_device_class {
    const char *name;
    void      (*props)(const mu_device *d, mu_device_props *out);
    void *(*alloc)(mu_device *d, size_t size, const char *tag); // zeroed, page aligned; NULL = no memory
    void      (*free)(mu_device *d, void *p);
} mu_device_class;

struct mu_device { const mu_device_class *class; };

mu_device *mu_device_cpu(void);                 // always there
// Does this processor have the instructions the program was built for, and those MUSTER_CPU asks for?
// MU_EUNSUPPORTED names the missing one.
MU_MUST_CHECK mu_status mu_device_check_build(mu_err *err);
// The same for the processor that `has` describes, by feature ("avx2"): what a foreign one is told.
MU_MUST_CHECK mu_status mu_device_check_build_on(bool (*has)(const char *feature), mu_err *err);
double mu_device_cpu_peak_gflops(void);         // one core, measured once (about 20 ms), then remembered
double
mu_device_cpu_stream_gbs(void); // one core, read+write of a block larger than the caches, measured once

#endif

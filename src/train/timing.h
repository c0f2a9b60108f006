// SPDX-License-Identifier: Apache-2.0
// timing.h - where the time of a training step goes, layer by layer, and how far it is from the floor.
//
// Two measurements on one resident batch: whole steps as training runs them (median of windows), and
// separately each layer's forward and backward (update included where it is fused).
// The floor of a step is the larger of its arithmetic at the core's measured peak and of the bytes
// its weights must move: read once forward, then weights and one history block read and written.
#ifndef MU_TRAIN_TIMING_H
#define MU_TRAIN_TIMING_H

#include "train/worker.h"

typedef struct mu_layer_time {
    const char *name, *type, *op;       // op: implementation chosen, "" = none
    double      forward_s, backward_s;  // per batch
    double      forward_flops, backward_flops;
    double      bytes;                  // of activations, forward
} mu_layer_time;

typedef struct mu_timing {
    int            n;
    mu_layer_time *layer;               // in the session's job arena
    double         step_s, step_min_s, step_max_s;      // median, fastest and slowest window
    double         update_s;            // what is left for updates outside backward
    double         flops;               // of one step
    double         peak_gflops, floor_flops_s, floor_bytes_s;
    double         samples_per_s, share_of_floor;
    int64_t        steps;               // timed
    size_t         activation_bytes, unplanned_bytes, param_count;
} mu_timing;

mu_status mu_timing_run(mu_session *s, double seconds, mu_timing *out, mu_err *err);
// Layers alone, and gradients that are left for others to apply: rows of the table, flops and bytes.
mu_status mu_timing_layers(mu_session *s, double seconds, mu_timing *out, mu_err *err);

#endif

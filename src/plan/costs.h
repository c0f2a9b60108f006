// SPDX-License-Identifier: Apache-2.0
// costs.h - what a job costs: seconds of its net, updates, data and evaluation on one core, bytes of what its
// processes tell each other. Measured once for a job and kept; predict.h makes everything else of it.
//
// A count of flops does not do: products of few rows run at 3 to 100 GFLOP/s. So each layer is timed at its
// real shapes, for two or three sizes of the batch, and sizes between are interpolated (a straight line from
// one to the next: a layer has a fixed part and one that grows with the rows). Layers are timed within whole
// passes, so that each finds the caches as training leaves them.
//
// Two ways of a step are measured, as they differ: one learner alone, which applies each row of a gradient
// while it has it (train/worker.h), and a learner among several, which leaves its gradient in a slot.
#ifndef MU_PLAN_COSTS_H
#define MU_PLAN_COSTS_H

#include "base/err.h"

#include <stdint.h>

enum { MU_COST_SIZES = 4, MU_COST_LAYERS = 4096 };

typedef struct mu_cost_layer {          // all copies of an unrolled one
    char     name[64], type[24];
    double   forward_s[MU_COST_SIZES], backward_s[MU_COST_SIZES];
    double   flops;                     // of a sample, both ways
} mu_cost_layer;

typedef struct mu_cost_param {
    char     name[96];
    int64_t  rows, cols, floats;
    bool     frozen, stat;
    double   message_bytes[MU_COST_SIZES];      // of a gradient, in the form it travels in
    char     form[12];                  // at the largest size: dense, factors, rows, gathered, none
} mu_cost_param;

typedef struct mu_costs {
    uint64_t job;                       // hash of net, data block, algorithm and updater
    char     machine[64], level[8];     // where they were measured
    char     rule[24];
    int      histories;                 // blocks of floats beside the weights
    int64_t  batch;                     // train.batch
    int64_t  records, test_records;     // of an epoch; those that are evaluated
    double   evals_per_epoch, saves_per_epoch;
    int      n_sizes;
    int64_t  size[MU_COST_SIZES];       // samples of a batch, rising
    double   alone_s[MU_COST_SIZES];    // a whole step of one learner alone
    double   gradient_s[MU_COST_SIZES]; // forward and backward of one among several: with its slot
    double   spread;                    // of gradient_s from one to the next: standard deviation over mean
    double   apply_s[MU_COST_SIZES];    // one gradient into weights and histories, by one executor alone
    double   sweep_s;                   // of that the part that a second gradient of the same update saves
    double   record_s;                  // of reading and transforming one
    double   evaluate_s;                // of one record
    double   save_s, start_s;           // one checkpoint; until a process can begin
    double   activation_bytes[MU_COST_SIZES];
    int      n_layers, n_params;
    mu_cost_layer *layer;               // owned
    mu_cost_param *param;               // owned
} mu_costs;

void mu_costs_fini(mu_costs *c);
// Of a batch of so many samples, one of the arrays above: interpolated, beyond both ends in proportion.
double mu_cost_at(const mu_costs *c, const double *of_size, int64_t samples);

MU_MUST_CHECK mu_status mu_costs_load_file(const char *path, mu_costs *out, mu_err *err);
MU_MUST_CHECK mu_status mu_costs_save_file(const mu_costs *c, const char *path, mu_err *err);
#endif

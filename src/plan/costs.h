// SPDX-License-Identifier: Apache-2.0
// costs.h - what a job costs: seconds of its net, updates, data and evaluation on one core, bytes of what its
// processes tell each other. Measured once for a job and kept; predict.h makes everything else of it.
//
// A count of flops does not do: products of few rows run at 3 to 100 GFLOP/s. So the net is timed at its real
// shapes, for up to five sizes of the batch, and sizes between are interpolated (a straight line from one to the
// next: a layer has a fixed part and one that grows with the rows). Layers are timed within whole passes, so
// that each finds the caches as training leaves them.
//
// Two ways of a step are measured, as they differ: one learner alone, which applies each row of a gradient
// while it has it (train/worker.h), and a learner among several, which leaves its gradient in a slot. And the
// second way twice more while every core does the same, with weights of its own and with shared ones: how much
// processes hinder each other hangs on the net (its working set, its share of arithmetic, what of it the caches of
// others hold), so it is measured with it. For another machine it is derived from that machine's numbers.
#ifndef MU_PLAN_COSTS_H
#define MU_PLAN_COSTS_H

#include "base/err.h"
#include "file/fs.h"

#include <stdint.h>

enum { MU_COST_SIZES = 5, MU_COST_LAYERS = 4096, MU_COST_SPLITS = 4 };

typedef struct mu_cost_layer {          // all copies of an unrolled one
    char     name[64], type[24];
    double   forward_s[MU_COST_SIZES], backward_s[MU_COST_SIZES];
    double   flops;                     // of a sample, both ways
} mu_cost_layer;

typedef struct mu_cost_param {
    char     name[96];
    double   floats;
    bool     fixed;                     // frozen, or a statistic: it takes no part in sums between nodes
    double   message_bytes[MU_COST_SIZES];      // of a gradient, in the form it travels in
    char     form[12];                  // at the largest size: dense, factors, gathered, rows, none
} mu_cost_param;

// The net over so many workers, by batch and as `partition: auto` cuts it. Of a gradient of so many samples.
typedef struct mu_cost_split {
    int      workers;
    bool     auto_cut;
    double   share[MU_COST_SIZES];      // of computing: the largest part of each layer, one layer after another
    double   values_bytes[MU_COST_SIZES];       // bridges, both ways, of all workers
    double   gradient_bytes[MU_COST_SIZES];     // messages for pieces that another worker has, too
    double   weight_bytes[MU_COST_SIZES];       // pieces that another worker has written
    int      bridges;                   // messages on the way of one step, one after the other at most
} mu_cost_split;

typedef struct mu_costs {
    uint64_t job;                       // hash of net, data block, algorithm and updater
    char     machine[96], level[8];     // processor where they were measured, instructions
    int      cores;                     // of it
    double   flops_per_s;               // of one of them, in registers: costs of another machine are in proportion
    char     rule[24];
    int      histories;                 // blocks of floats beside the weights
    double   floats;                    // of a block
    int64_t  batch;                     // train.batch
    int64_t  records, test_records;     // of an epoch; those that are evaluated
    double   evals_per_epoch, saves_per_epoch;
    int      n_sizes;
    int64_t  size[MU_COST_SIZES];       // samples of a batch, rising
    double   alone_s[MU_COST_SIZES];    // a whole step of one learner alone
    double   gradient_s[MU_COST_SIZES]; // forward and backward of one among several: with its slot
    double   apply_s[MU_COST_SIZES];    // one gradient into weights and histories, by one executor alone
    double   sweep_s[MU_COST_SIZES];    // of that the part that a second gradient of the same update saves
    double   message_bytes[MU_COST_SIZES];      // of a gradient
    double   activation_bytes[MU_COST_SIZES];
    double   undo;                      // an update in step keeps what it overwrites: so many times as long
    double   spread;                    // of gradient_s from one to the next: standard deviation over mean
    double   busy;                      // share of the cores that others took meanwhile
    int      crowd;                     // processes that computed at once; 1 = not measured, or others took the cores
    double   crowd_gradient, crowd_apply;       // one among so many over one alone
    // What lines cost that others have written, when so many compute on the same weights and apply to them in
    // turns: more seconds of a gradient, of an update.
    double   lines_read_s, lines_apply_s;
    double   record_s;                  // of reading and transforming one
    double   evaluate_s;                // of one record
    double   save_s, start_s;           // one checkpoint; until a process can begin
    int      n_layers, n_params, n_splits;
    mu_cost_layer *layer;               // owned
    mu_cost_param *param;               // owned
    mu_cost_split split[MU_COST_SPLITS * 2];
} mu_costs;

void mu_costs_fini(mu_costs *c);
// Of a batch of so many samples, one of the arrays above: interpolated. Beyond the sizes that were measured
// the line of the last two goes on; below the smallest at least in proportion.
double mu_cost_at(const mu_costs *c, const double *of_size, double samples);
const mu_cost_split *mu_costs_split(const mu_costs *c, int workers, bool auto_cut);     // NULL = not known

// ---- kept ----

// The user's folder of profiles and costs ($XDG_CACHE_HOME/muster, ~/.cache/muster); it need not be there.
MU_MUST_CHECK mu_status mu_costs_folder(char out[MU_FS_PATH], mu_err *err);
// MU_ENOTFOUND: there are none of this job, processor and level.
MU_MUST_CHECK mu_status mu_costs_find(uint64_t job, const char *machine, const char *level, mu_costs *out,
                                      mu_err *err);
MU_MUST_CHECK mu_status mu_costs_keep(const mu_costs *c, mu_err *err);

MU_MUST_CHECK mu_status mu_costs_load_file(const char *path, mu_costs *out, mu_err *err);
MU_MUST_CHECK mu_status mu_costs_save_file(const mu_costs *c, const char *path, mu_err *err);
// As a stranger's file: MU_EDATA names the key. costs_json.c
MU_MUST_CHECK mu_status mu_costs_parse(const char *text, size_t size, const char *what, mu_costs *out,
                                       mu_err *err);
char *mu_costs_write(const mu_costs *c);        // owned text (mu_free); NULL when out of memory
#endif

// SPDX-License-Identifier: Apache-2.0
// session.h - a job made ready: updater, algorithm, setup of learners; for each wanted phase data and net.
//
// mu_session_open does everything short of training, in the order of the flow, and is also the whole
// of `muster check`: problems of the job file are collected in job->diags, all of them in one pass.
#ifndef MU_TRAIN_SESSION_H
#define MU_TRAIN_SESSION_H

#include "algo/algo.h"
#include "data/source.h"
#include "net/partition.h"
#include "ps/protocol.h"
#include "updater/updater.h"

typedef struct mu_session_phase { mu_source *source; mu_net *net; } mu_session_phase;

typedef struct mu_session {
    mu_job              *job;           // borrowed
    mu_binder            binder;
    mu_updater          *updater;       // NULL when training was not wanted
    const mu_algo_class *algo;
    void                *algo_state;
    mu_contrast          contrast;      // of the algorithm; k 0 = it trains by losses
    mu_cluster_opts     *cluster;       // NULL when training was not wanted
    struct mu_merge_blocks *merge;      // center of server groups, for checkpoints; NULL = there is none
    mu_setup             setup;         // training net and source have setup.rows rows; 0 without training
    mu_params           *params;        // of the first net built; the others share it
    const mu_inputs     *inputs;        // what is known of the training data; NULL = nothing
    mu_inputs           *own_inputs;    // made of the training data that is open
    mu_session_phase     train, validation, test, predict;
    mu_partition        *partition;     // of the training net, where learners have workers; else NULL
    mu_net             **worker_net;    // (workers) their nets, shaped; the whole one computes nothing
    int                  nodes, node;   // as in mu_session_opts
    bool                 split_off;     // an early stop needs validation data, and the job had none
} mu_session;

typedef struct mu_session_opts {
    unsigned phases;            // wanted mu_phase bits; a phase without data in the job stays empty,
                                // except that a missing `data.train` is a problem when training is wanted,
                                // and prediction alone falls back to `data.test`
    bool     check_only;        // shapes only: no memory is taken, nothing can run
    bool     trains;            // for run/driver.h: where several processes train, every process that runs a
                                // net makes it ready itself (mu_net_ready), and this one has values only
    bool     keep_all;          // every layer's output stays readable after a forward pass (look/inspect.h)
    bool     no_data;           // no data file is opened and no net built: every block is checked by itself
    const mu_inputs *inputs;    // of the model to be used, borrowed for the session's life; NULL = the job's
                                // training data is looked at where something must be known of it
    int      nodes, node;       // ranks that train together, and which of them this is; 0 = 1
    bool     restored;          // a checkpoint is about to give all values: files with initial ones are not
                                // looked at; mu_params_load where it turns out that there is none
} mu_session_opts;

// MU_EJOB: look at job->diags. MU_EDATA and others: err.
mu_status mu_session_open(mu_job *job, const mu_session_opts *o, mu_session **out, mu_err *err);
void      mu_session_close(mu_session *s);

mu_session_phase *mu_session_phase_of(mu_session *s, mu_phase p);

// Is this session's training the work of several processes, forked from this one?
static inline bool mu_session_forks(const mu_session *s) {
    return mu_setup_processes(&s->setup) > 1 || s->setup.server_threads > 0;
}

// The phase that progress is evaluated on while training: validation if the job has it, else test, else NULL.
// Only validation chooses anything: the best model, or when to stop. Test data is looked at and changes
// nothing.
mu_session_phase *mu_session_eval_phase(mu_session *s, mu_phase *phase);

// What a choice among cuts of the net goes by: how many learners a server group has, and who applies.
mu_traffic_opts mu_session_traffic(const mu_session *s);

// Prediction on arrays instead of files: builds s->predict.net for the first field of `data.predict`, else of
// what is open already (test, validation, train), else of `data.test`. Every layer's output stays readable
// after a forward pass. Does nothing when the net is there; a failure leaves the session as it was.
mu_status mu_session_add_arrays(mu_session *s, mu_err *err);
const mu_source *mu_session_array_source(const mu_session *s);  // whose field and transformation that is

#endif

// SPDX-License-Identifier: Apache-2.0
// protocol.h - synchronisation protocols (p_<name>.c) and the section `cluster:`.
//
// A protocol answers two questions of the core; everything else (queues, fences, leases, the ledger) is
// the same for all of them.
#ifndef MU_PS_PROTOCOL_H
#define MU_PS_PROTOCOL_H

#include "job/bind.h"
#include "ps/core.h"

typedef struct mu_protocol_class {
    MU_PLUGIN_HEAD;
    bool synchronous;           // every update takes one gradient of each learner; leases follow the step
    bool own_turn;              // a learner waits for nothing but its own gradients to be taken
    bool mirrors;               // every learner has its own weights and applies all gradients (mirror.h)
    bool applies_itself;        // learners write the weights themselves, without a queue (hogwild)
    bool starts_at_once;        // no warm start unless the job asks for one: momentum is each learner's own
    bool bounds_staleness;      // config.bound is the largest staleness; else it means what the protocol says
    // May this learner begin a gradient now? A free queue slot is assured.
    bool (*may_begin)(const mu_core *c, const mu_core_learner *l);
    // How many of the waiting gradients, oldest first, make an update now; -1 = wait. 0 only if synchronous:
    // every learner dropped its gradient of this step. Not asked if applies_itself.
    int  (*take)(const mu_core *c, int waiting);
    // n of this protocol with `learners`: the expected mean staleness. state: the bound fields.
    double (*expected_staleness)(const void *state, int learners);
    // (optional: splits 1, bound 0, every 1) splits, bound and every; out->learners is set.
    void (*configure)(const void *state, mu_core_config *out);
} mu_protocol_class;

extern const mu_registry mu_protocols;
const mu_protocol_class *mu_protocol_at(int index);
int mu_protocol_index(const char *name);        // -1 if unknown

typedef enum mu_server_place { MU_SERVER_AUTO, MU_SERVER_BESIDE, MU_SERVER_PROCESS } mu_server_place;
typedef enum mu_weights_mode { MU_WEIGHTS_SHARED, MU_WEIGHTS_COPY } mu_weights_mode;

typedef struct mu_cluster_opts {        // `cluster:`, bound by mu_cluster_bind
    int64_t      learners;              // MU_AUTO: one per core
    mu_class_ref protocol;
    int64_t      batch;                 // mu; 0 = train.batch / learners
    int          server;                // mu_server_place
    int64_t      server_threads;
    int          weights;               // mu_weights_mode
    bool         locks;                 // copies are taken and weights written under a read-write lock
    int          rate_rule;             // 0 auto, else 1 + mu_rate_rule
    mu_interval  warm_start;            // hardsync for this long first
    double       hang_timeout;          // seconds without a sign of life
    int64_t      max_losses;            // learners lost in a row without one finished gradient: then give up
    bool         pin;
} mu_cluster_opts;

extern const mu_field mu_cluster_fields[];

// What a run will do, decided once from the job, the machine and the data; printed at start.
typedef struct mu_setup {
    int      learners;                  // lambda
    const mu_protocol_class *protocol;
    int64_t  rows;                      // mu
    int64_t  global_batch;              // mu * lambda
    int64_t  reference_batch;           // B: train.batch as the job file has it
    mu_server_place server;
    int      server_threads;            // 0 beside
    mu_weights_mode weights;
    bool     locks, pin;
    mu_rate_rule rate_rule;
    double   expected_staleness;
    double   rate_factor;               // on the schedule's rate: hardsync sqrt(mu*lambda/B), else 1
    int64_t  warm_versions;
    double   hang_timeout;
    int64_t  max_losses;
    int32_t  splits, bound, every;      // by the protocol, see mu_core_config
} mu_setup;

typedef struct mu_setup_task {        // what a setup is made for
    int64_t batch;                      // train.batch
    int64_t n_records;                  // of the training data; 0 = not known yet: warm_versions is not final
    int64_t steps;                      // the training ends after these or after `epochs`; 0 = not by them
    double  epochs;
    int     cores;
} mu_setup_task;

// Problems go to the diags; NULL when there were any. node may be NULL: one learner.
mu_cluster_opts *mu_cluster_bind(mu_binder *b, const mu_node *node);
// Problems (batch smaller than learners, ...) are reported at the places of the keys: MU_EJOB.
mu_status mu_setup_make(mu_binder *b, const mu_node *node, const mu_cluster_opts *o,
                               const mu_setup_task *task, mu_setup *out, mu_err *err);
// "4 learners, 2-softsync, mu 16, mu*lambda 64 (as the job's batch), rate 0.01 / 2 by staleness, ..."
void mu_setup_text(const mu_setup *p, double base_rate, char *out, size_t size);

#endif

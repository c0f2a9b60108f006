// SPDX-License-Identifier: Apache-2.0
// config.h - one way to train a job on a cluster, as plain data: what `muster plan` ranks.
//
// A configuration is what `cluster:` of a job says and nothing else: mu_config_as_edits writes it as edits of
// the job, an overlay file holds the same, and `muster train --plan FILE` takes it. What comes of it is decided
// by ps/setup.c as for any job, so a plan can promise nothing that a job cannot have.
//
//     plan:                    the overlay file
//       nodes: 1               ranks to start (mpirun -n); the job cannot say it
//     set:                     edits of the job, in this order
//       cluster.learners: 4
//       cluster.protocol: async
#ifndef MU_PLAN_CONFIG_H
#define MU_PLAN_CONFIG_H

#include "ps/protocol.h"

typedef struct mu_config {
    int      nodes;                     // ranks, one a node
    int      learners;                  // of all nodes
    int      workers;                   // processes of each learner
    int      server_groups;             // copies of the weights; 1 = all learners share one
    int64_t  sync_every;                // updates between merges; 0 = they never merge, or there is one copy
    char     merge[16];                 // rule of merges; "" = none
    char     protocol[48];              // as the job has it: "async", "{type: softsync, n: 2}"
    mu_class_ref how;                   // the same, bound (mu_config_bind_protocol); borrowed
    mu_architecture architecture;       // of several nodes
    int64_t  mu;                        // samples of a gradient
    bool     own_mu;                    // the job is told mu; else learners share its batch
    mu_server_place server;             // AUTO: the protocol has none, or ps/setup.c is to decide
    int      server_threads;            // of a server process
    bool     auto_cut;                  // workers: `partition: auto`; else by batch
} mu_config;

enum { MU_CONFIG_EDITS = 16, MU_CONFIG_EDIT = 120 };

typedef struct mu_config_edits {        // for mu_job_load
    int      nodes;                     // ranks that it is meant for
    int      n;
    char     text[MU_CONFIG_EDITS][MU_CONFIG_EDIT];     // "cluster.learners=4"
} mu_config_edits;

// Keys of the job's section that say the same under other names (`groups`, `servers`) are taken back by it.
void mu_config_as_edits(const mu_config *c, mu_config_edits *out);
// "8 learners, async, mu 4" as a person says it.
void mu_config_text(const mu_config *c, char *out, size_t size);
bool mu_config_same(const mu_config *a, const mu_config *b);

// What a protocol's text means, in the arena's memory. MU_EUSAGE: there is none such.
MU_MUST_CHECK mu_status mu_config_bind_protocol(mu_arena *a, const char *text, mu_class_ref *out, mu_err *err);
// A scalar, or one map of scalars, as one writes it behind `--set key=`. False: it is something else, or too long.
bool mu_config_write_value(const mu_node *v, char *out, size_t size);
static inline const mu_protocol_class *mu_config_class(const mu_config *c) {
    return (const mu_protocol_class *)(const void *)c->how.plugin;
}

static inline int mu_config_processes(const mu_config *c) { return c->learners * c->workers; }
// Those of one node.
static inline int mu_config_node_processes(const mu_config *c) {
    return (mu_config_processes(c) + c->nodes - 1) / c->nodes;
}

// The overlay file; `about` is what was predicted, one or more lines that become comments.
MU_MUST_CHECK mu_status mu_config_save(const mu_config *c, const char *about, const char *path, mu_err *err);
// MU_EJOB with the place in the file. Only keys of `cluster` are taken: a plan changes nothing else.
MU_MUST_CHECK mu_status mu_config_load(const char *path, mu_config_edits *out, mu_err *err);
MU_MUST_CHECK mu_status mu_config_parse(const char *path, const char *text, size_t size, mu_config_edits *out,
                                        mu_err *err);
#endif

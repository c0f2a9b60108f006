// SPDX-License-Identifier: Apache-2.0
// config.h - one way to train a job on a cluster, as plain data: what `muster plan` ranks.
//
// A configuration is what `cluster:` and a few other keys of a job say, and nothing else: mu_config_edits
// writes it as edits of the job, an overlay file holds the same, and `muster train --plan FILE` takes it. What
// comes of it is decided by ps/setup.c as for any job, so a plan can promise nothing that a job cannot have.
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
    mu_architecture architecture;       // of several nodes
    int64_t  mu;                        // samples of a gradient
    mu_server_place server;
    int      server_threads;
    bool     auto_cut;                  // workers: `partition: auto`; else by batch
} mu_config;

typedef struct mu_config_edits {        // for mu_job_load
    int      n;
    const char *edit[16];               // "cluster.learners=4"
    char     text[16][96];
} mu_config_edits;

void mu_config_as_edits(const mu_config *c, mu_config_edits *out);
// "8 learners, async, mu 4" as a person says it.
void mu_config_text(const mu_config *c, char *out, size_t size);
bool mu_config_same(const mu_config *a, const mu_config *b);
static inline int mu_config_processes(const mu_config *c) { return c->learners * c->workers; }
// Those of one node.
static inline int mu_config_node_processes(const mu_config *c) {
    return (mu_config_processes(c) + c->nodes - 1) / c->nodes;
}

// The overlay file: YAML of the keys that edits set, with a comment that says what was predicted.
MU_MUST_CHECK mu_status mu_config_save(const mu_config *c, const char *about, const char *path, mu_err *err);
MU_MUST_CHECK mu_status mu_config_load(const char *path, mu_config_edits *out, mu_err *err);
#endif

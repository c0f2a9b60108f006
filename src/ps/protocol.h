// SPDX-License-Identifier: Apache-2.0
// protocol.h - synchronisation protocols (p_<name>.c) and the section `cluster:`.
//
// A protocol answers questions of the core; everything else (queues, fences, leases, the ledger) is the same
// for all of them. Every hook but expected_staleness may be left out, and then has the meaning that is given
// with it. A run may begin with a warm start: then mu_warm_protocol is in force first. Behind it several
// protocols may follow each other (mu_core_phase). No other code asks which protocol it is.
#ifndef MU_PS_PROTOCOL_H
#define MU_PS_PROTOCOL_H

#include "job/bind.h"
#include "ops/half.h"
#include "ps/stale.h"

struct mu_setup;
struct mu_exchange;

typedef enum mu_choice {        // of the user, to which a protocol may object
    MU_CHOICE_SERVER,           // a server is to apply gradients
    MU_CHOICE_LOCKS,            // copies of the weights are to be of one version
    MU_CHOICE_RATE_EACH,        // the rate follows the staleness of each gradient
    MU_CHOICE_RECORD,           // the run is to be repeated
    MU_CHOICE_CLIP_NORM,        // gradients are clipped by their norm
    MU_CHOICE_WORKERS,          // several processes compute a gradient
    MU_CHOICE_SERVER_GROUPS,    // several copies of the weights are trained, and merged now and then
} mu_choice;

typedef struct mu_objection { const char *why, *instead; } mu_objection;

typedef struct mu_protocol_class {
    MU_PLUGIN_HEAD;

    // ---- in the core (core.h) ----
    // May this learner begin a gradient now? A free queue slot is assured. Default: yes.
    bool    (*may_begin)(const mu_core *c, const mu_core_learner *l);
    // How many of the waiting gradients, oldest first, make an update now; -1 = wait. Default: none ever
    // waits, a gradient that is pushed is in the weights already, and the clock ticks.
    int     (*take)(const mu_core *c, int waiting);
    // The version of the weights for the gradient that l begins. Default: the clock's.
    int64_t (*granted)(const mu_core *c, const mu_core_learner *l);
    // A gradient's weight in its update. Default: by the rate rule (mu_core_rate_weight).
    float   (*weight)(const mu_core *c, int64_t staleness, int parts);
    // How many updates, from the first one, are made in step. Default: those of the warm start.
    int64_t (*sync_versions)(int64_t warm_versions);
    // Which learner may begin because this update was formed; -1 = all. Default: the one whose gradient was
    // taken; all when it were several, as some now wait for other learners instead of for the server.
    int     (*wakes)(const mu_core *c);

    // ---- at set-up (setup.c) ----
    // n of this protocol with `learners`: the expected mean staleness. state: the bound fields.
    double  (*expected_staleness)(const void *state, int learners);
    // Fills splits, bound, own and rate_rule; out->learners is set. Default: 1, 0, 0, MU_RATE_MEAN.
    void    (*configure)(const void *state, mu_core_config *out);
    // The key that asks for a number of learners, and that number. Default: one is enough.
    const char *(*needs)(const void *state, int64_t *learners);
    // Steps of the warm start; asked: by the job, NAN = it leaves that open; end: those of the training.
    // Default: an epoch, at most a fifth of the training (mu_warm_steps).
    double  (*warm_steps)(double asked, double epoch, double end);
    // Sets rows, global_batch and rate_factor from the job's batch. asked: mu, 0 = as the batch says.
    // Default: mu_share_rounded.
    void    (*share_batch)(struct mu_setup *p, int64_t asked);
    // Why this choice does not go together with the protocol. Default: it does, false.
    bool    (*objects)(mu_choice choice, mu_objection *out);

    // ---- in shared memory (exchange.h) ----
    // How gradients get into the weights after the warm start. Default: mu_exchange_queue.
    const struct mu_exchange *exchange;
    bool    own_histories;              // each learner's history sees its own gradients alone
    // Of a learner, that go into its own history in one update. Default: 1.
    int     (*gathers)(const void *state);
    bool    counts_gradients;           // the clock ticks for each; it does for each update elsewhere
} mu_protocol_class;

extern const mu_protocol_class *const mu_warm_protocol;         // p_hardsync.c

extern const mu_registry mu_protocols;
const mu_protocol_class *mu_protocol_at(int index);
int mu_protocol_index(const char *name);        // -1 if unknown

typedef enum mu_server_place {          // who applies updates
    MU_SERVER_AUTO,
    MU_SERVER_BESIDE,                   // learners, while they would wait
    MU_SERVER_PROCESS,                  // a process of its own
    MU_SERVER_BOTH,                     // the process, and learners that would wait
    MU_SERVER_RANK_0,                   // the parent of rank 0 (learners/root.h); no choice of the user's
} mu_server_place;

// How several ranks train one copy of the weights by any protocol (learners/relay.h).
typedef enum mu_architecture {
    MU_ARCHITECTURE_AUTO,               // they do not: one server group in step (joint.h), or some that merge
    MU_ARCHITECTURE_BASE,               // every learner sends its gradients to rank 0, and waits for weights
    MU_ARCHITECTURE_ADV,                // a rank sends the sum of its learners' gradients, and waits
    MU_ARCHITECTURE_ADV_STAR,           // it goes on meanwhile; weights come down a tree of ranks
} mu_architecture;
enum { MU_RELAY_GROUPS = 1024 };        // groups that send their gradients to rank 0, at most
typedef enum mu_weights_mode { MU_WEIGHTS_SHARED, MU_WEIGHTS_COPY } mu_weights_mode;

typedef struct mu_protocol_turn {       // of a list of protocols, before the last
    mu_class_ref   protocol;
    mu_interval    until;               // of the training: steps or epochs
    const mu_node *node;
} mu_protocol_turn;

typedef enum mu_gradient_forms { MU_GRADIENTS_AUTO, MU_GRADIENTS_DENSE } mu_gradient_forms;

typedef struct mu_cluster_opts {        // `cluster:`, bound by mu_cluster_bind
    int64_t      learners;              // MU_AUTO: one per core, or per `workers` of them
    int64_t      groups;                // the same under SINGA's name; 0 = not given
    int64_t      workers;               // processes that compute a gradient together
    int          partition;             // how they share layers that do not say so: mu_partition_opts.split
    int          gradients;             // mu_gradient_forms
    int          wire;                  // mu_half
    mu_class_ref protocol;              // of a list the last
    int          n_before;              // others before it
    mu_protocol_turn before[MU_CORE_PHASES];    // one more than phases, as the first may be in step
    int64_t      batch;                 // mu; 0 = train.batch / learners
    int          server;                // mu_server_place
    int64_t      server_threads;
    int64_t      servers;               // the same under SINGA's name; 0 = not given
    int64_t      server_groups;         // copies of the weights, each with its learners
    int64_t      sync_every, sync_parts;        // updates of a group between two merges of a parameter
    mu_class_ref merge;                 // ps/merge.h
    int          architecture;          // mu_architecture
    int          weights;               // mu_weights_mode
    bool         locks;                 // copies are taken and weights written under a read-write lock
    int          rate_rule;             // 0 auto, else 1 + mu_rate_rule
    int          momentum_rule;         // 0 auto, else 1 + mu_momentum_rule
    mu_interval  warm_start;            // in step for this long first
    double       hang_timeout;          // seconds without a sign of life
    int64_t      max_losses;            // learners lost in a row without one finished gradient: then give up
    bool         pin;
} mu_cluster_opts;

extern const mu_field mu_cluster_fields[];

// A protocol while it is in force, behind a warm start.
typedef struct mu_setup_phase {
    int32_t  protocol;                  // index into mu_protocols
    int64_t  until;                     // samples of the training; INT64_MAX = its end
    int32_t  splits, bound, own;        // by the protocol, see mu_core_config
    mu_rate_rule rate_rule;
    double   expected_staleness;
    mu_stale stale;
} mu_setup_phase;

// What a run will do, decided once from the job, the machine and the data; printed at start.
typedef struct mu_setup {
    int      learners;                  // lambda
    int      workers;                   // of each learner
    int      server_groups;             // learners are spread over them evenly
    int nodes, node; // ranks, over which server groups are spread evenly, and this one; 0 = 1
    int64_t  sync_every, sync_parts;
    mu_class_ref merge;                 // how they bring their weights together
    mu_architecture architecture;       // of several ranks
    const mu_protocol_class *protocol;
    int64_t  rows;                      // mu
    int64_t  global_batch;              // mu * lambda
    int64_t  reference_batch;           // B: train.batch as the job file has it
    mu_server_place server;
    int      server_threads;            // of the server process; 0 = there is none
    mu_weights_mode weights;
    bool     locks, pin, dense;         // dense: gradients, whatever would be smaller
    mu_half  wire;                      // floats of sums of gradients between ranks
    mu_rate_rule rate_rule;
    double   expected_staleness;
    mu_stale stale;                     // where gradients are not made in step
    double   momentum, momentum_rate;   // the updater's own, and what its change does to the rate
    mu_stale_step momentum_now;     // behind the first update of stale gradients
    double   rate_factor;               // on the schedule's rate
    int64_t  warm_versions;
    int64_t  soft_steps;                // without a warm start the rate rises over these; 0 = not at all
    double   hang_timeout;
    int64_t  max_losses;
    int32_t  splits, bound, own;        // by the protocol, see mu_core_config
    int      n_phases;                  // the last is `protocol` with all that stands here of it
    mu_setup_phase phase[MU_CORE_PHASES];
    bool     in_turn;                   // the job has a list of protocols: a warm start is its first
} mu_setup;

// What one server group makes of it: its learners, and its part of the batch.
mu_setup mu_setup_of_group(const mu_setup *p);

static inline int mu_setup_nodes(const mu_setup *p) { return p->nodes > 1 ? p->nodes : 1; }
// One server group on all ranks: each makes every update (learners/joint.h).
static inline bool mu_setup_is_joint(const mu_setup *p) { return p->nodes > 1 && p->server_groups == 1; }
// Who brings gradients to a protocol core: learners of a server group, or groups of learners.
int mu_setup_contributors(const mu_setup *p);
// Rank 0 alone has the weights that are trained (learners/root.h). The others, and rank 0 itself, have groups
// of learners that compute gradients for it in step: these take the place of server groups in all counts.
static inline bool mu_setup_is_relayed(const mu_setup *p) {
    return p->nodes > 1 && p->architecture != MU_ARCHITECTURE_AUTO;
}
// Server groups that have weights of their own, and merge them.
static inline bool mu_setup_merges(const mu_setup *p) {
    return p->server_groups > 1 && !mu_setup_is_relayed(p);
}
// Server groups of this rank: numbers first to first + count - 1 of all.
static inline int mu_setup_own_groups(const mu_setup *p) {
    return mu_setup_is_joint(p) ? 1 : p->server_groups / mu_setup_nodes(p);
}
static inline int mu_setup_first_group(const mu_setup *p) {
    return mu_setup_is_joint(p) ? 0 : p->node * mu_setup_own_groups(p);
}
// Ranks that the workers of a learner are spread over: where there are fewer learners than ranks.
static inline int mu_setup_ranks_of_learner(const mu_setup *p) {
    return mu_setup_is_joint(p) && p->learners < p->nodes ? p->nodes / p->learners : 1;
}
// Learners of a server group that are on this rank, whole or in part.
static inline int mu_setup_own_learners(const mu_setup *p) {
    return mu_setup_is_joint(p) ? p->learners * mu_setup_ranks_of_learner(p) / p->nodes : p->learners;
}
static inline int mu_setup_first_learner(const mu_setup *p) {
    return mu_setup_is_joint(p) ? p->node / mu_setup_ranks_of_learner(p) * mu_setup_own_learners(p) : 0;
}
static inline int mu_setup_processes(const mu_setup *p) { return p->learners * p->workers; } // of all ranks
// Their processes: worker w of learner l is process l * workers + w.
static inline int mu_setup_own_processes(const mu_setup *p) {
    return mu_setup_is_joint(p) ? mu_setup_processes(p) / p->nodes : mu_setup_processes(p);
}
static inline int mu_setup_first_process(const mu_setup *p) {
    return mu_setup_is_joint(p) ? p->node * mu_setup_own_processes(p) : 0;
}

typedef struct mu_setup_task {        // what a setup is made for
    int64_t batch;                      // train.batch
    int64_t n_records;                  // of the training data; 0 = not known yet: warm_versions is not final
    int64_t steps;                      // the training ends after these or after `epochs`; 0 = not by them
    double  epochs;
    int     cores;                      // of all ranks
    int     nodes, node;                // as in mu_setup
    const mu_updater *updater;          // NULL = not known
} mu_setup_task;

// Hooks as they are where a protocol leaves them out.
double  mu_warm_steps(double asked, double epoch, double end);
void    mu_share_rounded(mu_setup *p, int64_t asked);
bool    mu_protocol_objects(const mu_protocol_class *p, mu_choice choice, mu_objection *out);
int     mu_protocol_wakes(const mu_protocol_class *p, const mu_core *c);
// The updates made in step, from the first one; INT64_MAX = all.
int64_t mu_setup_sync_versions(const mu_setup *p, int64_t warm_versions);

// Problems go to the diags; NULL when there were any. node may be NULL: one learner. ranks: over which server
// groups are spread; 0 = 1.
mu_cluster_opts *mu_cluster_bind(mu_binder *b, const mu_node *node, int ranks);
// Problems (batch smaller than learners, ...) are reported at the places of the keys: MU_EJOB.
mu_status mu_setup_make(mu_binder *b, const mu_node *node, const mu_cluster_opts *o,
                        const mu_setup_task *task, mu_setup *out, mu_err *err);
// Which is in force, of an update that begins behind so many samples and that is not made in step.
int mu_setup_phase_of(const mu_setup *p, int64_t samples);
// mu_core_rate_share by the rule of the protocol, the warm start's where `warming`.
double mu_setup_rate_share(const mu_setup *p, int phase, bool warming, int64_t staleness);
// What the rate of stale gradients is multiplied with while a training without a warm start is young.
double mu_setup_softness(const mu_setup *p, int64_t step);
// Is it the setup of a run that noted these of its own?
bool mu_setup_is(const mu_setup *p, const char *protocol, int learners, int64_t rows, int64_t global_batch);
// Learners change the weights themselves: nothing of a server is left to decide.
bool mu_setup_has_no_server(const mu_setup *p);
// "4 learners, 2-softsync, mu 16, mu*lambda 64 (as the job's batch), rate 0.01 / 2 by staleness, ..."
void mu_setup_text(const mu_setup *p, double base_rate, char *out, size_t size);

#endif

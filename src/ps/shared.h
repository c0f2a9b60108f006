// SPDX-License-Identifier: Apache-2.0
// shared.h - the shared memory of a run: one region, this picture.
//
//   +------------------+ 0
//   | mu_shared_head    |  sizes, offsets, the state of the run, bells, the clock as one atomic word
//   +------------------+
//   | lock, core x 2   |  the protocol core twice: changes are made in the spare one and switched over, so
//   |                  |  a process that dies inside leaves the last good state
//   +------------------+
//   | rank x R         |  of several ranks: the times of each one's learners
//   +------------------+
//   | process x P      |  pid, incarnation, pulse, times, counters, staleness histogram of each worker
//   +------------------+
//   | executor x E     |  processes or server threads: the slice in hand and its undo piece
//   +------------------+
//   | workers x lambda |  what the workers of a learner tell each other (workers.h)
//   +------------------+
//   | channels x lambda|  the bridges between their nets (net/partition.h)
//   +------------------+
//   | update           |  the run of updates in progress: slices claimed and done, version of each slice,
//   |                  |  and who had it last
//   +------------------+
//   | extra            |  what learners/ keeps here: request to and answer from the statistics process
//   +------------------+
//   | journal          |  of a recorded run only: the updates, on their way into the log
//   +------------------+  page
//   | weights          |  one copy, changed in place
//   | history x slots  |
//   +------------------+
//   | own blocks       |  of each learner, and room of the exchange (exchange.h), where it wants them
//   +------------------+
//   | snapshot         |  weights and history of one moment, for evaluation and checkpoints
//   +------------------+
//   | slots            |  lambda x 2 gradients (message.h): the queues; a slot is the gradient itself
//   +------------------+
//
// Each server group has such a region, with learners, core and weights of its own (merge.h). The parent has
// all of them open; who attaches finds each by the one before.
//
// Who writes what: a learner its own row and its slots; the holder of the lock the core; an executor the
// slices it has claimed; the parent the head. Nothing else is written by two sides.
#ifndef MU_PS_SHARED_H
#define MU_PS_SHARED_H

#include "comm/lock.h"
#include "comm/region.h"
#include "comm/wait.h"
#include "net/partition.h"
#include "ps/client.h"
#include "ps/journal.h"
#include "ps/message.h"
#include "ps/protocol.h"
#include "ps/slices.h"

#include <stdatomic.h>

#define MU_NAP_NS 20000000      // longest sleep before looking again: a ring lost with its sender costs this

enum { MU_STALENESS_BINS = 128 };       // the last bin holds everything beyond

typedef enum mu_run_state { MU_RUN_STARTING, MU_RUN_TRAINING, MU_RUN_ENDING, MU_RUN_ENDED } mu_run_state;

// One process: worker w of learner l is row l * workers + w. Written by itself except pid and losses. What
// the core tells of a learner is in the row of its first worker.
typedef struct mu_shared_learner {
    _Alignas(64) _Atomic int32_t pid;   // 0 = none; by the parent
    _Atomic uint32_t incarnation;
    _Atomic uint64_t pulse;             // counts layers passed: the sign of life
    _Atomic int64_t  pulse_ns;          // clock of its last question whether it may begin
    mu_bell          turn;              // it may be allowed to begin now
    mu_bell          leases;            // its prefetch thread may be given samples now
    _Atomic int32_t  doing;             // mu_doing
    _Atomic int64_t  samples, gradients;        // done by all incarnations
    _Atomic int64_t  records;           // read from the data, for what is done and ahead of it
    // of all incarnations; computing is without waiting, and waiting that for data, weights and permission
    _Atomic int64_t  compute_ns, wait_ns, apply_ns;
    _Atomic int64_t  bridge_ns;         // of wait_ns: for values of other workers
    _Atomic int64_t  version;           // of the weights it computes on
    _Atomic int32_t  losses;            // times it was lost; by the parent
    _Atomic int64_t  first_pulse_ns;    // first sign of life of this incarnation; 0 = none yet
    _Atomic double   loss, accuracy;    // of its last gradient
    _Atomic double   loss_sum, accuracy_sum;    // over gradients, for the parent's means
    _Atomic int64_t  loss_n;
    _Atomic int64_t  n_stale, stale_sum, stale_max;     // staleness of its applied gradients; by the applier
    _Atomic int64_t  stale_hist[MU_STALENESS_BINS];
    _Atomic int32_t  own_filled;        // its own blocks hold what they should
    _Atomic int64_t  mirror_version;    // of its own weights (mirror.h)
    _Atomic int32_t  mirror_busy;       // it writes its own weights outside a step, or gives a copy of them
    _Atomic int32_t  mirror_ended;      // it reads no slots any more
    _Atomic int32_t  slow_us;           // `chaos`: sleep this long in each step
    _Atomic uint64_t values_moved, weights_moved;       // bytes (moved.h), by all incarnations
    _Atomic int32_t  ended;             // as the protocol told it to
    _Atomic int32_t  failed;            // mu_status it ended with; error below is valid
    mu_err           error;
} mu_shared_learner;

// Who applies: process i while it waits, or server thread i - processes.
typedef struct mu_executor {
    _Alignas(64) _Atomic uint64_t pulse;        // of a server thread: its turns, the sign of life
    _Atomic uint64_t moved;             // bytes of gradients that others made (moved.h)
    mu_undo  undo;
} mu_executor;

// One rank: what its learners did with their time. Of rank 0, which alone is looked at; by its parent.
typedef struct mu_shared_rank { _Atomic int64_t compute_ns, wait_ns; } mu_shared_rank;

enum { MU_MAX_EXECUTORS = 4095 };

typedef struct mu_update_part {
    mu_gradient_id id;
    int32_t        slot;
    float          weight;              // by the protocol, times the gradient's own scale
} mu_update_part;

typedef struct mu_run_update {           // one of a run
    int32_t          begin, end;        // its parts
    int32_t          skip;              // a part is not finite: nothing is applied
    double           rate;
    mu_rule_step     rule_step;
} mu_run_update;

typedef struct mu_shared_update {        // the run in progress; filled under the lock before it opens
    _Alignas(64) _Atomic int64_t number;        // last version it makes; 0 = none yet
    _Atomic int32_t  open;              // executors may claim
    _Atomic int32_t  next;              // slice to look at next, from the last one: a hint
    _Atomic int32_t  left;              // slices not done: a hint
    int32_t          n_updates;         // they make version number - n_updates + 1 to number
    mu_run_update    update[MU_CORE_RUN];
    mu_update_part   part[];            // (mu_core_most_parts)
} mu_shared_update;

typedef struct mu_shared_slice {
    // number * 4096 + executor + 1 once claimed for an update, number * 4096 while free for it
    _Alignas(64) _Atomic int64_t claim;
    _Atomic int64_t  version;           // of the weights in this slice
    _Atomic size_t   done;              // floats finished
    _Atomic uint64_t written;           // bytes, ever (moved.h); by who has claimed it
} mu_shared_slice;

typedef struct mu_slot_head {           // before each message
    _Alignas(64) int32_t bad;           // loss or gradient not finite: the update is skipped
    float    scale;                     // on this gradient, by the learner's norm clipping
    double   loss;                      // for the journal
    int64_t  global_rows;
} mu_slot_head;

typedef struct mu_shared_head {
    char     magic[8];                  // "MUSTER1"
    uint32_t head_bytes;                // sizeof of this struct: `status` of another version refuses
    int32_t  n_learners, n_workers, n_processes;        // the last is the product
    int32_t  own_first, own_n;          // learners of this rank; the others are far, on other ranks
    int32_t  n_ranks;                   // 0 = the training is on one, or this is not the first group
    int32_t  own_process, own_processes;        // and their processes: of a learner perhaps some alone
    int32_t  group, n_groups;           // which server group, and of how many
    _Atomic int32_t next_fd; // of the parent: the region of the next group; 0 = this is the last one
    int32_t n_executors, n_params, n_slots_per_learner, n_history, n_slices;
    uint64_t count;                     // floats per block
    uint64_t slot_bytes;                // head and the messages of all workers
    uint64_t workers_stride, channels_stride;
    uint64_t total_bytes;
    uint64_t at_lock, at_core, core_bytes, at_rw, at_ranks, at_learners, at_executors, at_workers;
    uint64_t at_channels;
    uint64_t at_update, at_slices, at_owners;
    uint64_t at_extra, extra_bytes;
    uint64_t at_journal, journal_room;  // entries; 0 = the run is not recorded
    uint64_t at_weights, at_history[MU_MAX_SLOTS], at_snapshot, at_snapshot_history[MU_MAX_SLOTS], at_slots;
    uint64_t at_own, own_stride;        // learners' own blocks, own_blocks each
    uint64_t at_exchange;               // room of the exchange
    int32_t  own_blocks;
    char     run_id[64], job_name[104], protocol[32];
    char     run_dir[512];
    int64_t  rows, global_batch, n_records;
    int64_t  end_steps;                 // planned, 0 = open
    double   end_epochs;
    double   rate_factor;
    int64_t  warm_end;                  // version the warm start ends with
    int64_t  sync_end;                  // version up to which updates are made in step; INT64_MAX = all
    int64_t  start_ns;
    int32_t  alone;                     // one learner, in the parent itself: no weights and no core here
    int32_t  counts_moved;              // bytes that move are counted (moved.h)
    int64_t  first_sample;              // where the run began
    mu_setup setup;               // the pointer in it is only valid in the run's own processes

    _Atomic int32_t  state;             // mu_run_state
    _Atomic int32_t  stop_asked;        // `muster stop`: not 0 = save and end
    _Atomic int32_t  server_pid, evaluator_pid, parent_pid;
    _Atomic int32_t  core_at;           // which of the two cores is the good one
    _Atomic int64_t  version;           // the clock, to be read without the lock
    _Atomic int64_t  samples;           // applied
    _Atomic int64_t  halt;              // of the core (mu_core_set_halt)
    _Atomic int32_t  phase;             // of the setup, in force behind the steps made in step
    _Atomic int64_t  phase_version;     // the clock when it came into force; -1: the run began under it
    _Atomic int32_t  waiting;           // gradients in the queues and in the update in progress
    _Atomic double   rate;              // effective one of the last update (mu_effective_rate_at)
    _Atomic double   time_share;        // by the parent at every look; schedules that follow the time read it
    _Atomic int64_t  server_losses, skipped_updates;
    _Atomic int64_t  torn_updates;      // slices, mirrors that went on half written (asynchronous protocols)
    _Atomic int32_t  mirror_wanted;     // learner + 1 that waits for a copy; negative while it is being given
    _Atomic int64_t  apply_ns;          // spent applying, all executors
    _Atomic int64_t  merges, merged_bytes;      // with other groups: parts merged, values given and taken
    _Atomic uint64_t held_pulse;        // by the parent: other groups move while this one waits to be merged
    _Atomic int64_t  lock_repairs;      // times a process died holding the lock
    _Atomic int32_t  holder;            // pid that has the lock, 0 = none
    _Atomic uint32_t held;              // times it was taken: the same holder, or again?
    _Atomic int64_t  pause;             // not 0 = no update begins (snapshot in progress)
    mu_bell  work;                      // a gradient was pushed: servers look
    mu_bell  turn;                      // the clock ticked or a slice is done: learners that wait look
    mu_bell  parent;                    // something for the watchdog
    _Atomic int32_t  server_failed;     // mu_status the server ended with; server_error is valid
    mu_err           server_error;
} mu_shared_head;

typedef struct mu_share {                // what one worker gives to each gradient of its learner
    const mu_params  *params;           // its own: all parameters, or some, or pieces of them
    mu_message_layout message;
    size_t            at;               // where its message begins in a slot
    int              *index;            // (pieces) of its parameter that is this one; -1 = it has none
    int              *piece;            // (its parameters) the same the other way
} mu_share;

typedef struct mu_shared {               // a process's view; pointers into its mapping
    mu_region         region;
    struct mu_shared *next;             // (attached) the region of the next server group; owned
    mu_shared_head    *head;
    mu_lock          *lock;
    mu_rwlock        *rw;
    mu_shared_rank   *rank;             // (n_ranks)
    mu_shared_learner *learner;
    mu_executor      *executor;
    mu_shared_update  *update;
    mu_shared_slice   *slice;
    _Atomic int32_t   *owner;           // (slices) executor + 1 that had it last: it is in that core's cache
    float            *weights, *history[MU_MAX_SLOTS];
    float            *snapshot, *snapshot_history[MU_MAX_SLOTS];
    char             *slots;
    // in the run's own processes only
    const mu_updater     *updater;
    mu_params            *params;       // value and slot[] point into the region
    const mu_params      *pieces;       // what is sent, cut into slices and applied: params, or pieces
    mu_share             *share;        // (workers)
    const mu_partition   *partition;    // NULL = learners have one worker
    // What `pieces` is where there is a partition, or another group's region has `params`: owned, with the
    // blocks of this one.
    mu_params            *own_pieces;
    mu_bell              *parent;       // of the first group: the parent waits for one alone
    mu_slice_list         slices;
    const mu_setup *setup;
    int                  *first_slice;  // (pieces + 1) slices of piece i: [first[i], first[i + 1])
    void                 *extra;
    void                 *exchange_room;
    mu_journal           *journal;      // NULL = the run is not recorded
    // Counted while waiting for the lock and applying. NULL = the parent: it watches the others, so it must
    // not wait long itself.
    _Atomic uint64_t     *pulse;
    int32_t               self;         // pid of this process, for `holder`
    float                *own_value, *own_slot[MU_MAX_SLOTS];   // where the parameters lived before
} mu_shared;

typedef struct mu_shared_opts {
    const char *run_id, *job_name, *run_dir;
    const mu_setup *setup;
    const mu_core_config  *core;
    mu_params        *params;           // moved into the region of the first group, copied into the others'
    const struct mu_shared *first;      // of the first server group; NULL = this is the first
    int               group, n_groups;  // 0 groups = 1
    int               n_ranks;          // below 2 = one
    const mu_partition *partition;      // of the net over the workers of a learner; NULL = one worker
    mu_net *const    *worker_net;       // (workers) their nets
    const mu_updater *updater;
    int64_t           n_records, end_steps;
    double            end_epochs;
    size_t            extra_bytes;
    bool              record;           // keep a journal; the setup copies weights under locks
    bool              alone;            // for being looked at only; params has none
} mu_shared_opts;

// Creates the region, moves the parameter set's values and history into it (params point there from now
// on) and initialises the core. On failure the parameters are untouched.
MU_MUST_CHECK mu_status mu_shared_create(const mu_shared_opts *o, mu_shared *out, mu_err *err);
// Attaches to a running job's regions, of all server groups, for `status`, `top`, `stop` and `chaos`: only
// the region's own parts.
MU_MUST_CHECK mu_status mu_shared_attach(pid_t pid, int fd, mu_shared *out, mu_err *err);
void mu_shared_close(mu_shared *g);       // moves nothing back: see mu_shared_release
// Gives the parameter set its own memory back, with these weights and history.
void mu_shared_give_back(mu_shared *g, const float *value, float *const *slot);
// Of the first group copies weights and history back into memory of the parameter set's own; then closes.
void mu_shared_release(mu_shared *g);

// The row of a process by its number among those of all attached groups; NULL = there is none.
mu_shared_learner *mu_shared_row(const mu_shared *g, int process);
int mu_shared_all_processes(const mu_shared *g);
// A learner's number among those of all server groups: messages have it.
static inline int mu_shared_number(const mu_shared *g, int learner) {
    return g->head->group * g->head->n_learners + learner;
}
// A far learner has a row and slots here, which the parent fills, and no process.
static inline bool mu_shared_is_far(const mu_shared *g, int learner) {
    return learner < g->head->own_first || learner >= g->head->own_first + g->head->own_n;
}
static inline bool mu_shared_is_far_process(const mu_shared *g, int process) {
    return process < g->head->own_process || process >= g->head->own_process + g->head->own_processes;
}
static inline bool mu_shared_has_far(const mu_shared *g) {
    return g->head->own_processes < g->head->n_processes;
}
// Workers of a learner of this rank that are here: [first, first + n) of its workers.
static inline int mu_shared_first_worker(const mu_shared *g) {
    return g->head->own_process % g->head->n_workers;
}
static inline int mu_shared_own_workers(const mu_shared *g) {
    return g->head->own_processes < g->head->n_workers ? g->head->own_processes : g->head->n_workers;
}
// Parents put the parts of gradients together that workers on all ranks make (learners/parts.h).
static inline bool mu_shared_has_parts(const mu_shared *g) {
    return mu_shared_has_far(g) && g->head->n_workers > 1;
}
// The parent sends gradients of its learners to other ranks, parameter by parameter as they come.
static inline bool mu_shared_is_sent(const mu_shared *g) {
    return mu_shared_has_far(g) || g->head->setup.server == MU_SERVER_RANK_0;
}
// Of the memory of rank 0, which alone is looked at: the rank of a far process; 0 = it is not far.
static inline int mu_shared_far_rank(const mu_shared *g, int process) {
    if (!g->head->own_processes || !mu_shared_has_far(g)) return 0; // or it is not filled yet
    return mu_shared_is_far_process(g, process) ? process / g->head->own_processes : 0;
}
// Grows as long as any process of the group does something but wait.
uint64_t mu_shared_done(const mu_shared *g);

static inline mu_slot_head *mu_shared_slot_head(const mu_shared *g, int learner, int slot) {
    const size_t i = (size_t)learner * (size_t)g->head->n_slots_per_learner + (size_t)slot;
    return (mu_slot_head *)(void *)(g->slots + i * g->head->slot_bytes);
}
static inline struct mu_workers_row *mu_shared_workers(const mu_shared *g, int learner) {
    return (struct mu_workers_row *)(void *)(g->region.base + g->head->at_workers +
                                             (uint64_t)learner * g->head->workers_stride);
}
// The row of a learner's first worker.
static inline mu_shared_learner *mu_shared_first(const mu_shared *g, int learner) {
    return &g->learner[learner * g->head->n_workers];
}
static inline char *mu_shared_slot(const mu_shared *g, int learner, int slot) {
    return (char *)(mu_shared_slot_head(g, learner, slot) + 1);
}

// Is this version made in a warm start, or the first one there is?
static inline bool mu_shared_is_warming(const mu_shared *g, int64_t version) {
    return version <= g->head->warm_end;
}
// Is it made in step, always or in a warm start? Then it is a function of the job, also after deaths.
static inline bool mu_shared_is_in_step(const mu_shared *g, int64_t version) {
    return version <= g->head->sync_end;
}

// Copies weights and history as a checkpoint has them.
void    mu_shared_copy_out(mu_shared *g, float *value, float *const *slot);
int64_t mu_shared_updates(const mu_shared *g, int64_t version);         // whole ones that are in a version
void    mu_shared_lost(mu_shared *g, int process);      // it was reaped: puts right what it left
size_t  mu_shared_shift(int block);     // bytes by which block k (0 = weights) begins behind a page

// Wakes every process that waits: after a death, a stop, the end of a pause.
void mu_shared_ring_all(mu_shared *g);

// ---- the core, crash-safe ----
// Takes the lock and hands out the spare core, brought to the state of the good one; commit switches them,
// cancel does not. NULL after timeout: a process holds the lock too long (the watchdog will kill a hung
// holder).
mu_core       *mu_shared_begin(mu_shared *g);
void           mu_shared_commit(mu_shared *g);            // switch, then unlock
void           mu_shared_switch(mu_shared *g);            // the lock stays, for what must follow at once
void           mu_shared_unlock(mu_shared *g);
void           mu_shared_cancel(mu_shared *g);

#endif

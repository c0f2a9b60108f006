// SPDX-License-Identifier: Apache-2.0
// ranks.h - deterministic simulator of two levels: learners in groups on ranks, and the root that they train.
//
// As sim.h, for trainings over several ranks (learners/relay.h). Real are the root (learners/root.h) with its
// core, the core of each group, and the frames (ps/wire.h), packed when they depart and unpacked when they
// arrive. The relay between them, which lives on shared memory and a transport, is acted here, step by step
// as relay.c has it; so are the learners and the links, each of which keeps its frames in order and no more.
//
//   ranks_plan.c    what a seed draws
//   ranks_model.c   what the root takes for a training; drivers that are wrong on purpose
//   ranks_world.c   learners, links, faults, the loop of events
//   ranks_relay.c   what a rank's parent does in a look
//   ranks_wire.c    what it does with frames, and the weights
//   ranks_book.c    the simulator's own account, and what must be true
//
// The model is two parameters of one float for each group (and what fills the lines): one is added up by the
// relay, one travels in messages. The gradient of a group is a small whole number at its own float, which
// follows from (group, step, learner) alone: what is counted twice, left out, torn or overwritten changes the
// weights, which the book knows before each update is made.
#ifndef MU_TEST_SIM_RANKS_H
#define MU_TEST_SIM_RANKS_H

#include "learners/relay.h"
#include "sim/sim.h"

enum {
    RANKS_MOST = 16,
    RANKS_GROUPS = 64,
    RANKS_OWN = 32,                 // learners of a group
    RANKS_PART = 64,                // floats of a parameter: at least RANKS_GROUPS
    RANKS_FLOATS = 2 * RANKS_PART,
    RANKS_CHUNK = RANKS_PART,       // of the weights, in a frame
    RANKS_CHUNKS = RANKS_FLOATS / RANKS_CHUNK,
    RANKS_SAMPLES = 1 << 17,
    RANKS_HISTORY = 1 << 14,        // versions whose weights are remembered
    RANKS_KEPT = 4,                 // gradients of a group that the book keeps, at least MU_CORE_SLOTS + 1
    RANKS_DEALT = 64,               // steps of a group that are dealt and not computed, at most
    RANKS_FRAME = 4096,             // bytes
    RANKS_LETTERS = 1 << 14,
};

typedef enum ranks_kind {
    RANKS_START,                    // a learner: joins
    RANKS_ASK, RANKS_MARK,          // asks; has its first gradient, of the last layer
    RANKS_DONE, RANKS_LATE,         // has all; the push of one that hung
    RANKS_LOST,                     // the watchdog has seen a death
    RANKS_LOOK,                     // a rank: its parent looks
    RANKS_DEPART, RANKS_ARRIVE,     // a link
    RANKS_LET_GO,                   // updates may begin
    RANKS_FAULT,
    RANKS_STOP,                     // a rank is asked to stop
} ranks_kind;

typedef enum ranks_state {
    RANKS_GONE, RANKS_STARTING, RANKS_ASKING, RANKS_HELD, RANKS_READING, RANKS_COMPUTING, RANKS_ENDED,
} ranks_state;

typedef struct ranks_learner {
    uint8_t  state;                 // ranks_state
    uint32_t mark, incarnation;
    int32_t  slow;                  // sixteenths
    mu_grant grant;
    uint32_t reads;                 // chunks of the weights, as bits: until its gradient is complete
    uint64_t seen[RANKS_CHUNKS];    // what it read
    char    *slot[MU_CORE_SLOTS];   // its messages; of the world's block
    int64_t  marked[MU_CORE_SLOTS]; // step of the summed parameter in it
} ranks_learner;

typedef struct ranks_group {        // mu_relay_group, and the core of the group
    int       number, rank;
    mu_core  *core;                 // owned
    ranks_learner *learner;         // (own) of the world's
    int64_t   step;
    bool      begun, complete, formed, given, left, stopped, last;
    int64_t   may;
    mu_deal   deal;
    bool      takes_part[RANKS_OWN];
    int64_t   done[RANKS_OWN];
    mu_gradient_id found[RANKS_OWN];
    int       n_found, n_sent;
    bool      added, sent;
    float     sum[MU_CORE_SLOTS][RANKS_PART];
    int64_t   granted, version, used[MU_CORE_SLOTS], coming, came;
    float     weights[RANKS_FLOATS];
    int64_t   shown[RANKS_CHUNKS];  // version, of its own core, that learners may read
    int       chunk;                // the next to be shown
} ranks_group;

typedef struct ranks_rank {         // mu_relay
    int       rank, first;          // number of its first group
    mu_relay_tree tree;             // blocks owned
    int       owed[MU_TOPICS];
    int64_t   stop_at;
    bool      wants_stop, said_stop, asked, stops, closed;
    bool      look_due;             // RANKS_LOOK is under way
    bool      stopped;              // for a while: a look is late
    int64_t   asked_at;             // when it asked for weights
    int32_t   inbox, inbox_last;    // letters that arrived, in order; -1 = none
} ranks_rank;

typedef struct ranks_letter {
    mu_wire  w;                     // until it departs
    uint16_t from, to, topic;
    int32_t  next;                  // in its link, an inbox, or the free list
    size_t   bytes;
    _Alignas(8) unsigned char data[RANKS_FRAME];        // from then on
} ranks_letter;

typedef struct ranks_link {
    int32_t  waiting, last_waiting, flying, last_flying;        // letters; -1 = none
    bool     departs;               // RANKS_DEPART is under way
    int64_t  arrives;               // when the last one does
} ranks_link;

typedef struct ranks_plan {
    int       ranks, own_groups, groups, own;   // groups of a rank, of all; learners of a group
    mu_architecture architecture;
    mu_setup  setup;                // what the root reads of it
    mu_position at;
    int64_t   steps;                // of the training, 0 = it has no end
    int64_t   end;                  // of the samples: behind a whole step; INT64_MAX = there is none
    sim_spread spread;
    int64_t   compute, look, delay; // mean times; delay: of a frame
    int64_t   detect, restart, fault_gap;
    int       locked;               // thousandths: how often a parent does not get the lock of a group's core
    bool      holds;                // the root, at the beginning
    bool      kills, hangs, stalls, stops;      // faults
} ranks_plan;

// ---- the book ----
typedef enum ranks_fate { RANKS_OPEN, RANKS_WHOLE, RANKS_APPLIED, RANKS_REJECTED } ranks_fate;

typedef struct ranks_gradient {     // of a group
    int64_t   step, version, first, rows;       // first: sample of the training
    int64_t   sum;                  // the float of the group
    int       learners;
    ranks_fate fate;
} ranks_gradient;

typedef struct ranks_book {
    ranks_gradient gradient[RANKS_GROUPS][RANKS_KEPT];
    int64_t  taken[RANKS_GROUPS], used[RANKS_GROUPS];   // samples: computed; applied or rejected
    int64_t  granted[RANKS_GROUPS], fated[RANKS_GROUPS];        // gradients
    int64_t  n_dealt[RANKS_GROUPS], dealt[RANKS_GROUPS][RANKS_DEALT];   // steps; where their samples begin
    int64_t  steps_dealt;           // of all groups
    bool     ended[RANKS_GROUPS];   // the root has told it
    bool     left[RANKS_GROUPS];    // the root was told
    int      n_left, phase;
    int64_t  version;               // updates seen
    int64_t  applied, rejected, pushed;         // gradients of learners
    int64_t  samples_applied, samples_rejected;
    int64_t  n_stale, stale_sum, stale_max;    // behind a warm start
    uint8_t *sample;                // (RANKS_SAMPLES) BOOK_*; owned
    int64_t  top;                   // one past the last that was touched
    uint64_t *history;              // (RANKS_HISTORY x RANKS_CHUNKS) of the weights; owned
    bool     predicted;
    float    was[RANKS_FLOATS];     // before the update in hand
    double   wanted[RANKS_FLOATS];  // behind it
    char     why[240];              // what is wrong; "" = nothing
} ranks_book;

typedef struct ranks_world {
    sim_opts   opts;
    ranks_plan plan;
    ranks_book book;
    sim_queue  queue;
    uint64_t   rng, hash;
    int64_t    seed, now, events, since_progress;
    int64_t    n_own;               // events that are not faults
    bool       faults_on, stopping;
    bool       mutated;             // the mutant has done it
    // what the root takes for a training
    mu_session session;
    mu_job    *job;                 // owned, as the session it belongs to
    mu_session *opened;
    mu_training training;
    mu_updater updater;
    mu_params  params;
    mu_param   param[2], *list[2];
    float     *value;               // owned
    mu_wire_forms forms;            // owned
    mu_wire_shape shape;
    mu_wire_frame frame;            // owned
    bool       has_frame;
    mu_root    root;
    bool       has_root;
    mu_grant   pending[RANKS_GROUPS];
    float      out[RANKS_GROUPS][RANKS_FLOATS];
    ranks_rank rank[RANKS_MOST];
    ranks_link link[RANKS_MOST][RANKS_MOST];
    ranks_group group[RANKS_GROUPS];
    ranks_learner *learner;         // (RANKS_GROUPS x RANKS_OWN) owned
    char      *slots;               // owned
    ranks_letter *letter;           // (RANKS_LETTERS) owned
    int32_t    free_letter;
} ranks_world;

bool ranks_create(ranks_world *w, const sim_opts *o);           // false: no memory, or no folder for a file
void ranks_destroy(ranks_world *w);
bool ranks_run(ranks_world *w, int64_t seed);                   // as sim_world_run

void ranks_plan_draw(ranks_plan *p, const sim_opts *o, const mu_updater *u, uint64_t *rng);

bool ranks_wrong(ranks_world *w, const char *format, ...) MU_PRINTF(2, 3);      // keeps the first; false
static inline bool ranks_good(const ranks_world *w) { return w->book.why[0] == 0; }
void ranks_check(ranks_world *w, mu_status st, const mu_err *err);      // what a call of ours answered

// ---- ranks_relay.c ----
void ranks_look(ranks_world *w, ranks_rank *r);

// ---- ranks_wire.c ----
mu_status ranks_granted(void *world, int group, const mu_grant *grant, mu_err *err);
mu_status ranks_dealt(void *world, int group, const mu_lease *lease, mu_err *err);
bool ranks_give(ranks_world *w, ranks_group *g);
void ranks_tell(ranks_world *w, ranks_rank *r);
void ranks_take_all(ranks_world *w, ranks_rank *r);

// ---- ranks_world.c ----
void ranks_post(ranks_world *w, int64_t delay, ranks_kind kind, int whom, uint32_t mark);
void ranks_poke(ranks_world *w, ranks_rank *r);                 // something is new for its parent
void ranks_send(ranks_world *w, int from, int to, mu_node_topic topic, const mu_wire *frame);
void ranks_wake(ranks_world *w, ranks_group *g);                // learners that hold ask again
void ranks_show(ranks_world *w, ranks_group *g);                // those that wait for weights read
void ranks_progress(ranks_world *w);
int64_t ranks_time(ranks_world *w, int64_t mean);
static inline ranks_rank *ranks_of(ranks_world *w, const ranks_group *g) { return &w->rank[g->rank]; }
static inline bool ranks_leads(const ranks_rank *r) { return r->rank == 0; }

// ---- ranks_book.c ----
void ranks_book_init(ranks_world *w);
int64_t ranks_book_number(int group, int64_t step, int learner);        // the gradient of a learner
void ranks_book_push(ranks_world *w, ranks_group *g, const mu_gradient_id *id);         // the group has it
void ranks_book_computed(ranks_world *w, ranks_group *g, const ranks_learner *l);       // on these weights
void ranks_book_whole(ranks_world *w, const ranks_group *g);   // it has said that its step is complete
void ranks_book_granted(ranks_world *w, int group, const mu_grant *grant);      // NULL: it is told of the end
void ranks_book_dealt(ranks_world *w, int group, const mu_lease *lease);
void ranks_book_go(ranks_world *w, ranks_group *g, const mu_grant *grant);      // a learner begins
void ranks_book_left(ranks_world *w, int group);
void ranks_book_update(void *world, float lr, int64_t update);                  // by the rule, before it acts
void ranks_book_look(ranks_world *w);           // behind mu_root_go_on
void ranks_book_stands(ranks_world *w);         // where a run resumed now would go on
void ranks_book_end(ranks_world *w);
uint64_t ranks_hash(const float *from, int n);

// Wrong drivers.
typedef enum ranks_mutant {
    RANKS_M_NONE, RANKS_M_COMPLETE_TWICE, RANKS_M_NO_GRANT, RANKS_M_EARLY_WEIGHTS, RANKS_M_NO_LEAVE,
    RANKS_M_NO_ASK, RANKS_M_DISORDER, RANKS_M_SLOT_LENT, RANKS_M_SUM_SHORT, RANKS_M_SUM_TWICE,
    RANKS_M_FALSE_VERSION, RANKS_M_GRANT_LOST, RANKS_M_HALF_WEIGHTS, RANKS_M_TREE_LENT,
    RANKS_M_NO_WATCHDOG, RANKS_M_OLD_MESSAGE, RANKS_M_NO_STOP, RANKS_M_NOT_GIVEN_UP,
    RANKS_M_EARLY_STOP, RANKS_M_BEYOND_END, RANKS_M_DEALT_TWICE, RANKS_M_LEASE_LOST, RANKS_M_NO_HALT,
    RANKS_M_NO_END, RANKS_M_EARLY_COMPLETE,
    RANKS_M_ROOT,                   // and those after it: one field of the root each
    RANKS_M_LAST = RANKS_M_ROOT + 5,
} ranks_mutant;
bool ranks_mutant_is(const ranks_world *w, ranks_mutant m);
void ranks_mutant_scribble(ranks_world *w);
const char *ranks_mutant_name(int mutant);

#endif

// SPDX-License-Identifier: Apache-2.0
// sim.h - deterministic simulator of the protocol core: learners, watchdog and server in one thread.
//
// Virtual time. Every process of a run is a small state machine that has at most one event of its own under
// way; messages (pushes) travel by themselves, so that they arrive although their sender is dead or replaced.
// Everything is drawn from one seed: the same seed gives the same events, bit for bit.
//
//   plan.c    what a seed draws: protocol, learners, samples, ends, times, which faults
//   world.c   processes and messages: joins, leases, asks, pushes; the server; the event loop
//   fault.c   deaths, hangs, pauses, duplicates, forgeries, a server that dies in an update, stops
//   book.c    the simulator's own account of everything, kept without looking into the core
//   mutant.c  drivers that are wrong on purpose: proof that the checks can fail
//   queue.c   events by time
//   ranks.h   the same over two levels: groups of learners on ranks, and the root that they train
//   main.c    options, many seeds in many processes, the staleness figures
//
// A seed is a sequence of episodes (runs) until its events are used up. After every event the book must agree
// with what the core answered. The full comparison of core and book (mu_core_check, book_check) is O(lambda):
// it is made after every event up to 16 learners, after every lambda/16-th beyond, and always after a loss, a
// join, a stop and at the end.
#ifndef MU_TEST_SIM_H
#define MU_TEST_SIM_H

#include "ps/protocol.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_MAX_LEARNERS = 4096,
    SIM_MAX_SAMPLES = 1 << 20,  // in one episode: the run is stopped before more are leased
    SIM_MAX_BATCHES = 8,        // of one lease
    SIM_BINS = 4096,            // staleness histogram
};

// ---- random numbers (splitmix64) ----
static inline uint64_t sim_next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static inline int64_t sim_below(uint64_t *state, int64_t n) {  // [0, n), n < 2^31
    return (int64_t)((sim_next(state) >> 32) * (uint64_t)n >> 32);
}
static inline bool sim_chance(uint64_t *state, int permille) { return sim_below(state, 1000) < permille; }

// ---- events ----
typedef enum sim_kind {
    SIM_START,                  // a process begins: join
    SIM_ASK, SIM_DONE,          // a process asks; has computed its gradient
    SIM_PUSH,                   // a message arrives
    SIM_LOST,                   // the watchdog has seen a death
    SIM_RESUME,                 // a paused process goes on
    SIM_PAUSE,
    SIM_APPLY,                  // the server has finished an update
    SIM_SERVER,                 // a dead server goes on
    SIM_FAULT,                  // time for the next fault
    SIM_STOP,
    SIM_MOVE,                   // the parent moves a halt that was reached
} sim_kind;

typedef struct sim_event {
    uint64_t key;               // time << 20 | number: no two are equal
    uint32_t mark;              // generation of the process or server; message index for SIM_PUSH
    uint16_t learner, kind;
} sim_event;

typedef struct sim_queue {          // by key, the least first
    int64_t     n, room;
    uint32_t    number;             // of the next event, modulo 2^20
    sim_event  *event;              // owned
} sim_queue;

bool sim_queue_create(sim_queue *q, int64_t room);              // false: no memory
void sim_queue_destroy(sim_queue *q);
void sim_queue_clear(sim_queue *q);
// At a time; events of the same time keep their order. False: it is full.
bool sim_queue_put(sim_queue *q, int64_t time, int kind, int whom, uint32_t mark);
sim_event sim_queue_take(sim_queue *q);
static inline int64_t sim_event_time(const sim_event *e) { return (int64_t)(e->key >> 20); }

// ---- the plan of an episode ----
typedef enum sim_spread { SIM_EQUAL, SIM_UNEQUAL, SIM_HEAVY, SIM_STRAGGLER } sim_spread;
enum {                          // faults, as bits
    SIM_F_KILL = 1,
    SIM_F_HANG = 2,             // replaced, but its push arrives later
    SIM_F_PAUSE = 4,
    SIM_F_SWIZZLE = 8,          // some stop one by one, and go on in another order
    SIM_F_ALL = 16,             // everybody dies at once
    SIM_F_SERVER = 32,
    SIM_F_DUPLICATE = 64,
    SIM_F_FORGE = 128,
    SIM_F_STOP = 256,
    SIM_F_TEAR = 512,           // a change of the core is thrown away
    SIM_F_EVERY = 1023,
};

typedef struct sim_plan {
    mu_core_config config;
    sim_spread spread;
    int64_t    compute, message, apply;         // mean times
    int64_t    detect, restart;                 // of the watchdog
    int64_t    fault_gap;                       // mean time between faults
    int        faults;                          // mask
    int        halts;                           // updates from one halt to the next, at most; 0 = none
    int        prefetch;                        // leases a process wants to hold
    bool       copies;                          // weights are copied some time after the grant
} sim_plan;

typedef struct sim_opts {
    int64_t seeds, first, events;
    int     jobs, learners, splits, bound;      // learners 0, splits 0: drawn; bound -1: drawn
    int     protocol;                           // -1: drawn
    int     mutant;                             // 0: none
    bool    trace, stats, self_test, hash;
    bool    ranks;                              // two levels (ranks.h)
} sim_opts;

void sim_plan_draw(sim_plan *p, const sim_opts *o, uint64_t *rng);
void sim_protocol_draw(mu_core_config *c, const sim_opts *o, uint64_t *rng);    // for c->learners
static inline int64_t sim_pick(uint64_t *rng, int64_t low, int64_t high) {      // [low, high]
    return low + sim_below(rng, high - low + 1);
}

// ---- the book ----
typedef struct sim_batch { int64_t first, rows; } sim_batch;

typedef struct book_learner {
    uint32_t  incarnation;
    bool      present, computing;
    int32_t   n_owed, handed, head;             // batches promised and not used; ring from head
    int64_t   begun, accepted, applied, rejected, lost;
    int64_t   phase_step;                       // its first gradient under the protocol in force
    mu_gradient_id now;                         // what it computes
    sim_batch owed[MU_CORE_LEASES * SIM_MAX_BATCHES];
} book_learner;

enum { BOOK_FREE, BOOK_PROMISED, BOOK_WAITING, BOOK_APPLIED, BOOK_REJECTED };

typedef struct book {
    mu_core_config config;
    const mu_protocol_class *target;            // the protocol in force after a warm start
    int            phase;                       // of those of the configuration
    int64_t        sync_end;                    // steps by hardsync, before a stop
    int64_t        version, top;                // top: one past the highest sample promised
    bool           stopping;
    int32_t        applying;                    // updates of the run in progress
    int32_t        n_parts, n_computing;
    int32_t        fifo_head, fifo_n, fifo_size;
    int64_t        sum_applied, sum_rejected;   // samples
    book_learner  *learner;
    mu_gradient_id *fifo, *part;
    uint8_t       *sample;                      // state of each, from first_sample
    int64_t        n_stale, stale_sum, stale_max;
    int64_t       *stale_bin;
    char           why[200];                    // what is wrong; "" = nothing
} book;

void book_init(book *b, const mu_core_config *config);
bool book_wrong(book *b, const char *format, ...) MU_PRINTF(2, 3);      // keeps the first; false
static inline bool book_good(const book *b) { return b->why[0] == 0; }
void book_join(book *b, int learner, uint32_t incarnation);
void book_lost(book *b, int learner);
void book_lease(book *b, int learner, const mu_lease *lease);
void book_go(book *b, int learner, const mu_grant *grant);
mu_push_result book_expect(const book *b, const mu_gradient_id *id);
void book_push(book *b, const mu_gradient_id *id, mu_push_result verdict);
void book_form(book *b, const mu_core *c);
void book_applied(book *b);
void book_stop(book *b);
void book_abandon(book *b);
void book_check(book *b, const mu_core *c);     // the core's numbers are the book's
void book_end(book *b, const mu_core *c);       // nothing is left over

// ---- the world ----
typedef enum sim_state {
    SIM_GONE, SIM_STARTING, SIM_ASKING, SIM_HELD, SIM_COMPUTING, SIM_PUSHING, SIM_ENDED,
} sim_state;

typedef struct sim_process {
    uint8_t  state;             // sim_state
    bool     paused;
    int8_t   deferred;          // sim_kind that came while paused, -1
    uint32_t mark;              // generation: events of earlier ones are void
    uint32_t incarnation;
    int32_t  held_at;           // in the list of the held
    int32_t  slow;              // compute time in 1/16 of the plan's
    mu_grant grant;
} sim_process;

typedef struct sim_message {
    mu_gradient_id id;
    uint32_t mark;              // of the sender
    bool     copy;              // a duplicate: must change nothing
    int32_t  next;              // free list
} sim_message;

typedef struct sim_world {
    sim_opts    opts;
    sim_plan    plan;
    uint64_t    rng, hash;
    int64_t     now, events, since_progress;
    int64_t     seed;
    int32_t     check_every, until_check;
    bool        faults_on;
    bool        moving;         // SIM_MOVE is under way
    bool        scribbled;      // a mutant has written its wrong number
    mu_core    *core, *spare;
    size_t      core_bytes;
    book        book;
    sim_process *process;
    int32_t    *held, n_held;
    bool        server_dead;
    uint32_t    server_mark;
    int64_t     n_own;          // events without SIM_FAULT
    sim_queue   queue;
    sim_message *message;
    int32_t     free_message;
} sim_world;

bool sim_world_create(sim_world *w, const sim_opts *o);         // all memory; false when there is none
void sim_world_destroy(sim_world *w);
// Runs one seed. False: w->book.why says what is wrong, at event w->events.
bool sim_world_run(sim_world *w, int64_t seed);

void sim_post(sim_world *w, int64_t delay, sim_kind kind, int learner, uint32_t mark);
void sim_trace(int64_t event, int64_t now, const char *format, ...) MU_PRINTF(3, 4);
#define SIM_TRACE(w, ...)                                                                                    \
    do {                                                                                                     \
        if ((w)->opts.trace) sim_trace((w)->events, (w)->now, __VA_ARGS__);                                  \
    } while (0)
int64_t sim_time(sim_world *w, int64_t mean);   // 0 .. 2 * mean
void sim_wake(sim_world *w);                    // everybody who was held asks again
void sim_look(sim_world *w);                    // the server looks for work
void sim_die(sim_world *w, int learner, bool zombie);           // its process is gone, or hangs
void sim_pause(sim_world *w, int learner, int64_t length);
void sim_send(sim_world *w, const sim_message *m, int64_t delay);
void sim_stop(sim_world *w);
void sim_abandon(sim_world *w);                 // all processes end at once, nothing is waited for
void sim_full_check(sim_world *w);

void sim_fault(sim_world *w);                   // the next fault happens
// The wrong drivers of --self-test.
typedef enum sim_mutant {
    SIM_M_NONE, SIM_M_COMMIT_TWICE, SIM_M_NO_JOIN, SIM_M_NO_FENCE, SIM_M_LEASE_TWICE, SIM_M_TORN_COMMIT,
    SIM_M_FALSE_CLOCK, SIM_M_NO_WAKE, SIM_M_NO_WATCHDOG, SIM_M_WRONG_SAMPLES, SIM_M_DOUBLE_APPLY,
    SIM_M_NOT_NOTED, SIM_M_NOT_COPIED, SIM_M_NO_MOVE,
    SIM_M_SCRIBBLE,             // and those after it: one field of the core each
    SIM_M_LAST = SIM_M_SCRIBBLE + 10,
} sim_mutant;
bool sim_mutant_is(const sim_world *w, sim_mutant m);           // and now is the moment
void sim_mutant_scribble(sim_world *w);
const char *sim_mutant_name(int mutant);

#endif

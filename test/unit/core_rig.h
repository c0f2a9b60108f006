// SPDX-License-Identifier: Apache-2.0
// core_rig.h - shared by the tests of the protocol core: a core from a protocol's name, events in one word,
// answers compared with what the test expects. Every event is followed by mu_core_check.
#ifndef TEST_UNIT_CORE_RIG_H
#define TEST_UNIT_CORE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ps/protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rig {
    mu_core *c;
    uint32_t incarnation[64];
    mu_grant grant[64];         // the last one of each learner
} rig;

static inline mu_core_config rig_config(const char *protocol, int learners) {
    const int index = mu_protocol_index(protocol);
    if (index < 0) fail_msg("no protocol `%s`", protocol);
    return (mu_core_config){.learners = learners, .protocol = index, .splits = 1, .lease_batches = 2,
                            .global_batch = 4 * learners, .rows = 4, .end_sample = INT64_MAX};
}

static inline void rig_check(const rig *r) {
    char why[200];
    if (!mu_core_check(r->c, why, sizeof why)) fail_msg("invariant broken: %s", why);
}

static inline void rig_join(rig *r, int learner) {
    r->incarnation[learner] = mu_core_join(r->c, learner);
    rig_check(r);
}

static inline rig rig_make(const mu_core_config *config) {
    rig r = {.c = malloc(mu_core_size(config->learners))};
    assert_non_null(r.c);
    mu_core_init(r.c, config);
    rig_check(&r);
    for (int i = 0; i < config->learners; i++) rig_join(&r, i);
    return r;
}
static inline void rig_fini(rig *r) { free(r->c); }

static inline mu_answer rig_ask(rig *r, int learner) {
    const mu_answer a = mu_core_ask(r->c, learner, r->incarnation[learner], &r->grant[learner]);
    rig_check(r);
    return a;
}

// Leases if nothing is in hand, as the prefetch thread would have.
static inline mu_answer rig_begin(rig *r, int learner) {
    mu_lease lease;
    bool ended;
    if (mu_core_learner_at(r->c, learner)->handed == 0) (void)mu_core_lease(r->c, learner, &lease, &ended);
    rig_check(r);
    return rig_ask(r, learner);
}

static inline mu_gradient_id rig_id(const rig *r, int learner) {
    const mu_grant *g = &r->grant[learner];
    return (mu_gradient_id){learner, r->incarnation[learner], g->step, g->version, g->first, g->rows};
}
static inline mu_push_result rig_push(rig *r, int learner) {
    const mu_gradient_id id = rig_id(r, learner);
    const mu_push_result v = mu_core_push(r->c, &id);
    rig_check(r);
    return v;
}
static inline bool rig_form(rig *r) {
    const bool formed = mu_core_form(r->c);
    rig_check(r);
    return formed;
}
static inline void rig_applied(rig *r) {
    mu_core_applied(r->c);
    rig_check(r);
}
static inline void rig_lost(rig *r, int learner) {
    mu_core_lost(r->c, learner);
    rig_check(r);
}

// The whole way of one gradient up to the queue.
static inline void rig_gradient(rig *r, int learner) {
    const mu_answer a = rig_begin(r, learner);
    if (a != MU_GO) fail_msg("learner %d: answer %d, not GO", learner, a);
    const mu_push_result v = rig_push(r, learner);
    if (v != MU_ACCEPTED) fail_msg("learner %d: verdict %d, not ACCEPTED", learner, v);
}
// Of part i of the update in progress.
static inline double rig_weight(const rig *r, int i) {
    return (double)mu_core_weight(r->c, mu_core_staleness(r->c, i), r->c->n_parts);
}
static inline void rig_update(rig *r, int parts) {
    if (!rig_form(r)) fail_msg("no update of %d parts at version %" PRId64, parts, r->c->version);
    assert_int_equal(r->c->n_parts, parts);
    rig_applied(r);
}

typedef struct staleness {
    double  mean;
    int64_t max;
} staleness;

// Learners of equal speed in simulated time: a gradient takes 0.7 to 1.3, an update none. The first gradients
// are left out. Where learners apply gradients themselves the core counts gradients, learners / splits an
// update.
static inline staleness rig_staleness(const mu_core_config *config, uint64_t seed) {
    enum { GRADIENTS = 20000, SKIPPED = 1000 };
    const int learners = config->learners;
    const mu_rng_key key = mu_rng_key_make(seed, "staleness");
    rig r = rig_make(config);
    const bool itself = !mu_protocol_at(config->protocol)->take;
    const int group = itself ? learners / config->splits : 1; // gradients of an update
    double now = 0, done[64] = {0};
    int64_t n = 0, sum = 0, max = 0;
    for (int i = 0; i < GRADIENTS; i++) {
        int next = -1;
        for (int l = 0; l < learners; l++) {
            uint32_t draw[4];
            mu_rng_block(key, (uint64_t)i, (uint64_t)l, draw);
            if (!mu_core_learner_at(r.c, l)->computing && rig_begin(&r, l) == MU_GO)
                done[l] = now + 0.7 + 0.6 * (double)mu_rng_to_uniform(draw[0]);
            if (mu_core_learner_at(r.c, l)->computing && (next < 0 || done[l] < done[next])) next = l;
        }
        if (next < 0) fail_msg("nobody computes at version %" PRId64, r.c->version);
        now = done[next];
        int64_t stale = r.c->version / group - r.grant[next].version / group;
        assert_int_equal(rig_push(&r, next), MU_ACCEPTED);
        while (itself || mu_core_form(r.c)) {
            for (int k = 0; i >= SKIPPED && k < (itself ? 1 : r.c->n_parts); k++) {
                if (!itself) stale = mu_core_staleness(r.c, k);
                n++, sum += stale, max = stale > max ? stale : max;
            }
            if (itself) break;
            mu_core_applied(r.c);
        }
    }
    rig_fini(&r);
    return (staleness){(double)sum / (double)n, max};
}

#define assert_grant(r, l, step_, version_, first_, rows_, global_)                                          \
    do {                                                                                                     \
        const mu_grant g_ = (r)->grant[l];                                                                   \
        assert_int_equal(g_.step, step_);                                                                    \
        assert_int_equal(g_.version, version_);                                                              \
        assert_int_equal(g_.first, first_);                                                                  \
        assert_int_equal(g_.rows, rows_);                                                                    \
        assert_int_equal(g_.global_rows, global_);                                                           \
    } while (0)

static inline void assert_ledger(const rig *r, int64_t produced, int64_t applied, int64_t rejected,
                                 int64_t lost) {
    const mu_ledger s = mu_core_ledger(r->c);
    assert_int_equal(s.produced, produced);
    assert_int_equal(s.applied, applied);
    assert_int_equal(s.rejected, rejected);
    assert_int_equal(s.lost, lost);
    assert_int_equal(s.in_flight, produced - applied - rejected - lost);
}

#endif

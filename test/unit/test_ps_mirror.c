// SPDX-License-Identifier: Apache-2.0
// test_ps_mirror.c - a learner whose predecessor left a torn mirror gets whole weights again: from a learner
// that lives, from one that has ended, or, where there is none, by going on with what it has.
#include "unit/threads_help.h"

#include "ps/client_shared.h"
#include "ps/mirror.h"

#include <pthread.h>
#include <sched.h>

enum { LEARNERS = 3, SELF = 1, FIRST_VERSION = 7 };

typedef struct stage {
    params blocks;
    bound updater;
    mu_setup setup;
    mu_shared shared;
    block_set before; // where the parameters lived
    uint64_t n_live;  // blocks of memory
} stage;

// All have begun, on weights that differ, so that it shows whose copy one has. Nobody lives.
static void stage_open(stage *s) {
    mu_err err = {0};
    *s = (stage){.n_live = mu_alloc_get_stats().n_live};
    (void)bound_get(&s->updater, "{type: sgd, momentum: 0.9, rate: 0.01}");
    params_init(&s->blocks, s->updater.u->class->n_slots);
    s->before = blocks_make(&s->blocks);
    mu_params_rebase(&s->blocks.ps, s->before.value, s->before.slot);
    const int32_t protocol = mu_protocol_index("mirror");
    s->setup = (mu_setup){.workers = 1, .learners = LEARNERS, .protocol = mu_protocol_at(protocol), .rows = 2,
                                .global_batch = 6, .reference_batch = 6, .rate_rule = MU_RATE_MEAN,
                                .hang_timeout = 1, .splits = LEARNERS, .own = 1};
    const mu_core_config core = {.learners = LEARNERS, .protocol = protocol, .splits = LEARNERS, .own = 1,
                                 .rate_rule = MU_RATE_MEAN, .lease_batches = 2, .max_leases = 2, .rows = 2,
                                 .global_batch = 6, .first_version = FIRST_VERSION, .end_sample = 600};
    mu_shared_opts o = {.run_id = "mirror", .job_name = "mirror", .setup = &s->setup, .core = &core,
                       .params = &s->blocks.ps, .updater = s->updater.u, .n_records = 100};
    if (mu_shared_create(&o, &s->shared, &err) != MU_OK) fail_msg("%s", err.msg);
    for (int l = 0; l < LEARNERS; l++) {
        mu_own_fill(&s->shared, l, 1);
        fill(mu_own_weights(&s->shared, l), s->blocks.ps.count, (uint64_t)l, 1);
        fill(mu_own_history(&s->shared, l, 0), s->blocks.ps.count, (uint64_t)(10 + l), 1);
    }
}

static void stage_close(stage *s) {
    assert_int_equal(atomic_load(&s->shared.head->lock_repairs), 0); // nobody died inside the lock
    mu_shared_close(&s->shared);
    blocks_free(&s->before);
    params_fini(&s->blocks);
    bound_fini(&s->updater);
    assert_int_equal(mu_alloc_get_stats().n_live, s->n_live);
}

static void assert_weights_of(const stage *s, int learner) {
    const size_t bytes = s->blocks.ps.count * sizeof(float);
    const mu_shared *g = &s->shared;
    float *want = floats(s->blocks.ps.count);
    fill(want, s->blocks.ps.count, (uint64_t)learner, 1);
    if (memcmp(mu_own_weights(g, SELF), want, bytes)) fail_msg("not learner %d's weights", learner);
    fill(want, s->blocks.ps.count, (uint64_t)(10 + learner), 1);
    if (memcmp(mu_own_history(g, SELF, 0), want, bytes)) fail_msg("not learner %d's history", learner);
    free(want);
}

typedef struct successor {
    mu_shared shared;
    mu_shared_client client;
    mu_status status;
    mu_err err;
    _Atomic int done;
} successor;

static void *begin(void *ctx) {
    successor *s = ctx;
    s->client = (mu_shared_client){.base.learner = SELF, .shared = &s->shared};
    s->status = mu_mirror_exchange.enter(&s->client, &s->err);
    atomic_store(&s->done, 1);
    return NULL;
}

// Dies and begins again; `giver`, where there is one, works meanwhile.
static int64_t begin_again(stage *s, mu_shared_client *giver) {
    successor next = {.shared = s->shared};
    pthread_t thread;
    mu_mirror_exchange.lost(&s->shared, SELF);
    atomic_store(&s->shared.learner[SELF].pid, 1);
    assert_int_equal(pthread_create(&thread, NULL, begin, &next), 0);
    while (giver && !atomic_load(&next.done)) {
        (void)mu_mirror_exchange.may_ask(giver);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    pthread_join(thread, NULL);
    if (next.status != MU_OK) fail_msg("%s", next.err.msg);
    mu_mirror_exchange.close(&next.client);
    return atomic_load(&s->shared.head->torn_updates);
}

// One that lives and is whole gives a copy, also where another one waits for one itself.
static void test_from_the_living(void **unused) {
    (void)unused;
    for (int k = 0; k < 4; k++) {
        const int giver = k & 2, other = 2 - giver;
        stage s;
        mu_err err = {0};
        stage_open(&s);
        mu_shared work = s.shared; // the giver's view
        atomic_store(&s.shared.learner[giver].pid, 1);
        mu_shared_client c = {.base.learner = giver, .shared = &work};
        if (mu_mirror_exchange.enter(&c, &err) != MU_OK) fail_msg("%s", err.msg);
        if (k & 1) {
            atomic_store(&s.shared.learner[other].pid, 1);
            mu_mirror_exchange.lost(&s.shared, other);
        }
        assert_int_equal(begin_again(&s, &c), 0);
        assert_weights_of(&s, giver);
        assert_int_equal(atomic_load(&s.shared.learner[SELF].mirror_version), FIRST_VERSION);
        mu_mirror_exchange.close(&c);
        stage_close(&s);
    }
}

// Any learner may be the one that has ended, the first as well.
static void test_from_the_ended(void **unused) {
    (void)unused;
    for (int source = 0; source < LEARNERS; source += 2) {
        stage s;
        stage_open(&s);
        atomic_store(&s.shared.learner[source].mirror_ended, 1);
        assert_int_equal(begin_again(&s, NULL), 0);
        assert_weights_of(&s, source);
        stage_close(&s);
    }
}

// The one that was asked may end instead of giving. A request left behind would keep others from asking, and
// only its owner could withdraw it.
static void test_asked_and_ended(void **unused) {
    (void)unused;
    stage s;
    stage_open(&s);
    successor next = {.shared = s.shared};
    pthread_t thread;
    atomic_store(&s.shared.learner[0].pid, 1);
    mu_mirror_exchange.lost(&s.shared, SELF);
    atomic_store(&s.shared.learner[SELF].pid, 1);
    assert_int_equal(pthread_create(&thread, NULL, begin, &next), 0);
    while (atomic_load(&s.shared.head->mirror_wanted) != SELF + 1 && !atomic_load(&next.done)) sched_yield();
    atomic_store(&s.shared.learner[0].mirror_ended, 1);
    atomic_store(&s.shared.learner[0].pid, 0);
    pthread_join(thread, NULL);
    if (next.status != MU_OK) fail_msg("%s", next.err.msg);
    mu_mirror_exchange.close(&next.client);
    assert_weights_of(&s, 0);
    assert_int_equal(atomic_load(&s.shared.head->mirror_wanted), 0);
    stage_close(&s);
}

// One that died without an end may be half written. One that ended before the torn one got as far is too old:
// the log does not reach back to it. One that lives and waits has nothing to give. Then the first of those
// that wait goes on with what it has, and that is counted.
static void test_from_nobody(void **unused) {
    (void)unused;
    enum { DIED, TOO_OLD, WAITS, CASES };
    for (int k = 0; k < CASES; k++) {
        stage s;
        stage_open(&s);
        for (int l = 0; l < LEARNERS && k == TOO_OLD; l += 2) {
            atomic_store(&s.shared.learner[l].mirror_ended, 1);
            atomic_store(&s.shared.learner[l].mirror_version, FIRST_VERSION - 1);
        }
        if (k == WAITS) {
            mu_mirror_exchange.lost(&s.shared, SELF + 1);
            atomic_store(&s.shared.learner[SELF + 1].pid, 1);
        }
        assert_int_equal(begin_again(&s, NULL), 1);
        assert_weights_of(&s, SELF);
        assert_int_equal(atomic_load(&s.shared.learner[SELF].mirror_version), FIRST_VERSION);
        stage_close(&s);
    }
}

// What different processes write lies in different cache lines.
static void test_parts_begin_with_a_line(void **unused) {
    (void)unused;
    stage s;
    stage_open(&s);
    const mu_shared *g = &s.shared;
    const void *const at[] = {g->lock, g->rw, g->learner, g->executor, g->update, g->slice, g->weights,
                              g->history[0], g->snapshot, g->slots, mu_own_weights(g, SELF)};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        if ((uintptr_t)at[i] % 64)
            fail_msg("part %zu begins %zu bytes into a line", i, (uintptr_t)at[i] % 64);
    stage_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_the_living),
        cmocka_unit_test(test_from_the_ended),
        cmocka_unit_test(test_asked_and_ended),
        cmocka_unit_test(test_from_nobody),
        cmocka_unit_test(test_parts_begin_with_a_line),
    };
    return cmocka_run_group_tests_name("ps_mirror", tests, NULL, NULL);
}
